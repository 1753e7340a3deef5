"""AITER's decorators, so that a stub of its JIT, and what it registers with torch, is ours where ours takes its calls.

``compile_ops`` makes a stub in one of three ways (pybind with torch's tensors, pybind with its own (``develop``), ctypes), and
each ends in ``torch_compile_guard``, which registers it as ``torch.ops.aiter.NAME`` with a schema and a fake function. Both stay:
only the function that is registered becomes ours, and the public name goes to it without torch's dispatcher between. What is
compiled from templates (``csrc.cpp_itfs``) is registered by ``direct_register_custom_op``: vLLM's decode calls one of these.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any, Final

from aiter_prebuilt_bridge import lookup_log, serving

_STUB: Final = "_aiter_prebuilt_stub"
#: Where AITER's guard keeps its library of torch's operators, None before the first.
_LIBRARY: Final = "aiter_lib"
#: The JIT's functions that start a compile; the second starts compilers to ask them for their flags.
_COMPILES: Final = ("build_module", "get_args_of_build")
#: And those of its templates: which argument says what is compiled, by place and by name.
_TEMPLATES: Final = {"compile_lib": (1, "folder"), "compile_hsaco": (0, "kernel_name")}
_AHEAD: Final = ("compile_gluon_kernel", "compile_kernel")


def wrap_core(core: ModuleType) -> None:
    """After ``aiter.jit.core`` was executed, before anything imports its decorator."""
    original = getattr(core, "compile_ops", None)
    if original is not None:
        core.compile_ops = marking(original)  # type: ignore[attr-defined]
    for name in _COMPILES:
        function = getattr(core, name, None)
        if function is not None:
            setattr(core, name, _telling(function, _module_of))


def _module_of(args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    return args[0] if args else keywords.get("md_name", keywords.get("ops_name", "a module"))


def wrap_templates(utils: ModuleType) -> None:
    """After ``csrc.cpp_itfs.utils`` was executed, which compiles what AITER writes from templates."""
    for name, (place, word) in _TEMPLATES.items():
        function = getattr(utils, name, None)
        if function is not None:
            setattr(utils, name, _telling(function, _argument(place, word)))
    original = getattr(utils, "compile_template_op", None)
    if original is not None:
        utils.compile_template_op = _named(original)  # type: ignore[attr-defined]


def wrap_ahead(tools: ModuleType) -> None:
    """After one of ``csrc.cpp_itfs.gluon_aot_tools`` was executed: these compile Triton kernels for a template."""
    for name in _AHEAD:
        function = getattr(tools, name, None)
        if function is not None:
            setattr(tools, name, _telling(function, _kernel_of))


def _kernel_of(args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    asked = args[0] if args else keywords.get("args")
    return getattr(asked, "kernel_name", "") or "a kernel of Triton's"


def _argument(place: int, word: str) -> Callable[[tuple[Any, ...], dict[str, Any]], Any]:
    return lambda args, keywords: args[place] if len(args) > place else keywords.get(word, "a template")


def _named(compile_template_op: Callable[..., Any]) -> Callable[..., Any]:
    """Name the template for direct calls of ``csrc.cpp_itfs``.

    A call through one of AITER's operators has that operator's name.
    """
    name_of = _argument(1, "md_name")

    @wraps(compile_template_op)
    def named(*args: Any, **keywords: Any) -> Any:
        with lookup_log.asking(lookup_log.running_function() or str(name_of(args, keywords))):
            return compile_template_op(*args, **keywords)

    return named


def _telling(
    function: Callable[..., Any], module_of: Callable[[tuple[Any, ...], dict[str, Any]], Any]
) -> Callable[..., Any]:
    @wraps(function)
    def telling(*args: Any, **keywords: Any) -> Any:
        lookup_log.compiling(str(module_of(args, keywords)))
        return function(*args, **keywords)

    return telling


def wrap_register(utils: ModuleType) -> None:
    """After ``csrc.cpp_itfs.torch_utils`` was executed, by which functions around templates become operators of torch."""
    original = getattr(utils, "direct_register_custom_op", None)
    if original is None:
        return

    @wraps(original)
    def register(op_name: str, op_func: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
        return original(op_name, _operator(op_name, op_func), *args, **keywords)

    utils.direct_register_custom_op = register  # type: ignore[attr-defined]


def _operator(name: str, theirs: Callable[..., Any]) -> Callable[..., Any]:
    """Make the function that torch calls for AITER's operator.

    It has AITER's signature, from which torch makes the schema.
    """
    module, asked = theirs.__module__, _logged(name, theirs)
    mine, cover = serving.decide(module, (name,), serving.signature_of(theirs))
    own = mine.__name__ if mine else ""
    lookup_log.keep(lookup_log.Name(module, name, "torch", cover.why, ours=own, words=cover.words))
    if mine is None:
        return asked
    made = serving.through(mine, asked, module, cover.omitted, cover.words)

    @wraps(theirs)
    def operator(*args: Any, **keywords: Any) -> Any:
        return made(*args, **keywords)

    return operator


def marking(compile_ops: Callable[..., Any]) -> Callable[..., Any]:
    """AITER's ``compile_ops``, which also writes on the function it is given how it is called and what it needs."""

    @wraps(compile_ops)
    def marked(*args: Any, **keywords: Any) -> Callable[..., Any]:
        told = inspect.signature(compile_ops).bind(*args, **keywords).arguments
        way = "develop" if told.get("develop") else str(told.get("ffi_type", "pybind"))
        needs, native = str(told.get("_md_name", "")), told.get("fc_name")
        decorate = compile_ops(*args, **keywords)

        def decorator(function: Callable[..., Any]) -> Any:
            setattr(function, _STUB, (way, needs, native or function.__name__))
            return decorate(function)

        return decorator

    return marked


def wrap_guard(module: ModuleType) -> None:
    """After ``torch_guard`` was executed: there are two copies of it."""
    original = getattr(module, "torch_compile_guard", None)
    if original is None:
        return

    @wraps(original)
    def guard(*args: Any, **keywords: Any) -> Callable[..., Any]:
        told = inspect.signature(original).bind(*args, **keywords).arguments
        stub = told.get("calling_func_")

        def decorator(function: Callable[..., Any]) -> Any:
            if vars(module).get(_LIBRARY, module) is None and "torch.library" in sys.modules:
                setattr(module, _LIBRARY, _library())
            return _registered(original, (args, keywords), stub, function)

        return decorator

    module.torch_compile_guard = guard  # type: ignore[attr-defined]


def _library() -> Any:
    """Return torch's library as AITER's guard would make it.

    Its names never have the namespace in front.

    AITER of November 2025 defines ``aiter::NAME`` in the library ``aiter``. torch before 2.13 took that as ``NAME``. Since then
    it keeps ``aiter::aiter::NAME``, and its own clean-up ends each process with a ValueError for each copy of the guard.
    """
    base: Any = vars(sys.modules["torch.library"])["Library"]

    class Named(base):  # type: ignore[misc]
        def define(self, schema: str, *args: Any, **keywords: Any) -> Any:
            return super().define(schema.removeprefix(f"{self.ns}::"), *args, **keywords)

    made: Any = Named
    return made("aiter", "FRAGMENT")


def _registered(
    original: Callable[..., Any], call: tuple[Any, Any], stub: Any, function: Callable[..., Any]
) -> Any:
    """Register ``function``, or ours, through AITER's guard."""
    args, keywords = call
    named = function if stub is None else stub
    name, module = named.__name__, named.__module__
    way, needs, native = getattr(named, _STUB, ("torch", "", name))
    if not module.startswith("aiter.ops") and way == "torch":
        return original(*args, **keywords)(function)
    # A private stub has the native function's conventions, not those of the public function of that name.
    names = (name,) if name.startswith("_") else (name, native)
    mine, cover = serving.decide(module, names, serving.signature_of(named))
    lookup_log.keep(
        lookup_log.Name(module, name, way, cover.why, needs, mine.__name__ if mine else "", cover.words)
    )
    theirs = _logged(name, function)
    if mine is None:
        return original(*args, **keywords)(theirs if stub is not None else function)
    made = serving.through(mine, theirs, module, cover.omitted, cover.words)
    if stub is None:
        keywords = {**keywords, "calling_func_": function}
    original(*args, **keywords)(made)
    return made


def _logged(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def logged(*args: Any, **keywords: Any) -> Any:
        with lookup_log.asking(name):
            return function(*args, **keywords)

    return wraps(function)(logged)
