"""Restrict what a FlyDSL kernel's source can reach while it compiles.

It may read the files that its job lists, Python's own library, FlyDSL and the stand-in for torch. The key of the job covers
these. All else is refused by name, so that no result can depend on a file, a program or a package that no key covers.

A source is a program that we chose to run, and no prisoner: this keeps keys honest, and does not hold somebody who wants out.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final

from build_tools.compile.backends.flydsl_sources import ELSEWHERE, module_of

#: What ends or begins something outside of this process.
_STARTS: Final = frozenset(
    {
        "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty", "socket.connect",
        "socket.getaddrinfo",
    }
)  # fmt: skip
#: What asks for a file or a folder by name; the first argument is the name.
_LOOKS: Final = frozenset({"open", "os.listdir", "os.scandir"})
#: Of the machine, but the same everywhere.
_ANYWHERE: Final = ("/dev/null", "/dev/urandom", "/dev/zero")
_LIBRARIES: Final = ("stdlib", "platstdlib", "purelib", "platlib")
_WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class NotInKeyError(Exception):
    """A source asked for something that the key of its job does not cover; the message says what."""


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles the text as it is: bytecode that lies beside it may be of another text of the same time and size."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return compile(self.get_data(path), path, "exec", dont_inherit=True)


class _Finder(MetaPathFinder):
    """Finds the modules of a job's files, and nobody else's: no other package of the environment is in a key."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        self.files = files
        self.above = {name.rpartition(".")[0] for name in files} | {name.split(".")[0] for name in files}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find the spec of ``fullname``, also of a package without a file.

        None for Python's own and FlyDSL's.
        """
        del path, target
        top = fullname.partition(".")[0]
        if top in ELSEWHERE:
            return None
        file = self.files.get(fullname)
        if file is not None:
            inside: list[str] | None = [] if file.stem == "__init__" else None
            return importlib.util.spec_from_file_location(
                fullname, file, loader=_Loader(fullname, str(file)), submodule_search_locations=inside
            )
        if any(name == fullname or name.startswith(f"{fullname}.") for name in self.above):
            bare = importlib.machinery.ModuleSpec(fullname, None, is_package=True)
            bare.submodule_search_locations = []
            return bare
        raise ModuleNotFoundError(
            f"No module named {fullname!r} in a FlyDSL compile: its key covers Python's own library, FlyDSL, and the files "
            "beside the source that import statements name",
            name=fullname,
        )


class _Watch:
    """The one audit hook of this process (none can be taken away again) and what it lets through now."""

    def __init__(self) -> None:
        self.files: frozenset[str] | None = None
        self.folders: tuple[str, ...] = ()
        self.installed = False

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        if self.files is None:
            return
        if event in _STARTS:
            what = f" of {args[0]!r}" if args else ""
            raise NotInKeyError(f"the source asks for {event}{what}, whose answer no key covers")
        if event in _LOOKS and isinstance(args[0], (str, bytes, os.PathLike)):
            path = os.path.realpath(os.fsdecode(args[0]))
            if path not in self.files and not f"{path}{os.sep}".startswith(self.folders):
                writes = event == "open" and isinstance(args[2], int) and args[2] & _WRITES
                how = "write" if writes else "read"
                raise NotInKeyError(f"the source would {how} {path}, which is not among the files of its key")


_watch: Final = _Watch()


@contextmanager
def only(source: str, inputs: Sequence[str], root: Path, scratch: Path) -> Iterator[ModuleType]:
    """Load a kernel source with restricted imports.

    For as long as the context lasts nothing is read but ``inputs`` (below ``root``; the source is one), ``scratch``, and the
    files of Python and FlyDSL. Its modules are gone afterwards, and those of others are hidden meanwhile.

    Raises:
        NotInKeyError: it asks for more. ImportError, or whatever else its code raises.
    """
    places = {name: root / name for name in dict.fromkeys((source, *inputs))}
    finder = _Finder({module_of(source, name): path for name, path in places.items()})
    sys.dont_write_bytecode = True
    if not _watch.installed:
        sys.addaudithook(_watch)
        _watch.installed = True
    libraries = [os.path.realpath(sysconfig.get_path(name)) for name in _LIBRARIES]
    if sys.pycache_prefix is not None:  # their bytecode, which Python may keep elsewhere
        libraries += [
            os.path.realpath(f"{sys.pycache_prefix}{os.sep}{each.lstrip(os.sep)}") for each in libraries
        ]
    _watch.folders = tuple(
        f"{os.path.realpath(each)}{os.sep}" for each in (*libraries, str(scratch), *_ANYWHERE)
    )
    hidden = {name: sys.modules.pop(name) for name in list(sys.modules) if _of_others(name)}
    path = list(sys.path)
    sys.path[:] = [each for each in path if f"{os.path.realpath(each)}{os.sep}".startswith(_watch.folders)]
    sys.meta_path.insert(0, finder)
    _watch.files = frozenset(os.path.realpath(path) for path in places.values())
    try:
        yield _loaded(places[source])
    finally:
        _watch.files = None
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if _of_others(name)]:
            del sys.modules[name]
        sys.modules.update(hidden)
        sys.path[:] = path


def _of_others(name: str) -> bool:
    return name.partition(".")[0] not in ELSEWHERE and name != "__main__"


def _loaded(path: Path) -> ModuleType:
    """Load a source as a module of a name of its own.

    A file may be called like a module of the library.
    """
    name = f"kernel_source_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path, loader=_Loader(name, str(path)))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
