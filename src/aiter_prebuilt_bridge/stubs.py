"""AITER's decorators, so that a stub of its JIT, and what it registers with torch, is ours where ours takes its calls.

``compile_ops`` makes a stub in one of three ways (pybind with torch's tensors, pybind with its own (``develop``), ctypes), and
each ends in ``torch_compile_guard``, which registers it as ``torch.ops.aiter.NAME`` with a schema and a fake function. Both stay:
only the function that is registered becomes ours, and the public name goes to it without torch's dispatcher between.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any, Final

from aiter_prebuilt_bridge import record, serving

_STUB: Final = "_aiter_prebuilt_stub"
#: The JIT's functions that start a compile; the second starts compilers to ask them for their flags.
_COMPILES: Final = ("build_module", "get_args_of_build")

#: And those of its templates: the second argument is the folder of what is compiled.
_TEMPLATES: Final = ("compile_lib", "compile_hsaco")


def wrap_core(core: ModuleType) -> None:
    """After ``aiter.jit.core`` was executed, before anything imports its decorator."""
    original = getattr(core, "compile_ops", None)
    if original is not None:
        core.compile_ops = marking(original)  # type: ignore[attr-defined]
    for name in _COMPILES:
        function = getattr(core, name, None)
        if function is not None:
            setattr(core, name, _telling(function))


def wrap_templates(utils: ModuleType) -> None:
    """After ``csrc.cpp_itfs.utils`` was executed, which compiles what AITER writes from templates."""
    for name in _TEMPLATES:
        function = getattr(utils, name, None)
        if function is not None:
            setattr(utils, name, _telling(function))


def _telling(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def telling(*args: Any, **keywords: Any) -> Any:
        module = args[0] if args else keywords.get("md_name", keywords.get("ops_name", "a module"))
        record.compiling(str(module))
        return function(*args, **keywords)

    return telling


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


def wrap_registration(utils: ModuleType) -> None:
    """After ``csrc.cpp_itfs.torch_utils`` was executed, by which functions around templates become operators of torch's."""
    original = getattr(utils, "direct_register_custom_op", None)
    if original is None:
        return

    @wraps(original)
    def register(op_name: str, op_func: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
        module, signature = op_func.__module__, serving.signature_of(op_func)
        mine, cover = serving.decide(module, (op_name,), signature)
        own = mine.__name__ if mine else ""
        record.keep(record.Name(module, op_name, "torch", cover.why, ours=own, words=cover.words))
        if mine is not None:
            # torch reads a schema off it, so that it has AITER's signature and annotations.
            made: Any = wraps(op_func)(serving.through(mine, op_func, module, cover.omitted, cover.words))
            made.__signature__ = signature
            return original(op_name, made, *args, **keywords)
        return original(op_name, op_func, *args, **keywords)

    utils.direct_register_custom_op = register  # type: ignore[attr-defined]


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
            return _registered(original, (args, keywords), stub, function)

        return decorator

    module.torch_compile_guard = guard  # type: ignore[attr-defined]


def _registered(
    original: Callable[..., Any], call: tuple[Any, Any], stub: Any, function: Callable[..., Any]
) -> Any:
    """What AITER's guard makes of ``function``, or ours, registered by that guard."""
    args, keywords = call
    named = function if stub is None else stub
    name, module = named.__name__, named.__module__
    way, needs, native = getattr(named, _STUB, ("torch", "", name))
    if not module.startswith("aiter.ops") and way == "torch":
        return original(*args, **keywords)(function)
    # A private stub has the native function's conventions, not those of the public function of that name.
    names = (name,) if name.startswith("_") else (name, native)
    mine, cover = serving.decide(module, names, serving.signature_of(named))
    record.keep(record.Name(module, name, way, cover.why, needs, mine.__name__ if mine else "", cover.words))
    theirs = _asked(name, function)
    if mine is None:
        return original(*args, **keywords)(theirs if stub is not None else function)
    made = serving.through(mine, theirs, module, cover.omitted, cover.words)
    if stub is None:
        keywords = {**keywords, "calling_func_": function}
    original(*args, **keywords)(made)
    return made


def _asked(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def asked(*args: Any, **keywords: Any) -> Any:
        with record.asking(name):
            return function(*args, **keywords)

    return wraps(function)(asked)
