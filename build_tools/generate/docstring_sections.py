"""Parse a docstring with ``Args:``, ``Returns:`` and ``Raises:`` and write it as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from inspect import cleandoc
from typing import Final

#: Heading of a section -> its title on a page.
_TITLES: Final = {
    "Args:": "Arguments",
    "Returns:": "Returns",
    "Raises:": "Raises",
    "Attributes:": "Attributes",
}
_ENTRY: Final = re.compile(r"(\*{0,2}\w+(?:, \*{0,2}\w+)*): (.*)", re.DOTALL)
_ROLE: Final = re.compile(r":\w+:`~?([^`]*)`")
_CODE: Final = re.compile(r"(`[^`]*`)")
#: Characters of Markdown that a docstring has in their plain meaning.
_SPECIAL: Final = re.compile(r"([*<|]|(?<!\w)_|_(?!\w))")


@dataclass(frozen=True)
class Docstring:
    """A docstring in parts. Texts are reST, each paragraph on its own; a paragraph of code keeps its lines."""

    paragraphs: tuple[str, ...]
    sections: dict[str, tuple[str, ...]] = field(default_factory=dict)
    source: str = ""

    @property
    def summary(self) -> str:
        """The first paragraph."""
        return self.paragraphs[0] if self.paragraphs else ""


def parse(text: str) -> Docstring:
    """Split a docstring into paragraphs, sections with one text for each entry, and the source.

    Args:
        text: as it stands in the source; "" gives a docstring without anything.
    """
    paragraphs: list[str] = []
    sections: dict[str, tuple[str, ...]] = {}
    source = ""
    for block in re.split(r"\n{2,}", cleandoc(text)):
        head, _, rest = block.partition("\n")
        if head in _TITLES:
            sections[head] = tuple(_entries(rest))
        elif block.startswith("Source: "):
            source = " ".join(block.removeprefix("Source: ").split())
        elif block:
            paragraphs.append(block)
    return Docstring(tuple(paragraphs), sections, source)


def _entries(block: str) -> Iterator[str]:
    """Join the lines of each entry: a deeper line goes on, unless the section is one running text."""
    lines = cleandoc("\n" + block).splitlines()
    if not any(_ENTRY.match(line) for line in lines):
        yield " ".join(line.strip() for line in lines)
        return
    entry = ""
    for line in lines:
        if line[:1].isspace() or not entry:
            entry = f"{entry} {line.strip()}".strip()
        else:
            yield entry
            entry = line
    yield entry


def markdown(text: str) -> str:
    """Write a paragraph of reST as Markdown. Code, four blanks further in, stays as it is."""
    if all(line.startswith("    ") or not line for line in text.splitlines()):
        return text
    words = " ".join(_ROLE.sub(r"`\1`", text).replace("``", "`").split())
    parts = _CODE.split(words)
    return "".join(part if place % 2 else _SPECIAL.sub(r"\\\1", part) for place, part in enumerate(parts))


def body(found: Docstring) -> list[str]:
    """Write the lines of an entry: paragraphs, sections as lists, the source."""
    lines = [line for paragraph in found.paragraphs for line in ("", markdown(paragraph))]
    for head, entries in found.sections.items():
        lines += ["", f"**{_TITLES[head]}**", ""]
        for entry in entries:
            match = _ENTRY.fullmatch(entry)
            if match is None or head == "Returns:":
                lines.append(f"- {markdown(entry)}")
            else:
                names = ", ".join(f"`{name}`" for name in match[1].split(", "))
                lines.append(f"- {names}: {markdown(match[2])}")
    if found.source:
        lines += ["", f"Source: {markdown(found.source)}"]
    return lines
