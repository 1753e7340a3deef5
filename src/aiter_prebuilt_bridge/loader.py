"""Load a module of AITER's through the bridge's finder.

It is replaced, executed with replacements inside, or inspected afterwards.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

from aiter_prebuilt_bridge import (
    collectives,
    core,
    probe_overrides,
    public,
    stubs,
    triton_autotune,
    triton_cache,
)
from aiter_prebuilt_bridge_hook import is_finder

#: AITER's enumerations and its tensor: a module that its JIT compiles first of all. It was named otherwise in older trees.
CORE_MODULES: Final = ("module_aiter_core", "module_aiter_enum")
#: Modules that are found through a folder on the path, so that another package's may have the name.
_TOOLS: Final = ("chip_info", "cpp_extension", "torch_guard")
_AFTER: Final[Mapping[str, Callable[[ModuleType], None]]] = {
    "aiter.jit.core": stubs.wrap_core,
    "torch_guard": stubs.wrap_guard,
    collectives.MODULE: collectives.replace,
    "csrc.cpp_itfs.utils": stubs.wrap_templates,
    "csrc.cpp_itfs.torch_utils": stubs.wrap_register,
    "csrc.cpp_itfs.gluon_aot_tools.compile": stubs.wrap_ahead,
    "csrc.cpp_itfs.gluon_aot_tools.compile_gluon": stubs.wrap_ahead,
}
_KERNELS: Final = "aiter.ops.triton."
_PUBLIC: Final = ("aiter.ops.", "aiter.fused_moe", "aiter.mla", "aiter.tuned_gemm", "aiter.utility.fp4_utils")
_FLYDSL: Final = "flydsl.compiler.jit_function"
#: Names that this thread asks the other finders for. One of them may ask all finders in its turn, so ours again.
_ASKING: Final = threading.local()


def spec_of(
    finder: object, name: str, path: Sequence[str] | None, target: ModuleType | None
) -> ModuleSpec | None:
    """Build the spec of an AITER module with our loader.

    The other finders find it, and our code stands around its loader.
    """
    asking = vars(_ASKING).setdefault("names", set())
    if name in asking:
        return None
    asking.add(name)
    try:
        spec = _others(finder, name, path, target)
    finally:
        asking.discard(name)
    last = name.rpartition(".")[2]
    if last in CORE_MODULES:
        return spec or core.spec(name)
    if spec is None or spec.loader is None or isinstance(spec.loader, Executed):
        return spec
    if name == "aiter" and _FLYDSL in sys.modules:
        _wrap_flydsl(sys.modules[_FLYDSL])
    if last in _TOOLS and not _is_tool(spec):
        return spec
    before = probe_overrides.of(last if last in _TOOLS else name)
    after = _after(last if last in _TOOLS else name)
    if before or after:
        around: Any = Executed(spec, before, after)
        spec.loader = around
    return spec


def _others(
    finder: object, name: str, path: Sequence[str] | None, target: ModuleType | None
) -> ModuleSpec | None:
    for other in [*sys.meta_path]:
        find = getattr(other, "find_spec", None)
        if other is not finder and not is_finder(other) and find is not None:
            found: ModuleSpec | None = find(name, path, target)
            if found is not None:
                return found
    return None


def _is_tool(spec: ModuleSpec) -> bool:
    return Path(spec.origin or "").parts[-4:-1] == ("aiter", "jit", "utils")


def _wrap_flydsl(module: ModuleType) -> None:
    from aiter_prebuilt_bridge import flydsl_cache  # most processes have no FlyDSL

    flydsl_cache.wrap(module)


def _after(name: str) -> Callable[[ModuleType], None] | None:
    if name in _AFTER:
        return _AFTER[name]
    if name == "aiter":
        return _finish
    if name.startswith(_KERNELS):
        return _kernels
    if name == _FLYDSL:
        return _wrap_flydsl
    return public.replace if name.startswith(_PUBLIC) else None


def _finish(package: ModuleType) -> None:
    public.finish(package)
    triton_cache.install()


def _kernels(module: ModuleType) -> None:
    """Prepare an AITER module that has or launches Triton kernels.

    Nothing of it was launched before it was executed.
    """
    triton_cache.install()
    public.replace(module)


class Executed:
    """A loader around another's: ``before`` are functions whose code is ours, ``after`` looks at the module. The module
    has its own loader; the spec keeps this one, since AITER executes some modules once for each of two names.
    """

    def __init__(
        self,
        spec: ModuleSpec,
        before: Mapping[str, FunctionType],
        after: Callable[[ModuleType], None] | None,
    ) -> None:
        self._before, self._after = before, after
        self._loader: Any = spec.loader

    def __getattr__(self, name: str) -> Any:
        """Whoever asks before the module is executed (``runpy``, a search for its sources) asks the module's own loader."""
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Create the module as its own loader does."""
        made: ModuleType | None = self._loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        """Execute it."""
        module.__loader__ = self._loader
        if module.__name__.startswith(_KERNELS):
            triton_autotune.install()
        code = self._loader.get_code(module.__name__) if self._before else None
        with probe_overrides.surroundings(module.__name__):
            if isinstance(code, CodeType):
                code = probe_overrides.placed(probe_overrides.answered(code, self._before), module.__name__)
                exec(code, module.__dict__)  # noqa: S102  # as a loader does
            else:
                self._loader.exec_module(module)
        if self._after is not None:
            self._after(module)
