"""Report the modules that AITER's JIT would compile, and ours."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from build_tools.verbs import options
from build_tools.verbs.examples import example
from build_tools.verbs.output import console, print_json

if TYPE_CHECKING:
    from build_tools.report.modules import ModuleLedger


def compute(names: tuple[str, ...], checkout: str, bundles: Path) -> tuple[ModuleLedger, dict[str, Any]]:
    """Return the modules, and what ``--json`` prints of them.

    Raises:
        UsageError: the tree has no module of one of ``names``.
    """
    from build_tools.errors import UsageError
    from build_tools.manifest.parse import load
    from build_tools.manifest.problems import suggestion
    from build_tools.modules.read import read
    from build_tools.prove.known import known
    from build_tools.report import ledger, module_reasons, modules

    tree = read(options.ROOT, checkout)
    known_modules = {module.name for module in tree.modules}
    for name in names:
        if name not in known_modules:
            raise UsageError(
                f"list the functions of {name}",
                f"in AITER {tree.version} no module is called {name!r}{suggestion(name, known_modules)}",
                "See all: python -m build_tools report modules",
            )
    manifest = load(options.ROOT / "manifests")
    built = ledger.compute(manifest, bundles, known(options.ROOT))
    found = modules.compute(tree, manifest, built, module_reasons.read(options.ROOT))
    document = found.as_json()
    if names:
        document["modules"] = [each for each in document["modules"] if each["name"] in names]
    return found, document


@example("report modules")
@click.command()
@click.argument("names", nargs=-1, metavar="[MODULE]...")
@click.option(
    "--aiter", "checkout", type=click.Path(exists=True, file_okay=False), default=None,
    help="A checkout of AITER instead of the pinned wheel; AITER_DIR says the same.",
)  # fmt: skip
@options.json
@options.bundles
def modules(names: tuple[str, ...], checkout: str | None, as_json: bool, bundles: Path) -> None:
    """List the modules that AITER's JIT would compile.

    Class, functions, who serves them by which backend on which target, proved or not, and why not. With names: the functions of
    those modules, one by one.
    """
    from build_tools.report.modules_view import render

    found, document = compute(names, checkout or "", bundles)
    if as_json:
        print_json(document)
    else:
        render(found, console(), names)
