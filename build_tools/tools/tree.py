"""Source trees: packages of others whose files manifests name one by one, ``aiter:hsa/gfx942/...``.

The pinned wheel lies in the cache as it came. Its RECORD, which the wheel's hash covers, says the SHA-256 of each file: a file
is keyed by it without being unpacked, and checked against it when it is unpacked, which happens when somebody asks for it.
A checkout that the pin's variable names (``AITER_DIR``) is read where it lies instead; it is nobody's pin, and says so.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import os
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path, PurePosixPath

from aiter_prebuilt.contract.provenance import UNPINNED
from build_tools.errors import FetchError, ToolchainError
from build_tools.files.filehash import sha256_file
from build_tools.files.reproducible import write_atomic
from build_tools.records import in_tree
from build_tools.tools import editions, pins
from build_tools.tools.fetch import archive_of, cache_folder
from build_tools.tools.pins import EditionPin, TreePin


@dataclass(frozen=True, eq=False)
class Tree:
    """One tree. ``folder``: the checkout that takes the pinned wheel's place, or None. ``edition``: it is an edition's folder,
    whose files were compared with the pin.
    """

    pin: TreePin
    cache: Path
    folder: Path | None
    edition: bool = False

    @property
    def pinned(self) -> bool:
        """Is it what the pin says?"""
        return self.folder is None or self.edition

    @property
    def version(self) -> str:
        """For provenance: the pin's, or that it is none."""
        return self.pin.version if self.pinned else f"{UNPINNED} ({self.pin.override})"

    def where(self, name: str) -> str:
        """Return the path of ``name`` in the package or checkout.

        The file may be missing.

        Raises:
            FetchError: it names no root, or leaves it.
        """
        if name not in self._places:
            self._places[name] = self._where(name)
        return self._places[name]

    @cached_property
    def _places(self) -> dict[str, str]:
        return {}

    def _where(self, name: str) -> str:
        tree, _, rest = name.partition(":")
        root, _, below = rest.partition("/")
        path = PurePosixPath(below)
        if tree != self.pin.name or root not in self.pin.roots:
            raise FetchError(
                f"find {name}",
                f"{self.pin.name} has no root {root!r}",
                f"Its roots are {', '.join(self.pin.roots)}: write {self.pin.name}:ROOT/path",
            )
        if not below or ".." in path.parts or path.is_absolute():
            raise FetchError(
                f"find {name}", "it names no file below its root", "Correct source in the manifest"
            )
        return f"{self._root(root)}/{path.as_posix()}"

    def _root(self, root: str) -> str:
        """Find a checkout's root; an unpacked wheel will do."""
        packed = self.pin.roots[root]
        return packed if self.folder is None or (self.folder / packed).is_dir() else self.pin.checkout[root]

    def has(self, name: str) -> bool:
        """Is there such a file?"""
        where = self.where(name)
        return where in self._index if self.folder is None else (self.folder / where).is_file()

    def names(self, under: str, suffix: str) -> tuple[str, ...]:
        """Return the files below ``under`` (``aiter:hsa``, ``aiter:hsa/gfx942/``) whose names end with ``suffix``.

        Relative, sorted.
        """
        where = self.where(f"{under.rstrip('/')}/*").removesuffix("*")
        if self.folder is None:
            known = (path for path in self._index if path.startswith(where))
        else:
            known = (path.relative_to(self.folder).as_posix() for path in (self.folder / where).rglob("*"))
        return tuple(sorted(path.removeprefix(where) for path in known if path.endswith(suffix)))

    def sha256(self, name: str) -> str:
        """Hash the file's content without unpacking it.

        Raises:
            FetchError: there is no such file.
        """
        where = self.where(name)
        if self.folder is None:
            return self._known(name, where)
        try:
            facts = (self.folder / where).stat()
            return _remembered(self.folder / where, facts.st_size, facts.st_mtime_ns, facts.st_ino)
        except OSError:
            raise self._missing(name) from None

    def path(self, name: str) -> Path:
        """Return the file, unpacked and checked when need be.

        Raises:
            FetchError: there is no such file, or the archive is damaged.
        """
        where = self.where(name)
        if self.folder is not None:
            if not (self.folder / where).is_file():
                raise self._missing(name)
            return self.folder / where
        return self._unpacked({where: self._known(name, where)}) / where

    def below(self, under: str) -> Path:
        """Unpack the folder ``under`` and check its files.

        ``under`` is like ``aiter:ck/include``.

        Raises:
            FetchError: there is no such folder, or the archive is damaged.
        """
        where = self.where(under)
        if self.folder is not None:
            if not (self.folder / where).is_dir():
                raise self._missing(under)
            return self.folder / where
        wanted = self._hashes(where)
        if not wanted:
            raise self._missing(under)
        return self._unpacked(wanted) / where

    def digest_below(self, under: str) -> str:
        """SHA-256 over names and contents of the files in the folder ``under`` of the pinned wheel, which is not unpacked.

        Raises:
            FetchError: the wheel cannot be had.
        """
        return hashlib.sha256(
            json.dumps(sorted(self._hashes(self.where(under)).items())).encode()
        ).hexdigest()

    def _hashes(self, where: str) -> dict[str, str]:
        return {path: known for path, known in self._index.items() if path.startswith(f"{where}/")}

    def _unpacked(self, wanted: Mapping[str, str]) -> Path:
        """Unpack the wheel's ``wanted`` files and return their folder.

        ``wanted``: path -> SHA-256.
        """
        folder = self._place / "files"
        absent = [
            where
            for where, known in wanted.items()
            if not (folder / where).is_file() or sha256_file(folder / where) != known
        ]
        for where in absent:
            data = self._archive.read(where)
            if hashlib.sha256(data).hexdigest() != wanted[where]:
                raise FetchError(
                    f"unpack {where}",
                    "the wheel in the cache is damaged",
                    f"Remove {self._place} and try again",
                )
            write_atomic(folder / where, data)
        return folder

    @cached_property
    def _archive(self) -> zipfile.ZipFile:
        """The wheel, opened once: its directory of 12,000 files takes a tenth of a second to read, and a build asks for 1,400."""
        return zipfile.ZipFile(self._wheel)

    def text(self, name: str) -> str:
        """Return the file's text.

        Raises:
            FetchError: see :meth:`path`; or it is no UTF-8.
        """
        try:
            return self.path(name).read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise FetchError(f"read {name}", str(error), "Name a text file") from None

    def texts(self, names: Iterable[str]) -> dict[str, str]:
        """Return the texts of many files, unpacked together.

        What is no UTF-8 in them is replaced.

        Raises:
            FetchError: there is no such file, or the archive is damaged.
        """
        places = {name: self.where(name) for name in names}
        folder = self.folder
        if folder is None:
            folder = self._unpacked({where: self._known(name, where) for name, where in places.items()})
        found = {}
        for name, where in places.items():
            try:
                found[name] = (folder / where).read_text(encoding="utf-8", errors="replace")
            except OSError:
                raise self._missing(name) from None
        return found

    def fetched(self) -> Path:
        """Return the folder of the tree's files.

        It is the checkout, or the folder of the wheel, which is fetched when need be.

        Raises:
            FetchError: it is not found anywhere, or has other bytes than pinned.
        """
        if self.folder is None and self._index:
            return self._place
        return self.folder or self._place

    def _known(self, name: str, where: str) -> str:
        if where not in self._index:
            raise self._missing(name)
        return self._index[where]

    def _missing(self, name: str) -> FetchError:
        place = (
            f"{self.pin.distribution} {self.pin.version}"
            if self.pinned
            else f"{self.pin.override}={self.folder}"
        )
        return FetchError(
            f"find {name}", f"{place} has no such file", "Correct source in the manifest, or use another tree"
        )

    @property
    def _place(self) -> Path:
        return self.cache / "trees" / self.pin.archive.folder

    @property
    def _wheel(self) -> Path:
        return self._place / self.pin.file

    @cached_property
    def _index(self) -> dict[str, str]:
        """Path in the wheel -> SHA-256, for all files below a root; the wheel is fetched when need be."""
        roots = json.dumps(sorted(self.pin.roots.values()))  # an index of other roots lacks files
        kept = self._place / f"index-{hashlib.sha256(roots.encode()).hexdigest()[:8]}.json"
        try:
            index: dict[str, str] = json.loads(kept.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            self._fetch()
            index = _record(self._wheel, tuple(f"{root}/" for root in self.pin.roots.values()))
            write_atomic(kept, json.dumps(index, indent=0).encode())
        return index

    def _fetch(self) -> None:
        if self._wheel.is_file() and sha256_file(self._wheel) == self.pin.sha256:
            return
        self._place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetch.", dir=self._place.parent) as folder:
            write_atomic(self._wheel, archive_of(self.pin.archive, Path(folder)).read_bytes())


def _record(wheel: Path, roots: tuple[str, ...]) -> dict[str, str]:
    """Return the wheel's own list of its files.

    Hexadecimal SHA-256 by path.
    """
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/RECORD"))
        rows = csv.reader(archive.read(name).decode().splitlines())
    found = {}
    for path, digest, _ in rows:
        if path.startswith(roots):
            kind, _, text = digest.partition("=")
            if kind != "sha256":
                raise FetchError(f"read {wheel.name}", f"{path} has no sha256 in RECORD", "Pin another wheel")
            found[path] = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).hex()
    return found


@lru_cache(maxsize=8192)
def _remembered(path: Path, size: int, mtime_ns: int, inode: int) -> str:
    del size, mtime_ns, inode  # only there to tell apart two states of one file
    return sha256_file(path)


def tree_of(name: str, root: Path, instead: str = "") -> Tree:
    """Open the tree of ``name``.

    ``name`` is ``aiter`` or ``aiter:path``, with the pins of the repository at ``root``. ``instead``: a checkout to be read,
    whatever the tree's variable says.

    Raises:
        FetchError: no tree has this name.
        ToolchainError: its variable names a folder that has none of its roots.
        ManifestError: the pins cannot be read.
    """
    key = name.partition(":")[0]
    file = root / pins.FILE
    try:
        stamp = file.stat().st_mtime_ns
    except OSError:
        stamp = 0
    found = _pinned(root, stamp)
    if key in found.editions:
        pin = found.editions[key]
        return _opened_edition(pin, cache_folder(), os.environ.get(pin.override, ""))
    if key not in found.trees:
        known = ", ".join((*found.trees, *found.editions)) or "none"
        raise FetchError(f"find {name}", f"there is no source tree {key!r}", f"The trees are {known}")
    tree = found.trees[key]
    return _opened(tree, cache_folder(), instead or os.environ.get(tree.override, ""))


def is_read(name: str, root: Path) -> bool:
    """Ask whether this build reads the tree of ``name``: not that of an edition that nobody asked for.

    Raises:
        ManifestError: the pins cannot be read. UsageError: an edition is asked for that there is none of.
    """
    tree = name.partition(":")[0]
    return tree not in _editions(root) or tree in asked_editions(root)


def asked_editions(root: Path) -> tuple[str, ...]:
    """Return the names of the editions that this build reads.

    Raises:
        ManifestError, UsageError: as above.
    """
    return tuple(pin.name for pin in editions.requested(_editions(root).values()))


def unread_editions(root: Path) -> tuple[str, ...]:
    """Return the names of the others.

    Raises:
        ManifestError, UsageError: as above.
    """
    read = asked_editions(root)
    return tuple(name for name in _editions(root) if name not in read)


def _editions(root: Path) -> dict[str, EditionPin]:
    file = root / pins.FILE
    return _pinned(root, file.stat().st_mtime_ns).editions if file.is_file() else {}


@lru_cache(maxsize=8)
def _pinned(root: Path, stamp: int) -> pins.Pins:
    del stamp  # only there to tell apart two states of the file
    return pins.load(root)


@lru_cache(maxsize=4)
def _opened_edition(pin: EditionPin, cache: Path, override: str) -> Tree:
    return Tree(pin.tree, cache, editions.folder_of(pin, cache, override), edition=True)


@lru_cache(maxsize=8)
def _opened(pin: TreePin, cache: Path, override: str) -> Tree:
    if not override:
        return Tree(pin, cache, None)
    folder = Path(override).resolve()
    places = [*pin.roots.values(), *pin.checkout.values()]
    if not any((folder / place).is_dir() for place in places):
        raise ToolchainError(
            f"use {pin.name} from {pin.override}={override}",
            f"it has none of the folders {', '.join(pin.checkout.values())}",
            f"Set {pin.override} to a checkout, or unset it to use the pinned wheel",
        )
    return Tree(pin, cache, folder)


def located(name: str, root: Path) -> Path:
    """Return the file that a manifest names.

    Of the repository at ``root``, or of a tree.

    Raises:
        FetchError: a tree has no such file.
    """
    return tree_of(name, root).path(name) if in_tree(name) else root / name


def exists(name: str, root: Path) -> bool:
    """Is there such a file, in the repository at ``root`` or in a tree?

    Raises:
        FetchError: the name is none of a file in a tree.
    """
    return tree_of(name, root).has(name) if in_tree(name) else (root / name).is_file()


def digest(name: str, root: Path) -> str:
    """SHA-256 of the file that a manifest names.

    Raises:
        OSError: it is a file of the repository and cannot be read.
        FetchError: a tree has no such file.
    """
    if in_tree(name):
        return tree_of(name, root).sha256(name)
    path = root / name
    facts = path.stat()
    return _remembered(path, facts.st_size, facts.st_mtime_ns, facts.st_ino)
