import warnings


class FigureManagerBase:
    def __init__(self, canvas, num):
        self.canvas = canvas
        self.num = num
        canvas.manager = self

    def show(self):
        warnings.warn("this backend cannot show")

    @classmethod
    def pyplot_show(cls, *, block=None):
        warnings.warn("this backend cannot show")


class FigureCanvasBase:
    manager_class = FigureManagerBase

    def __init__(self, figure):
        self.figure = figure
        figure.canvas = self

    @classmethod
    def new_manager(cls, figure, num):
        return cls.manager_class(cls(figure), num)

    def start_event_loop(self, timeout=0):
        raise AssertionError("waits for events that never come")
