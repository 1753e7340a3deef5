"""``manifests/toolchains.toml`` as records, and the pip requirements file that is written from it."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, TypeVar

from build_tools.errors import ManifestError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

EDITION: Final = 1
FILE: Final = "manifests/toolchains.toml"
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
R = TypeVar("R", "ToolPin", "SourcePin", "TreePin", "EditionPin")


@dataclass(frozen=True, slots=True)
class ToolPin:
    """A package of the build environment. ``wheels``: file name to sha256; ``installed``: path below site-packages to sha256.

    ``backends``: those it compiles or links for, as :mod:`build_tools.pack.licences` names them; none when only files of it are
    used, or when it only judges.
    """

    name: str
    version: str
    gives: str
    spdx: str
    backends: tuple[str, ...]
    wheels: dict[str, str]
    installed: dict[str, str]


@dataclass(frozen=True, slots=True)
class SourcePin:
    """A source archive. ``keep``: folders and files below its top folder that are unpacked."""

    name: str
    version: str
    gives: str
    file: str
    sha256: str
    keep: tuple[str, ...]

    @property
    def folder(self) -> str:
        """Name of the unpacked archive in the cache; another content has another name."""
        return f"{self.name}-{self.version}-{self.sha256[:12]}"


@dataclass(frozen=True, slots=True, eq=False)
class TreePin:
    """A source tree: a package whose files manifests name one by one, ``NAME:ROOT/path``.

    ``roots``: first word of such a path to the folder of the package that it means; ``checkout``: to the folder of a checkout of
    its repository; ``override``: the environment variable that names such a checkout.
    """

    name: str
    distribution: str
    version: str
    gives: str
    file: str
    sha256: str
    override: str
    roots: dict[str, str]
    checkout: dict[str, str]

    @property
    def archive(self) -> SourcePin:
        """Describe the archive to fetch."""
        return SourcePin(self.distribution, self.version, self.gives, self.file, self.sha256, ())


@dataclass(frozen=True, slots=True, eq=False)
class EditionPin:
    """An edition: a commit of a repository, whose files manifests name as ``NAME:ROOT/path`` beside those of the tree ``of``.

    Attributes:
        name: the word before the colon, ``aiter-2026-08``.
        of: the tree of which it is an edition.
        gives: what is taken from it.
        repository: its address for git.
        commit: its 40 hexadecimal digits.
        sha256: of the list of its files, as :func:`build_tools.tools.editions.list_of` makes it.
        override: the environment variable that names a copy.
        roots: first word of a path to the folder of the repository that it means.
    """

    name: str
    of: str
    gives: str
    repository: str
    commit: str
    sha256: str
    override: str
    roots: dict[str, str]

    @property
    def edition(self) -> str:
        """Return the word that people type: ``2026-08``."""
        return self.name.removeprefix(f"{self.of}-")

    @property
    def version(self) -> str:
        """The commit, as provenance says it."""
        return self.commit

    @property
    def folder(self) -> str:
        """Name of its folder in the cache, and of its archive in a mirror; other files have another name."""
        return f"{self.name}-{self.commit[:12]}-{self.sha256[:12]}"

    @property
    def tree(self) -> TreePin:
        """It as a tree that is read from a folder."""
        return TreePin(
            self.name, self.repository, self.version, self.gives, "", self.sha256, self.override, self.roots, self.roots
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Pins:
    """All pins, by name."""

    tools: dict[str, ToolPin]
    sources: dict[str, SourcePin]
    trees: dict[str, TreePin] = field(default_factory=dict)
    editions: dict[str, EditionPin] = field(default_factory=dict)


def load(root: Path) -> Pins:
    """Return the pins of the repository at ``root``.

    Raises:
        ManifestError: with every problem of the file.
    """
    label = FILE
    try:
        table = tomllib.loads((root / label).read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise ManifestError([f"{label}: {error}"]) from None
    problems: list[str] = []
    if table.get("edition") != EDITION:
        problems.append(f"edition: {table.get('edition')!r} is not {EDITION}")
    problems += [
        f"{key}: unknown key"
        for key in sorted(table.keys() - {"edition", "tools", "sources", "trees", "editions"})
    ]
    tools = _rows(table, "tools", ToolPin, {"installed": {}}, problems)
    sources = _rows(table, "sources", SourcePin, {}, problems)
    for place, tool in enumerate(tools.values()):
        digests = [*tool.wheels.items(), *tool.installed.items()]
        problems += [
            f"tools[{place}]: {name!r} has no sha256"
            for name, digest in digests
            if not _SHA256.fullmatch(digest)
        ]
    trees = _rows(table, "trees", TreePin, {}, problems)
    editions = _rows(table, "editions", EditionPin, {}, problems)
    pinned: dict[str, list[SourcePin | TreePin | EditionPin]] = {
        "sources": [*sources.values()],
        "trees": [*trees.values()],
        "editions": [*editions.values()],
    }
    for key, pins in pinned.items():
        for place, pin in enumerate(pins):
            if not _SHA256.fullmatch(pin.sha256):
                problems.append(f"{key}[{place}].sha256: not 64 hexadecimal digits")
    for place, tree in enumerate(trees.values()):
        if tree.roots.keys() != tree.checkout.keys():
            odd = ", ".join(sorted(tree.roots.keys() ^ tree.checkout.keys()))
            problems.append(
                f"trees[{place}]: roots and checkout must have the same names, not only one {odd}"
            )
    problems += _edition_problems(editions, trees)
    if problems:
        raise ManifestError([f"{label}: {problem}" for problem in problems])
    return Pins(tools, sources, trees, editions)


def _edition_problems(editions: dict[str, EditionPin], trees: dict[str, TreePin]) -> list[str]:
    """Say what is wrong in ``[[editions]]`` beside their keys."""
    found = []
    for place, pin in enumerate(editions.values()):
        if pin.of not in trees or not pin.edition or pin.name == pin.edition:
            found.append(f"editions[{place}]: name must be a tree, a hyphen and the edition, of the tree")
        if not _COMMIT.fullmatch(pin.commit):
            found.append(f"editions[{place}].commit: not 40 hexadecimal digits")
    return found


def _rows(
    table: dict[str, Any], key: str, record: type[R], defaults: dict[str, Any], problems: list[str]
) -> dict[str, R]:
    names = {field.name for field in fields(record)}
    result: dict[str, R] = {}
    for place, given in enumerate(table.get(key, [])):
        row = {**defaults, **given}
        problems += [f"{key}[{place}].{name}: unknown key" for name in sorted(row.keys() - names)]
        problems += [f"{key}[{place}].{name}: is missing" for name in sorted(names - row.keys())]
        if row.keys() == names:
            row |= {name: tuple(row[name]) for name in ("keep", "backends") if name in row}
            result[str(row["name"])] = record(**row)
    return result


def requirements(pins: Pins) -> str:
    """Return the text of ``build_tools/requirements.txt``.

    Exact versions with the hashes of the pinned wheels, for pip.
    """
    lines = [
        "# Written from manifests/toolchains.toml by `python -m build_tools generate`. Install with",
        "#     pip install --no-deps --require-hashes -r build_tools/requirements.txt",
    ]
    for tool in sorted(pins.tools.values(), key=lambda tool: tool.name):
        digests = sorted(set(tool.wheels.values()))
        # Triton 3.9 has no wheel for CPython 3.10; there pip must not fail on the others.
        marker = ' ; python_version >= "3.11"' if tool.name == "triton" else ""
        lines.append(
            " \\\n    ".join(
                [f"{tool.name}=={tool.version}{marker}", *(f"--hash=sha256:{d}" for d in digests)]
            )
        )
    return "\n".join(lines) + "\n"
