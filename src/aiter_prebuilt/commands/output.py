"""Printing for people and for machines."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING, Any, Final

from aiter_prebuilt.bundles import extras, opening
from aiter_prebuilt.contract.error_text import did_you_mean

if TYPE_CHECKING:
    from aiter_prebuilt.bundles.installed_bundle import InstalledBundle

JSON_VERSION: Final = 1
#: Codes of ANSI terminals.
_STYLES: Final = {"bold": "1", "red": "31", "green": "32"}
#: First words of commands in messages.
_PROGRAMS: Final = frozenset(
    ("pip", "uv", "chmod", "sudo", "mv", "python", "aiter-prebuilt", "aiter-prebuilt-emulator")
)
#: No column of a table gets narrower than this.
_NARROWEST: Final = 8


def nothing(installed: Sequence[InstalledBundle], target: str | None, operator: str | None) -> str:
    """Say why there is nothing to show: nothing installed, or nothing of what was asked for."""
    if not installed:
        return f"Nothing is installed here. Run: {extras.nothing_installed()}"
    have = ", ".join(f"{bundle.target} ({bundle.profile})" for bundle in installed)
    if target is not None and all(bundle.target != target for bundle in installed):
        close = did_you_mean(target, {bundle.target for bundle in installed})
        return f"No installed bundle is for {target!r}. {close}Installed: {have}"
    names = {name for bundle in installed for name in opening.read_bundle(bundle).names}
    return f"No operator {operator!r}. {did_you_mean(operator or '', names)}List all: aiter-prebuilt list"


def not_executed(counts: Mapping[str, int]) -> list[str]:
    """Describe the entries without a receipt.

    ``counts``: target -> how many.
    """
    return [
        f"{count} entries for {target} were not executed on any device before they shipped"
        for target, count in sorted(counts.items())
        if count
    ]


def not_pinned(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Describe bundles with files of unpinned source trees.

    A line for each.
    """
    bundles = {(row["target"], row["profile"]): row["unpinned"] for row in rows if row["unpinned"]}
    return [
        f"the bundle for {target} ({profile}) was made of files of {' and '.join(trees)} that are not the pinned "
        "ones: a checkout took their place when it was built"
        for (target, profile), trees in sorted(bundles.items())
    ]


def passed(rows: Iterable[Mapping[str, Any]], *, every: bool) -> list[str]:
    """Describe AITER kernels that trigger a check of the emulator and run all the same.

    Args:
        rows: kernels.
        every: name each of them, with the number of places in its code.
    """
    found = [row for row in rows if row["passed_over"]]
    if every:
        return [
            f"Known warnings on {target}, places in AITER's code: "
            + ", ".join(
                f"{row['kernel']} {len(row['passed_over'])}" for row in found if row["target"] == target
            )
            for target in dict.fromkeys(row["target"] for row in found)
        ]
    return (
        [f"{len(found)} AITER kernels run with known warnings; see: aiter-prebuilt list --json"]
        if found
        else []
    )


def print_json(verb: str, value: dict[str, Any]) -> None:
    """One JSON document with a version and the verb that made it."""
    print(
        json.dumps({"version": JSON_VERSION, "verb": verb, **value}, indent=1, sort_keys=False, default=str)
    )


def width() -> int:
    """Return the columns of the terminal: 80 where there is none and ``COLUMNS`` says nothing else."""
    return shutil.get_terminal_size().columns


def styled(text: str, *styles: str) -> str:
    """Return ``text`` in colour or bold, on a terminal; elsewhere as it is."""
    if not colourful():
        return text
    return f"\x1b[{';'.join(_STYLES[style] for style in styles)}m{text}\x1b[0m"


def colourful() -> bool:
    """Is standard output a terminal that shows colours, and did the user not refuse them (``NO_COLOR``)?"""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def wrapped(text: str, indent: int = 0) -> list[str]:
    """Break a text into lines of the terminal's width, less ``indent``. Words, such as paths, stay whole."""
    return textwrap.wrap(
        text, width() - indent, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def with_command(text: str) -> list[str]:
    """Wrap a text; a command at its end, behind a colon, gets a line of its own."""
    head, colon, command = text.rpartition(": ")
    if colon and command.partition(" ")[0] in _PROGRAMS:
        return [*wrapped(f"{head}:"), f"    {command}"]
    return wrapped(text)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print aligned columns within the terminal's width.

    Cells of the widest columns go on below. A name in the first column stays whole: a long one has a line of its own.
    """
    table = [list(columns), *([str(cell) for cell in row] for row in rows)]
    cells_of = [[row[place] for row in table] for place in range(len(columns))]
    widths = _fitting(
        [max(map(len, cells)) for cells in cells_of], [_longest_word(cells) for cells in cells_of]
    )
    for number, row in enumerate(table):
        name, *others = row
        cells = [[name], *(_broken(cell, size) for cell, size in zip(others, widths[1:], strict=True))]
        if len(name) > widths[0]:
            print(name)
            cells[0] = [""]
        for line in range(max(map(len, cells))):
            parts = [cell[line] if line < len(cell) else "" for cell in cells]
            text = "  ".join(part.ljust(size) for part, size in zip(parts, widths, strict=True)).rstrip()
            print(styled(text, "bold") if not number else text)


def _broken(cell: str, size: int) -> list[str]:
    """Break a cell into lines: between words, and within those that are too long."""
    return textwrap.wrap(cell, size, break_on_hyphens=False) or [""]


def _longest_word(cells: Iterable[str]) -> int:
    return max((len(word) for cell in cells for word in cell.split()), default=0)


def _fitting(widths: list[int], words: list[int]) -> list[int]:
    """Narrow the widest columns until all fit side by side.

    Words stay whole where that is possible: the first column gives way before them, since its long names have a line of
    their own.

    Args:
        widths: the longest cell of each column.
        words: the longest word of each column.
    """
    floors = [min(widths[0], _NARROWEST * 3), *words[1:]]
    fitting = [*widths]
    for floor in (floors, [_NARROWEST] * len(widths)):
        excess = sum(fitting) + 2 * (len(fitting) - 1) - width()
        while excess > 0 and (wide := [n for n, size in enumerate(fitting) if size > floor[n]]):
            fitting[max(wide, key=lambda n: fitting[n])] -= 1
            excess -= 1
    return fitting


@contextmanager
def paged() -> Iterator[None]:
    """Show what is printed inside through a pager, if standard output is a terminal and it does not fit one screen."""
    if not sys.stdout.isatty():
        yield
        return
    page = _Page()
    try:
        with redirect_stdout(page):
            yield
    finally:
        text = page.getvalue()
        if text.count("\n") < shutil.get_terminal_size().lines:
            sys.stdout.write(text)
        else:
            os.environ.setdefault("LESS", "-FRX")  # colours; what is shown stays on the screen
            from pydoc import pager  # late: only a terminal needs it

            pager(text)


class _Page(io.StringIO):
    """Collects output for a terminal."""

    def isatty(self) -> bool:
        return True
