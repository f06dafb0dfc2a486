"""Why packages cannot be installed. The kinds are those of frames.ts; the server turns them into messages."""


class Failure(Exception):
    """One package that cannot be installed."""

    def __init__(self, kind, name, wanted="", detail=""):
        super().__init__(f"{kind}: {name}")
        self.kind = kind
        self.name = name
        self.wanted = wanted or name
        self.detail = detail
        self.chain = ()

    def summary(self):
        return {
            "kind": self.kind,
            "name": self.name,
            "wanted": self.wanted,
            "chain": list(self.chain),
            "detail": self.detail,
        }


class Failed(Exception):
    """All packages that cannot be installed, so that one error names every one of them."""

    def __init__(self, failures):
        super().__init__(", ".join(str(failure) for failure in failures))
        self.failures = failures


class Unreachable(Exception):
    """A server that did not answer, or gave an unusable answer."""


class NoConnection(Unreachable):
    """The server did not answer at all: its other files are unreachable, too."""
