"""Finds all packages that a set of requirements needs, and records which package needs which."""

import asyncio
from collections import defaultdict

from install_failure import Failed, Failure
from micropip._utils import validate_constraints
from micropip._vendored.packaging.src.packaging.requirements import InvalidRequirement, Requirement
from micropip._vendored.packaging.src.packaging.specifiers import SpecifierSet
from micropip._vendored.packaging.src.packaging.utils import canonicalize_name

# A round with conflicting version requirements is repeated with all of them known.
_MAX_ROUNDS = 20


async def resolve(sources, request, report):
    """The packages, sorted by name. Raises Failed with all packages that cannot be installed."""
    roots = [_parse(requirement) for requirement in request["requirements"]]
    kept, _ = validate_constraints(request["constraints"])
    wishes = {name: {(str(requirement.specifier), ("this session",))} for name, requirement in kept.items()}
    wishes = defaultdict(set, wishes)
    for _ in range(_MAX_ROUNDS):
        attempt = _Round(sources, wishes, report)
        await asyncio.gather(*(attempt.add(root, ()) for root in roots if not root.marker or root.marker.evaluate()))
        if not attempt.conflicts:
            break
        for name, wish in attempt.conflicts:
            wishes[name].add(wish)
    else:
        raise Failed([Failure("conflict", name, detail=attempt.conflict_text(name)) for name, _ in attempt.conflicts])
    if not attempt.failures:
        await asyncio.gather(*(attempt.download(package) for package in attempt.found.values()))
    if attempt.failures:
        raise Failed(_culprits_first(attempt.failures, sources))
    return [attempt.found[name] for name in sorted(attempt.found)]


class _Round:
    def __init__(self, sources, wishes, report):
        self._sources = sources
        self._wishes = wishes
        self._report = report
        self._turns = defaultdict(asyncio.Lock)
        self._chains = {}
        self.found = {}
        self.failures = {}
        self.conflicts = []

    async def add(self, requirement, chain):
        name = canonicalize_name(requirement.name)
        # Serialized per name, so that a package that two others need is fetched once.
        async with self._turns[name]:
            if name in self.failures:
                return
            try:
                package = await self._choose(name, requirement, chain)
                new = set() if package.extras is None else requirement.extras - package.extras
                if package.extras is not None and not new:
                    return
                package.extras = (package.extras or set()) | requirement.extras
                required = await package.requires(package.extras)
            except Failure as failure:
                failure.wanted = str(requirement).partition(";")[0].strip()
                failure.chain = chain
                self.failures[name] = failure
                return
        package.needs.update(canonicalize_name(dependency.name) for dependency in required)
        link = (*chain, f"{name} {package.version}")
        await asyncio.gather(*(self.add(dependency, link) for dependency in required))

    async def download(self, package):
        try:
            await package.download()
        except Failure as failure:
            failure.chain = self._chains[package.name]
            self.failures[package.name] = failure

    async def _choose(self, name, requirement, chain):
        if requirement.url:
            raise Failure("address", name, detail=requirement.url)
        package = self.found.get(name)
        if package:
            if not requirement.specifier.contains(package.version, prereleases=True):
                self.conflicts.append((name, (str(requirement.specifier), chain)))
            return package
        specifier = requirement.specifier
        for wish, _ in self._wishes[name]:
            specifier = specifier & SpecifierSet(wish)
        try:
            package = await self._sources.find(name, specifier)
        except Failure as failure:
            if self._wishes[name] and failure.kind in ("no_version", "no_wheel"):
                detail = self.conflict_text(name, (str(requirement.specifier), chain))
                raise Failure("conflict", name, detail=detail) from None
            raise
        self.found[name] = package
        self._chains[name] = chain
        self._report("progress", message=f"collecting {', '.join(sorted(self.found))}")
        return package

    def conflict_text(self, name, *more):
        """`a 1.0 needs x>=3; b 2.0 needs x<2`."""
        wishes = {*more, *self._wishes[name]}
        return "; ".join(sorted(f"{by[-1] if by else 'the request'} needs {name}{wish}" for wish, by in wishes if wish))


def _parse(text):
    try:
        return Requirement(text)
    except InvalidRequirement as error:
        raise Failed([Failure("requirement", text, detail=str(error).partition("\n")[0])]) from None


def _culprits_first(failures, sources):
    """Sorts packages that others on the list depend on first: pandas fails because numpy does."""
    return sorted(failures.values(), key=lambda failure: (-sources.needed_by(failure.name, failures), failure.name))
