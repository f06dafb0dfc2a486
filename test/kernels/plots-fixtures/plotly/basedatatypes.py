class BaseFigure:
    def __init__(self, *data, **layout):
        self.data = list(data)
        self.layout = layout

    def __repr__(self):
        return "Figure({…})"

    def show(self, *args, **options):
        import plotly.io

        return plotly.io.show(self, *args, **options)

    def _repr_html_(self):
        raise AssertionError("made without being asked")

    _repr_mimebundle_ = _repr_html_
