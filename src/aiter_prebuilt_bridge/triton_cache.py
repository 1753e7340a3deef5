"""Triton's cache for kernels inside AITER: those of the bridge's data wheels are found without a compile, and what is not found
is said with the parts of its key that differ.

Triton makes one :class:`CacheManager` for each lookup, with the key alone; what the key was made of is read from the compile that
asks. A file is handed to Triton when its SHA-256 is that of the wheel's index. What is not in a wheel is looked up, and written,
where Triton does it otherwise. Kernels of other packages are none of the bridge's business.

``AITER_PREBUILT_BRIDGE=strict``: a kernel of AITER's that would be compiled is an error with its name.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections import Counter
from collections.abc import Mapping
from types import FrameType
from typing import Any, Final

from aiter_prebuilt.contract.kernel_cache import CacheEntry, differences
from aiter_prebuilt.contract.triton_key import PARTS, CompileInputs, parts_of, triton_key
from aiter_prebuilt_bridge import cache_data, lookup_log
from aiter_prebuilt_bridge.cache_data import Data
from aiter_prebuilt_bridge.errors import CacheDamagedError, CompileRefusedError
from aiter_prebuilt_bridge_hook import VARIABLE

#: Triton's own name for a class of this kind, as ``package.module:Class``.
TRITON_VARIABLE: Final = "TRITON_CACHE_MANAGER"
TOOL: Final = "triton"
#: A report of a miss names so many parts at most.
_PARTS_TOLD: Final = 6
_CACHE: Final = "triton.runtime.cache"
_COMPILE: Final = ("triton.compiler.compiler", "compile")

#: Kernel -> lookups that a data wheel answered, and that none did, in this process.
HITS: Final[Counter[str]] = Counter()
MISSES: Final[Counter[str]] = Counter()
#: The entries for the Triton of this process; made at the first lookup.
_ENTRIES: Final[list[tuple[Mapping[str, tuple[Data, CacheEntry]], str]]] = []


class CacheManager:
    """One lookup, as Triton asks for it. The class is called as Triton's own, which is how its variable knows it."""

    def __init__(self, key: str, override: bool = False, dump: bool = False) -> None:
        self._key = key
        self._words: dict[str, bool] = {"override": override, "dump": dump} if override or dump else {}
        self._made: Any = None
        # Dumps and overrides are a user's own files; so is what is not about a kernel of AITER's.
        self._asked = None if self._words else _compile_of_lookup()
        self._found = _entries()[0].get(key) if self._asked else None

    @property
    def _own(self) -> Any:
        """Triton's manager, made when it is needed: it makes a folder."""
        if self._made is None:
            self._made = importlib.import_module(_CACHE).FileCacheManager(self._key, **self._words)
        return self._made

    def get_group(self, filename: str) -> dict[str, str] | None:
        """Find the files of a compiled kernel; None if absent.

        Then Triton compiles it.

        Raises:
            CacheDamagedError: a file of the wheel has other bytes than the index says.
            CompileRefusedError: the bridge is strict, and Triton would compile a kernel of AITER's.
        """
        if self._found is not None:
            data, entry = self._found
            files = data.files(entry)
            if filename in files:
                HITS[entry.name] += 1
                return files
        group: dict[str, str] | None = self._own.get_group(filename)
        if group is None and self._asked is not None:
            _missed(self._asked)
        return group

    def get_file(self, filename: str) -> str | None:
        """One file, which never is a wheel's: those come in groups."""
        found: str | None = self._own.get_file(filename)
        return found

    def put(self, data: Any, filename: str, binary: bool = True) -> str:
        """Into Triton's own cache."""
        return str(self._own.put(data, filename, binary=binary))

    def put_group(self, filename: str, group: dict[str, str]) -> Any:
        """Into Triton's own cache."""
        return self._own.put_group(filename, group)


def install() -> bool:
    """Make this Triton's cache in this process, unless a user named another; is it?

    Not by the variable: a child of this process may be a Python without the bridge.
    """
    knobs = sys.modules.get("triton.knobs")
    if knobs is None or os.environ.get(TRITON_VARIABLE):
        return False
    chosen = vars(knobs.cache).setdefault("manager_class", CacheManager)
    return chosen is CacheManager


def _entries() -> tuple[Mapping[str, tuple[Data, CacheEntry]], str]:
    """Find the entries for the running Triton.

    The text says why there are none of them, or "".
    """
    if not _ENTRIES:  # without a lock: see cache_data
        _ENTRIES.append(_read())
    return _ENTRIES[0]


def _read() -> tuple[Mapping[str, tuple[Data, CacheEntry]], str]:
    safe, problems = cache_data.trusted(TOOL)
    if problems:
        lookup_log.once(TOOL, "; ".join(problems))
    known = {key: each for key, each in cache_data.entries(TOOL).items() if each[0] in safe}
    if not known:
        return {}, "no data wheel with kernels of Triton's is installed (extras bridge-gfx942, bridge-gfx950)"
    key = triton_key(importlib.import_module(_CACHE))
    builds = [build for data in safe for build in data.index.compilers[TOOL]]
    mine = {build.get("as", key) for build in builds if build["key"] == key}
    if not mine:
        named = ", ".join(sorted({f"{build['version']} ({build['key'][:12]})" for build in builds}))
        version = getattr(sys.modules.get("triton"), "__version__", "")
        why = f"Triton {version} ({key[:12]}) is not one of those that kernels were compiled with: {named}"
        lookup_log.once(TOOL, why)
        return {}, why
    return {name: row for name, row in known.items() if row[1].parts.get(TOOL) in mine}, ""


def forget() -> None:
    """Read the wheels again at the next lookup."""
    _ENTRIES.clear()


def _compile_of_lookup() -> CompileInputs | None:
    """Find the AITER kernel behind a lookup of Triton's cache."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  # Triton says the key alone
    while frame is not None:
        if (frame.f_globals.get("__name__"), frame.f_code.co_name) == _COMPILE:
            known = frame.f_locals
            function = getattr(known.get("src"), "fn", None)
            if not str(getattr(function, "__module__", "")).startswith("aiter."):
                return None
            return CompileInputs(
                known["src"], known.get("backend"), known.get("options"), known.get("env_vars") or {}
            )
        frame = frame.f_back
    return None


def _missed(asked: CompileInputs) -> None:
    """Triton is about to compile a kernel of AITER's."""
    MISSES[asked.function] += 1
    none = _entries()[1]
    # Where nothing can be found, that was said, or no wheel is wanted: not once more for each kernel.
    if not lookup_log.strict() and (none or MISSES[asked.function] > 1):
        return
    why = none or _nearest(asked)
    if lookup_log.strict():
        raise CompileRefusedError(
            f"launch {asked.function}",
            f"Triton would compile it now, because {why}",
            f"Unset {VARIABLE} to let it; aiter-prebuilt bridge status says which kernels are ready",
        )
    lookup_log.once(asked.function, f"Triton compiles it, because {why}")


def _nearest(asked: CompileInputs) -> str:
    """Describe how the key differs from the nearest entry's."""
    mine = parts_of(asked, importlib.import_module(_CACHE))
    same = {entry.key: entry for _, entry in _entries()[0].values() if entry.name == asked.function}
    if not same:
        return "no entry is of this kernel"
    # All are of this Triton, or of a build that compiles the same.
    told = min(
        (differences(PARTS, mine, {**entry.parts, TOOL: mine[TOOL]}) for entry in same.values()), key=len
    )
    if not told:
        return "its key has a part that this version does not know"
    more = f"; and {len(told) - _PARTS_TOLD} more" if len(told) > _PARTS_TOLD else ""
    return f"of {len(same)} entries of it the nearest differs: {'; '.join(told[:_PARTS_TOLD])}{more}"


def _unanswered(user: str, active: bool) -> str:
    if user and not active:
        return f"{TRITON_VARIABLE}={user} names another class"
    if not active:
        return ""
    try:
        return _entries()[1]
    except CacheDamagedError as error:
        return f"{error.asked}: {error.found}"


def report() -> dict[str, Any]:
    """Report the lookups of this process.

    ``why``: why none of them can be answered, or "".
    """
    user = os.environ.get(TRITON_VARIABLE, "")
    knobs = sys.modules.get("triton.knobs")
    active = knobs is not None and vars(knobs.cache).get("manager_class") is CacheManager
    active = active or user == f"{CacheManager.__module__}:CacheManager"
    return {
        "active": active,
        "why": _unanswered(user, active),
        "hits": dict(sorted(HITS.items())),
        "misses": dict(sorted(MISSES.items())),
    }
