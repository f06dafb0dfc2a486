from matplotlib.backend_bases import FigureCanvasBase, FigureManagerBase


class FigureCanvasAgg(FigureCanvasBase):
    pass


FigureCanvas = FigureCanvasAgg
FigureManager = FigureManagerBase


def new_figure_manager(num, *args, **options):
    from matplotlib.figure import Figure

    return FigureCanvasAgg.new_manager(Figure(*args, **options), num)


show = FigureManagerBase.pyplot_show
