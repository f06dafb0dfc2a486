"""great_tables: a table as HTML. Its repr is 17 kB of internals and useless to a reader."""

from _cellwright import imports, mime


def install(_show):
    imports.after("great_tables.gt", _register)


def _register(module):
    mime.register(module.GT, lambda table: {"text/html": table._repr_html_(), "text/plain": "<great_tables table>"})
