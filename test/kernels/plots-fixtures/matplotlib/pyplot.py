import importlib

import matplotlib
from matplotlib._pylab_helpers import Gcf
from matplotlib.figure import Figure


def _backend():
    return importlib.import_module(f"matplotlib.backends.backend_{matplotlib.rcParams['backend'].lower()}")


def figure(num=None, **options):
    num = num or max(Gcf.figs, default=0) + 1
    if num not in Gcf.figs:
        backend = _backend()
        make = getattr(backend, "new_figure_manager", None)
        manager = make(num, **options) if make else backend.FigureCanvas.new_manager(Figure(**options), num)
        manager.canvas.figure.number = num
        Gcf.figs[num] = manager
    else:
        # The active figure is the last one, as in matplotlib.
        Gcf.figs[num] = Gcf.figs.pop(num)
    return Gcf.figs[num].canvas.figure


def gcf():
    return list(Gcf.figs.values())[-1].canvas.figure if Gcf.figs else figure()


def plot(line="line"):
    gcf().drawn.append(line)


def savefig(*args, **options):
    gcf().savefig(*args, **options)


def show(*args, **options):
    backend = _backend()
    (getattr(backend, "show", None) or backend.FigureCanvas.manager_class.pyplot_show)(*args, **options)


def pause(interval):
    if Gcf.figs:
        show(block=False)
        gcf().canvas.start_event_loop(interval)


def close(_which="all"):
    Gcf.destroy_all()
