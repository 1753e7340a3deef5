"""Print lines of a report that are sentences, not rows of a table."""

from __future__ import annotations

import textwrap

from rich.console import Console


def say(console: Console, text: str) -> None:
    """Print ``text`` within the console's width.

    Words stay whole, because people search a log for names. Lines after the first are indented.

    Args:
        console: where to print it.
        text: one line; spaces at its start are kept.
    """
    indent = " " * (len(text) - len(text.lstrip()) + 4)
    folded = textwrap.fill(
        text, console.width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    console.print(folded, highlight=False, markup=False, soft_wrap=True)
