"""Builds the files of an image: resolves, unpacks and compiles packages. Runs in the installer, see install.ts."""

import itertools
import json
import sys

_MICROPIP = "/tmp/micropip.whl"


async def run(host):
    ids = itertools.count()

    def report(type, **fields):
        host.report(json.dumps({"type": type, **fields}))

    async def ask(type, **fields):
        id = next(ids)
        report(type, id=id, **fields)
        return json.loads(await host.answerTo(id))

    request = await ask("ready")
    with open(_MICROPIP, "wb") as file:
        file.write(host.read(request["micropipFile"]).to_bytes())
    sys.path.append(_MICROPIP)

    # These import micropip.
    from install_failure import Failed
    from install_resolution import resolve
    from install_sources import PackageSources
    from install_unpack import check, inspect, unpack

    try:
        sources = PackageSources(host, request, report, ask)
        packages = await resolve(sources, request, report)
        inspect(packages)
        await ask("resolved", packages=[package.summary() for package in packages])
        for number, package in enumerate(packages, 1):
            report("progress", message=f"installing {package.name} ({number} of {len(packages)})")
            await unpack(package, host)
        check(packages)
        report("done")
    except Failed as failed:
        report("failed", failures=[failure.summary() for failure in failed.failures])
