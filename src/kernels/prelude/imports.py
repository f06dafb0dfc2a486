"""Acts on a module right after its first import. Until then it costs one look into a dictionary per import."""

import sys

_waiting = {}


def after(name, act):
    """Calls `act(module)` once the module has been imported: now, if it has been already."""
    if name in sys.modules:
        _run(act, sys.modules[name])
        return
    acts = _waiting.setdefault(name, [])
    if act not in acts:
        acts.append(act)
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


class _Finder:
    """Finds nothing itself: asks the others, and puts itself between a module and its loader."""

    def find_spec(self, name, path=None, target=None):
        if name not in _waiting:
            return None
        for finder in sys.meta_path:
            find_spec = None if finder is self else getattr(finder, "find_spec", None)
            spec = find_spec(name, path, target) if find_spec else None
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec.loader)
                return spec
        return None


class _Loader:
    def __init__(self, loader):
        self._loader = loader

    def __getattr__(self, name):
        # A copy is made without __init__, and is asked for its attributes before it has any.
        if name == "_loader":
            raise AttributeError(name)
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        # From here on it is a module like any other, for its own code too.
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        for act in _waiting.pop(module.__name__, ()):
            _run(act, module)
        if not _waiting and _finder in sys.meta_path:
            sys.meta_path.remove(_finder)


def _run(act, module):
    """An import that works must not fail because of what we add to it."""
    try:
        act(module)
    except Exception as error:
        print(f"Plots of {module.__name__} may not be shown: {type(error).__name__}: {error}", file=sys.stderr)


_finder = _Finder()
