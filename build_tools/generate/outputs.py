"""All generated files of the repository: where each stands and what it must hold. One verb writes them, one test compares."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from build_tools.errors import StaleFilesError
from build_tools.files.reproducible import write_atomic
from build_tools.generate import (
    api_reference,
    call_forms,
    command_pages,
    emulator_products,
    environment_variables,
    exit_codes,
    exports,
    functions,
    layout,
    matrix,
    signatures,
    table,
    targets,
)
from build_tools.manifest.model import Manifest
from build_tools.manifest.schema import manifest_schema
from build_tools.shapes import models
from build_tools.tools import pins

GENERATED: Final = Path("src/aiter_prebuilt/ops/generated")
#: What hand-written functions refuse.
REFUSALS: Final = Path("src/aiter_prebuilt/ops/refusals")
COMMAND: Final = "python -m build_tools generate"


def outputs(manifest: Manifest, root: Path) -> dict[Path, str]:
    """Path below ``root`` -> text, of every generated file."""
    operators = sorted(
        (operator for family in manifest.families.values() for operator in family.operators),
        key=lambda each: each.name,
    )
    made = {
        Path("manifests/manifest.schema.json"): manifest_schema(),
        layout.HEADER.relative_to(layout.ROOT): layout.render(),
        Path(signatures.FILE): signatures.text(manifest),
        Path(call_forms.FILE): call_forms.text(models.read(root), manifest),
        Path("src/aiter_prebuilt/ops/__init__.py"): exports.exports(operators, root),
        Path("build_tools/requirements.txt"): pins.requirements(pins.load(root)),
        Path("docs/operators.md"): table.table(operators, manifest.targets),
        Path(exit_codes.FILE): exit_codes.page(),
        Path(environment_variables.FILE): environment_variables.page(),
        Path(targets.FILE): targets.text(manifest.targets),
        Path(emulator_products.FILE): emulator_products.text(),
        GENERATED
        / "__init__.py": f'"""Written by `{COMMAND}` from the manifests: one module a family. Do not edit."""\n',
        REFUSALS
        / "__init__.py": f'"""Written by `{COMMAND}`: what hand-written functions refuse. Do not edit."""\n',
        **matrix.files(root),
        **command_pages.files(),
    }
    texts = {family.family: functions.functions(family) for family in manifest.families.values()}
    refused = {family.family: functions.refusals_of(family) for family in manifest.families.values()}
    written = {GENERATED / f"{name}.py": text for name, text in texts.items() if text is not None}
    return (
        made
        | written
        | api_reference.files(operators, written)
        | {REFUSALS / f"{name}.py": text for name, text in refused.items() if text is not None}
    )


def stale(manifest: Manifest, root: Path) -> list[Path]:
    """List the generated files that are stale.

    They are missing, differ, or nothing generates them any more.
    """
    return differing(outputs(manifest, root), root)


def differing(made: Mapping[Path, str], root: Path) -> list[Path]:
    """List the files below ``root`` that are not what ``made`` says, and generated ones that it does not have."""
    wrong = [path for path, text in made.items() if not _holds(root / path, text)]
    wrong += [
        path.relative_to(root)
        for folder, pattern in ((GENERATED, "*.py"), (REFUSALS, "*.py"), (Path(api_reference.FOLDER), "*.md"))
        for path in sorted((root / folder).glob(pattern))
        if path.relative_to(root) not in made
    ]
    return wrong


def check(manifest: Manifest, root: Path) -> None:
    """Refuse generated files that are not what the manifests say.

    Raises:
        StaleFilesError: names them, and the command that renews them.
    """
    wrong = stale(manifest, root)
    if wrong:
        raise StaleFilesError(
            asked="compare the generated files with the manifests",
            found=f"stale: {', '.join(path.as_posix() for path in wrong)}",
            fix=f"run: {COMMAND}",
        )


def write(manifest: Manifest, root: Path) -> list[Path]:
    """Write what is stale and remove what nothing generates; the paths that changed."""
    made = outputs(manifest, root)
    changed = differing(made, root)
    for path in changed:
        if path in made:
            write_atomic(root / path, made[path].encode())
        else:
            (root / path).unlink()
    return changed


def _holds(path: Path, text: str) -> bool:
    try:
        return path.read_text(encoding="utf-8") == text
    except FileNotFoundError:
        return False
