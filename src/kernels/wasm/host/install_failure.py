"""What stands in the way of a package. The kinds are those of install-frames.ts; the words for people are made there."""


class Failure(Exception):
    """One package that cannot be had."""

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
    """All that cannot be had, so that one answer names everything."""

    def __init__(self, failures):
        super().__init__(", ".join(str(failure) for failure in failures))
        self.failures = failures


class Unreachable(Exception):
    """A server that did not answer, or not with what was asked for."""
