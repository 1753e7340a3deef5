"""Wheels hold proved entries only; what is left in all the same says so."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from build_tools.errors import UnprovedError
from build_tools.objects.entries import BuiltEntry, counted

#: Of every target.
ALL: Final = "all"
#: More operators than these are not named one by one in a command to type.
_FEW: Final = 6


def refuse_unproved(entries: Iterable[BuiltEntry], allowed: Collection[str]) -> None:
    """Raise UnprovedError, naming kernels with counts, when entries for a target that is not ``allowed`` were never executed."""
    left = [
        entry
        for entry in entries
        if not entry.executed and ALL not in allowed and entry.target not in allowed
    ]
    if not left:
        return
    targets = sorted({entry.target for entry in left})
    lines = [
        f"{target}: {operator}.{kernel}: {count} entries were not executed"
        for (target, operator, kernel), count in counted(left).items()
    ]
    flags = " ".join(f"--unproved {target}" for target in targets)
    raise UnprovedError(
        "pack wheels", f"{len(left)} entries for {', '.join(targets)} have no receipt",
        f"Run {_commands(left, targets)}, then python -m build_tools build, and pack again; or let them in with {flags}",
        lines,
    )  # fmt: skip


def _commands(left: Sequence[BuiltEntry], targets: Sequence[str]) -> str:
    amd = [target for target in targets if target.startswith("gfx")]
    commands = []
    if amd:
        operators = sorted({entry.operator for entry in left if entry.target in amd})
        words = operators if len(operators) <= _FEW else []
        chosen = "".join(f" --operator {name}" for name in words)
        commands.append(f"python -m build_tools prove{chosen}{''.join(f' --target {name}' for name in amd)}")
    if len(amd) < len(targets):
        commands.append(
            "python ci/gpu_check.py --record FILE on a machine with the card and python -m build_tools receipts FILE here"
        )
    return ", and ".join(commands)


def said(unproved: int, entries: int) -> str:
    """Describe a wheel's unproved entries in a sentence, or ""."""
    if not unproved:
        return ""
    return f"{unproved} of its {entries} entries were not executed on any device before they shipped."
