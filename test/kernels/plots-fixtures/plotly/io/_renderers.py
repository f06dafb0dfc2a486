def show(fig, renderer=None, validate=True, **options):
    raise AssertionError("opens a browser")
