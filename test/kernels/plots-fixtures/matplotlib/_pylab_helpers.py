class Gcf:
    figs = {}

    @classmethod
    def get_all_fig_managers(cls):
        return list(cls.figs.values())

    @classmethod
    def destroy_all(cls):
        for manager in cls.figs.values():
            manager.canvas.manager = None
        cls.figs.clear()
