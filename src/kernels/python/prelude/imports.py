"""Hooks that run right after a module's first import. Until then they cost one dictionary lookup per import."""

import sys

_waiting = {}


def after(name, act):
    """Calls `act(module)` once the module has been imported: at once if it already is."""
    if name in sys.modules:
        _run(act, sys.modules[name])
        return
    acts = _waiting.setdefault(name, [])
    if act not in acts:
        acts.append(act)
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


class _Finder:
    """Delegates to the other finders, and wraps the loader they find."""

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
        # A copy is created without __init__, and its attributes are looked up before it has any.
        if name == "_loader":
            raise AttributeError(name)
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        # From here on it looks like any other module, also to its own code.
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        for act in _waiting.pop(module.__name__, ()):
            _run(act, module)
        if not _waiting and _finder in sys.meta_path:
            sys.meta_path.remove(_finder)


def _run(act, module):
    """A hook must not break the import."""
    try:
        act(module)
    except Exception as error:
        print(f"Plots of {module.__name__} may not be shown: {type(error).__name__}: {error}", file=sys.stderr)


_finder = _Finder()
