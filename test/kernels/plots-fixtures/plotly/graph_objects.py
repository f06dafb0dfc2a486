from plotly.basedatatypes import BaseFigure


class Figure(BaseFigure):
    pass
