"""Lint the ledger of modules.

Each module of the pinned tree is served or has its reason, and no reason is stale.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

from build_tools.manifest.model import Manifest
from build_tools.modules.classes import CLASSES
from build_tools.modules.read import Modules, read
from build_tools.report import module_reasons
from build_tools.report.ledger import Ledger
from build_tools.report.module_reasons import FILE, Reasons
from build_tools.report.modules import NOT, REPLACED, ModuleLedger, compute


def of_repository(manifest: Manifest, root: Path) -> list[str]:
    """List the problems of a repository's ledger.

    It reads the tree and the reasons at ``root``.

    Raises:
        FetchError, ToolchainError, UsageError, ManifestError: one of them cannot be had, or read.
    """
    tree, reasons = read(root), module_reasons.read(root)
    return problems(tree, compute(tree, manifest, Ledger(()), reasons), manifest, reasons)


def problems(tree: Modules, ledger: ModuleLedger, manifest: Manifest, reasons: Reasons) -> list[str]:
    """List the problems of the pinned tree's ledger.

    A checkout may have anything.
    """
    if not tree.pinned:
        return []
    lines = [f"{FILE}: nobody serves {name}, and no reason says why" for name in ledger.unexplained()]
    left = [line.name for line in ledger.lines if line.status in (NOT, REPLACED)]
    left += [
        f"{line.name}.{function.name}"
        for line in ledger.lines
        if line.status not in (NOT, REPLACED)
        for function in line.functions
        if not function.by
    ]
    everything = [
        name
        for line in ledger.lines
        for name in (line.name, *(f"{line.name}.{function.name}" for function in line.functions))
    ]
    for each in reasons.reasons:
        if not each.covers and not each.newer:
            lines.append(f"{FILE}: a reason is about nothing: {each.reason}")
        lines += (
            f"{FILE}: {pattern!r} covers nothing that is not served"
            for pattern in each.covers
            if not any(fnmatchcase(name, pattern) for name in left)
        )
        lines += (
            f"{FILE}: {pattern!r} is called newer, and the pinned tree has it"
            for pattern in each.newer
            if any(fnmatchcase(name, pattern) for name in everything)
        )
    return [*lines, *_classes(tree, reasons), *_named(tree, ledger, manifest, reasons)]


def _classes(tree: Modules, reasons: Reasons) -> list[str]:
    derived = {module.name: module.first for module in tree.modules}
    lines = []
    for name, first in reasons.classes:
        if first not in CLASSES:
            lines.append(f"{FILE}: classes.{name}: {first!r} is none of {', '.join(CLASSES)}")
        elif name not in derived:
            lines.append(f"{FILE}: classes.{name}: the tree has no such module")
        elif derived[name] == first:
            lines.append(f"{FILE}: classes.{name}: its sources say {first}, too")
    return lines


def _named(tree: Modules, ledger: ModuleLedger, manifest: Manifest, reasons: Reasons) -> list[str]:
    """Operators whose ``module`` is none of the tree's, or has nothing of them, and of which nobody says that this is right."""
    names = {module.name for module in tree.modules}
    serving: dict[str, list[str]] = {}
    for line in ledger.lines:
        for each in {each.operator for function in line.functions for each in function.by}:
            serving.setdefault(each, []).append(line.name)
    beyond = dict(reasons.beyond)
    lines = []
    for family, file in manifest.files.items():
        for operator in manifest.families[family].operators if family in manifest.families else ():
            where = f"{file}: operators.{operator.name}.module"
            if not operator.module.startswith("module_"):
                continue
            if operator.module not in names:
                lines.append(f"{where}: the pinned tree has no {operator.module}")
            elif operator.name not in serving and not tree.python.named(operator.name):
                if beyond.pop(operator.name, None) is not None:
                    continue
                lines.append(
                    f"{where}: {operator.module} has no {operator.name}, nor has AITER's Python side; "
                    f'if that is right, say why under [beyond] in {FILE}: {operator.name} = "reason"'
                )
            elif operator.module not in serving.get(operator.name, [operator.module]):
                there = ", ".join(serving[operator.name])
                lines.append(f"{where}: {operator.module} has no {operator.name}, which is in {there}")
    return [*lines, *(f"{FILE}: beyond.{name}: the pinned tree has it, or nobody here" for name in beyond)]
