import json


def to_json(figure, validate=True):
    return json.dumps({"data": figure.data, "layout": figure.layout})


def to_html(figure, config=None, include_plotlyjs=True, validate=True, div_id=None):
    if figure.layout.get("title") == "no page":
        raise ValueError("the page\ncannot be made")
    script = "/* plotly.js */" if include_plotlyjs is True else ""
    return f"<html><script>{script}</script><div id={div_id}>{to_json(figure)}</div></html>"


def __getattr__(name):
    if name != "show":
        raise AttributeError(name)
    from plotly.io import _renderers

    return _renderers.show
