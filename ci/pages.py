"""Measure the pages and check their links: ``python ci/pages.py``. Exits with 1 if a page is over the measure or a link is dead.

A page has at most 900 words (README 600) with its code, a paragraph 90, and sentences have 17 words on average.
Reference pages that are generated are not measured; their links are checked.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
#: Longest page, in words; code counts.
PAGE_WORDS: Final = 900
README_WORDS: Final = 600
PARAGRAPH_WORDS: Final = 90
MEAN_SENTENCE: Final = 17
#: Pages whose blocks are pictures, which do not count.
PICTURED: Final = frozenset({"AGENTS.md"})
#: Words of the shortest sentence that counts: less is a label.
_SHORTEST: Final = 3
MEASURED: Final = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "AGENTS.md", "docs/*.md")
#: Reference pages, written by programs.
GENERATED: Final = frozenset(
    {
        "docs/api.md",
        "docs/cli-build.md",
        "docs/cli.md",
        "docs/compatibility.md",
        "docs/environment.md",
        "docs/exit-codes.md",
        "docs/operators.md",
        "docs/peers.md",
    }
)
#: Pages whose links are checked and whose words are not counted.
LINKED: Final = ("*/README.md", "*/*/README.md", "CHANGELOG.md", "docs/api/*.md")
_FENCE: Final = re.compile(r"^```.*?^```[ \t]*$", re.MULTILINE | re.DOTALL)
_CODE: Final = re.compile(r"`[^`\n]*`")
_ITEM: Final = re.compile(r"\s*(?:[-*]|\d+\.)\s")
LINK: Final = re.compile(r"!?\[([^\]]*)\]\(([^()\s]+)\)")
_HEADING: Final = re.compile(r"^#+\s+(.*?)\s*$", re.MULTILINE)
_ELSEWHERE: Final = re.compile(r"[a-z]+:")


@dataclass(frozen=True)
class Measure:
    """The size of one page, in words."""

    words: int
    longest_paragraph: int
    sentences: int
    mean_sentence: float


def without_code(text: str) -> str:
    """Return the page without its code blocks."""
    return _FENCE.sub("", text)


def paragraphs(text: str) -> Iterator[str]:
    """Yield each paragraph and each item of a list; headings and tables are neither."""
    for block in re.split(r"\n\s*\n", without_code(text)):
        current = ""
        for line in block.splitlines():
            if line.lstrip().startswith(("#", "|", "<!--", "![")):
                continue
            if _ITEM.match(line):
                if current:
                    yield current
                current = _ITEM.sub("", line, count=1)
            else:
                current = f"{current} {line.lstrip('> ').strip()}".strip()
        if current:
            yield current


def measure(text: str) -> Measure:
    """Measure the text of a page."""
    found = list(paragraphs(text))
    sentences = [
        words
        for paragraph in found
        for sentence in re.split(r"(?<=[.!?:])\s+", paragraph)
        if len(words := sentence.split()) >= _SHORTEST
    ]
    return Measure(
        words=len(text.split()),
        longest_paragraph=max((len(paragraph.split()) for paragraph in found), default=0),
        sentences=len(sentences),
        mean_sentence=sum(map(len, sentences)) / max(len(sentences), 1),
    )


def too_long(name: str, text: str) -> list[str]:
    """Name what is over the measure on the page ``name``."""
    found = measure(without_code(text) if name in PICTURED else text)
    most = README_WORDS if name == "README.md" else PAGE_WORDS
    problems = []
    if found.words > most:
        problems.append(f"{name}: {found.words} words, at most {most}. Split it or cut it.")
    if found.longest_paragraph > PARAGRAPH_WORDS:
        problems.append(
            f"{name}: a paragraph of {found.longest_paragraph} words, at most {PARAGRAPH_WORDS}. Split it."
        )
    if found.mean_sentence > MEAN_SENTENCE:
        problems.append(
            f"{name}: sentences of {found.mean_sentence:.1f} words on average, at most {MEAN_SENTENCE}. Shorten them."
        )
    return problems


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and MkDocs make them."""
    made: set[str] = set()
    for heading in _HEADING.findall(without_code(text)):
        plain = LINK.sub(r"\1", heading).replace("`", "").lower()
        made.add(re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", plain)).strip("-"))
    return made


def is_elsewhere(target: str) -> bool:
    """Is the link's target on another host?"""
    return _ELSEWHERE.match(target) is not None


def dead_links(name: str, text: str, root: Path = ROOT) -> list[str]:
    """Name the links of the page ``name`` that lead nowhere in the checkout ``root``."""
    problems = []
    for _, target in LINK.findall(_CODE.sub("", without_code(text))):
        if is_elsewhere(target):
            continue
        path, _, anchor = target.partition("#")
        file = (root / name).parent / path if path else root / name
        if not file.resolve().is_relative_to(root) or not file.exists():
            problems.append(f"{name}: the link {target} leads to no file.")
        elif anchor and anchor not in anchors(file.read_text(encoding="utf-8")):
            problems.append(f"{name}: the link {target} leads to no heading of {path or name}.")
    return problems


def pages(patterns: tuple[str, ...], root: Path = ROOT) -> list[str]:
    """Return the names of the pages that match, sorted. Only folders of the project are searched."""
    return sorted(
        {
            path.relative_to(root).as_posix()
            for pattern in patterns
            for path in root.glob(pattern)
            if path.relative_to(root).parts[0] not in {"build", "dist"} and not path.parts[-2].startswith(".")
        }
    )


def problems(root: Path = ROOT) -> list[str]:
    """Return everything that is wrong with the pages of a checkout."""
    found = []
    measured = {*pages(MEASURED, root)} - GENERATED
    for name in pages((*MEASURED, *LINKED), root):
        text = (root / name).read_text(encoding="utf-8")
        found += dead_links(name, text, root)
        if name in measured:
            found += too_long(name, text)
    return found


def main() -> int:
    """Print every problem; 1 if there is one."""
    found = problems()
    print("\n".join(found) if found else f"{len(pages((*MEASURED, *LINKED)))} pages are right")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
