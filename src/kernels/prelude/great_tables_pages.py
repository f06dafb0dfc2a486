"""great_tables: a table as its page. What its repr says, 17 kB of its insides, says nothing to a reader."""

from _cellwright import imports, mime


def install(_show):
    imports.after("great_tables.gt", _register)


def _register(module):
    mime.register(module.GT, lambda table: {"text/html": table._repr_html_(), "text/plain": "<great_tables table>"})
