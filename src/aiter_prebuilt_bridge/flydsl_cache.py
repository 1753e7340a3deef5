"""FlyDSL's cache for kernels inside AITER: those of the bridge's data wheels are found without a compile, and what is not found
is said with the parts of its key that differ.

FlyDSL's own cache unpickles what lies in its folder, all of it. Nothing of a data wheel goes that way: an entry is the text of
the lowered module, read when its SHA-256 is that of the index, and the object that FlyDSL keeps is made of it here. A wheel whose
index others may write is left alone. The user's own cache (``FLYDSL_RUNTIME_CACHE_DIR``) stays where it is, and is read where no
wheel answers; kernels of other packages are none of the bridge's business.

``AITER_PREBUILT_BRIDGE=strict``: a kernel of AITER's that would be compiled is an error with its name.
"""

from __future__ import annotations

import importlib
import sys
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, Final

from aiter_prebuilt.contract.flydsl_key import PARTS, CompileInputs, build_of, cache_key, parts_of
from aiter_prebuilt.contract.kernel_cache import CacheEntry, differences
from aiter_prebuilt_bridge import cache_data, lookup_log
from aiter_prebuilt_bridge.cache_data import Data
from aiter_prebuilt_bridge.errors import CacheDamagedError, CompileRefusedError
from aiter_prebuilt_bridge_hook import VARIABLE

TOOL: Final = "flydsl"
MODULE: Final = "flydsl.compiler.jit_function"
_EXECUTOR: Final = "flydsl.compiler.jit_executor"
#: The one file of an entry: the lowered module with the code object in it, as text, compressed.
TEXT: Final = "module.zlib"
#: What is taken of FlyDSL's own. ``seen``: without all of them a compile cannot be noticed, or not be served.
_SEEN: Final = ("JitFunction", "MlirCompiler")
_SERVED: Final = ("JitCacheManager", "_flydsl_key", "_get_func_source", "_collect_dependency_sources")
#: A report of a miss names so many parts at most.
_PARTS_TOLD: Final = 6
_MARK: Final = "_aiter_prebuilt_bridge"
_NO_CACHE: Final = "FlyDSL's cache is off (FLYDSL_RUNTIME_ENABLE_CACHE, FLYDSL_DUMP_IR and the like)"

#: Launcher -> lookups that a data wheel answered, and that none did, in this process.
HITS: Final[Counter[str]] = Counter()
MISSES: Final[Counter[str]] = Counter()
#: Kernels whose compile was told, so that it is not told again where it starts.
_TOLD: Final = threading.local()
#: The entries for the FlyDSL of this process; made at the first lookup.
_ENTRIES: Final[list[tuple[Mapping[str, tuple[Data, CacheEntry]], str]]] = []


def wrap(jit: ModuleType) -> None:
    """After ``flydsl.compiler.jit_function`` was executed.

    Raises:
        CompileRefusedError: the bridge is strict, and this FlyDSL's compiles cannot be noticed.
    """
    lacks = [name for name in (*_SEEN, *_SERVED) if not hasattr(jit, name)]
    if lacks:
        why = f"this FlyDSL has no {', '.join(lacks)}, so its kernels are neither found nor noticed"
        if lookup_log.strict() and any(name in _SEEN for name in lacks):
            raise CompileRefusedError("import FlyDSL", why, f"Unset {VARIABLE} to use it all the same")
        lookup_log.once(TOOL, why)
        return
    names: Any = jit
    if not hasattr(names.JitCacheManager, _MARK):
        names.JitCacheManager = _manager(jit)
        names.MlirCompiler.compile = _guarded(names.MlirCompiler.compile)


def _manager(jit: Any) -> type:
    """FlyDSL's own class of a launcher's cache, with the data wheels before it."""
    original: Any = jit.JitCacheManager

    class Manager(original):  # type: ignore[misc]
        def load_all(self) -> int:
            """Count the entries of the user's cache.

            FlyDSL unpickles them all to count them.
            """
            return len([*self.cache_dir.glob("*.pkl")])

        def get(self, cache_key: str) -> Any:
            if cache_key not in self.memory_cache:
                found = _found(jit, self.cache_dir, cache_key, launcher_of_call(jit))
                if found is not None:
                    self.memory_cache[cache_key] = found
            return super().get(cache_key)

        def compile_lock(self, cache_key: str, **words: Any) -> Any:
            launched = launcher_of_call(jit)
            if launched is not None:
                _missed(launched, jit, "")
            return super().compile_lock(cache_key, **words)

    setattr(Manager, _MARK, original)
    return Manager


def _guarded(compile: Callable[..., Any]) -> Callable[..., Any]:
    """FlyDSL's compiler, which is not asked for a kernel of AITER's before that was told."""

    @wraps(compile)
    def guarded(*args: Any, **words: Any) -> Any:
        jit = sys.modules[MODULE]
        launched = launcher_of_call(jit)
        told = getattr(_TOLD, "function", "")
        if launched is not None and (told != launched.function or lookup_log.strict()):
            _missed(launched, jit, _NO_CACHE)
        _TOLD.function = ""
        return compile(*args, **words)

    return guarded


def launcher_of_call(jit: Any) -> CompileInputs | None:
    """Find AITER's launcher behind a lookup of the cache."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  # FlyDSL says a hash alone
    while frame is not None:
        launcher = frame.f_locals.get("self") if frame.f_globals.get("__name__") == MODULE else None
        if isinstance(launcher, jit.JitFunction) and "cache_key" in frame.f_locals:
            module = str(launcher.func.__module__)
            return (
                CompileInputs(launcher, frame.f_locals["cache_key"]) if module.startswith("aiter.") else None
            )
        frame = frame.f_back
    return None


def _found(jit: Any, folder: Path, call: str, launched: CompileInputs | None) -> Any:
    """Find a compiled kernel in the data wheels; None if absent."""
    known = None if launched is None else _entries(jit)[0].get(cache_key(folder.name, call))
    if launched is None or known is None:
        return None
    data, entry = known
    text = zlib.decompress(data.content(entry.files[TEXT])).decode()
    HITS[launched.function] += 1
    return artifact(text, launched)


def artifact(text: str, launched: CompileInputs) -> Any:
    """Build FlyDSL's object of a compiled launcher without its pickle."""
    executor: Any = importlib.import_module(_EXECUTOR)
    made = executor.CompiledArtifact.__new__(executor.CompiledArtifact)
    made.__setstate__({"ir_text": text, "entry": launched.launcher.func.__name__, "source_ir": None})
    return made


def _entries(jit: Any) -> tuple[Mapping[str, tuple[Data, CacheEntry]], str]:
    """Find the entries for the running FlyDSL.

    The text says why there are none of them, or "".
    """
    if not _ENTRIES:  # without a lock: see cache_data
        _ENTRIES.append(_read(jit))
        if _ENTRIES[0][1]:
            lookup_log.once(TOOL, _ENTRIES[0][1])
    return _ENTRIES[0]


def _read(jit: Any) -> tuple[Mapping[str, tuple[Data, CacheEntry]], str]:
    safe, problems = cache_data.trusted(TOOL)
    if not safe:
        why = (
            f"its data wheel is not read: {problems[0]}"
            if problems
            else "no data wheel with kernels of FlyDSL's is installed"
        )
        return {}, why
    mine = build_of(jit)
    builds = [build for data in safe for build in data.index.compilers[TOOL]]
    if all(build["key"] != mine["flydsl"] for build in builds):
        named = ", ".join(sorted({f"{build['version']} ({build['key'][:12]})" for build in builds}))
        return {}, (
            f"FlyDSL {mine['version']} ({mine['flydsl'][:12]}) is not one of those that kernels were compiled with: {named}"
            "; its native libraries are other ones for each version of Python"
        )
    return {
        key: (data, entry)
        for data in safe
        for entry in data.index.entries
        if entry.tool == TOOL
        for key in (entry.key, *entry.aliases)
    }, ""


def forget() -> None:
    """Read the wheels again at the next lookup."""
    _ENTRIES.clear()


def _missed(asked: CompileInputs, jit: Any, off: str) -> None:
    """FlyDSL is about to compile a kernel of AITER's. ``off``: why nothing was looked up."""
    _TOLD.function = asked.function
    MISSES[asked.function] += 1
    if not lookup_log.strict() and MISSES[asked.function] > 1:
        return
    why = off or _entries(jit)[1] or _nearest(asked, jit)
    if lookup_log.strict():
        raise CompileRefusedError(
            f"launch {asked.function}",
            f"FlyDSL would compile it now, because {why}",
            f"Unset {VARIABLE} to let it; aiter-prebuilt bridge status says which kernels are ready",
        )
    lookup_log.once(asked.function, f"FlyDSL compiles it, because {why}")


def _nearest(asked: CompileInputs, jit: Any) -> str:
    """Describe how the key differs from the nearest entry's."""
    mine = parts_of(asked, jit)
    same = [entry for _, entry in _entries(jit)[0].values() if entry.name == asked.function]
    if not same:
        return "no entry is of this kernel"
    told = min((differences(PARTS, mine, entry.parts) for entry in same), key=len)
    if not told:
        return "its key has a part that this version does not know"
    more = f"; and {len(told) - _PARTS_TOLD} more" if len(told) > _PARTS_TOLD else ""
    return f"the nearest of {len(same)} entries of it differs: {'; '.join(told[:_PARTS_TOLD])}{more}"


def _unanswered(jit: Any) -> str:
    try:
        return _entries(jit)[1]
    except CacheDamagedError as error:
        return f"{error.asked}: {error.found}"


def report() -> dict[str, Any]:
    """Report the lookups of this process.

    ``why``: why none of them can be answered, or "".
    """
    jit = sys.modules.get(MODULE)
    active = hasattr(getattr(jit, "JitCacheManager", None), _MARK)
    return {
        "active": active,
        "why": _unanswered(jit) if active else "",
        "hits": dict(sorted(HITS.items())),
        "misses": dict(sorted(MISSES.items())),
    }
