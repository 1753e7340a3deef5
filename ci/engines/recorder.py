"""Record the calls of AITER's functions that vLLM makes in this process: names, types, shapes, strides and numbers, no values.

A call counts where its caller is a module of vLLM: calls inside AITER are AITER's own affair. Names are those that
``ci/client_names.py`` found in vLLM's wheel, and operators below ``torch.ops.aiter``.
"""

from __future__ import annotations

import enum
import functools
import importlib
import importlib.abc
import importlib.machinery
import inspect
import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final

_NAMES: Final = Path(__file__).resolve().parents[2] / "tests" / "data" / "client_names.json"
_CLIENT: Final = "vllm"
_TORCH: Final = "torch.ops.aiter"
_TRITON: Final = "aiter.ops.triton."
#: An object of AITER's whose method is called, and the method.
_METHODS: Final = {"tgemm": ("mm",)}
_SEEN: Final[Counter[str]] = Counter()


def start() -> None:
    """Record from now on: AITER's modules are not imported yet.

    Raises:
        RuntimeError: AITER was imported before, so that callers hold functions that are not recorded.
    """
    if "aiter" in sys.modules:
        raise RuntimeError("Cannot record calls: aiter is imported already. Start the recorder first.")
    listed = json.loads(_NAMES.read_text(encoding="utf-8"))
    names: dict[str, set[str]] = {}
    for client, rows in listed.items():
        if client.split()[0] == _CLIENT:
            for module, name in rows:
                names.setdefault(module, set()).add(name)
    sys.meta_path.insert(0, _Finder(names))
    _record_operators()


def calls() -> list[dict[str, Any]]:
    """Return each distinct call with how often it was made, in an order that does not depend on the run."""
    return [json.loads(text) | {"times": times} for text, times in sorted(_SEEN.items())]


def described(value: Any) -> Any:
    """Describe an argument as JSON.

    Tensors are ``{"tensor": dtype, "shape": [...], "strides": [...]}``, with ``"view": true`` where they are a part of their
    storage; types ``{"dtype": ...}``; members of an enumeration ``{"enum": ..., "value": ...}``.
    """
    import torch

    if isinstance(value, torch.Tensor):
        told: dict[str, Any] = {
            "tensor": str(value.dtype).removeprefix("torch."),
            "shape": list(value.shape),
            "strides": list(value.stride()),
        }
        if value.numel() * value.element_size() != value.untyped_storage().nbytes():
            told["view"] = True
        return told
    if isinstance(value, torch.dtype):
        return {"dtype": str(value).removeprefix("torch.")}
    if isinstance(value, (tuple, list)):
        return [described(each) for each in value]
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, enum.Enum) or hasattr(
        type(value), "__members__"
    ):  # pybind's enumerations are no Enum
        return {"enum": f"{type(value).__name__}.{value.name}", "value": int(value.value)}
    if isinstance(value, (int, float)):
        return value
    return {"object": type(value).__name__}


def keep(name: str, args: Sequence[Any], keywords: Mapping[str, Any]) -> None:
    """Remember one call."""
    told = {
        "name": name,
        "args": [described(each) for each in args],
        "keywords": {key: described(value) for key, value in keywords.items()},
    }
    _SEEN[json.dumps(told)] += 1


def _is_client(depth: int) -> bool:
    caller = sys._getframe(depth + 1)  # noqa: SLF001  # inspect reads the sources of the whole stack
    name = caller.f_globals.get("__name__", "")
    return isinstance(name, str) and name.split(".")[0] == _CLIENT


def recorded(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``function`` with its calls from the client's modules recorded under ``name``."""

    @functools.wraps(function)
    def replacement(*args: Any, **keywords: Any) -> Any:
        if _is_client(1):
            keep(name, args, keywords)
        return function(*args, **keywords)

    return replacement


def _record_module(module: ModuleType, names: set[str]) -> None:
    for name in sorted(names & vars(module).keys()):
        value = getattr(module, name)
        if inspect.isroutine(value):
            setattr(module, name, recorded(name, value))
        elif inspect.isclass(value) and not issubclass(value, enum.Enum):
            for method, function in [*vars(value).items()]:
                if inspect.isfunction(function) and not method.startswith("_"):
                    setattr(value, method, _recorded_method(f"{name}.{method}", function))
        for method in _METHODS.get(name, ()):
            setattr(value, method, recorded(f"{name}.{method}", getattr(value, method)))


def _recorded_method(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def replacement(self: Any, *args: Any, **keywords: Any) -> Any:
        if _is_client(1):
            keep(name, args, keywords)
        return function(self, *args, **keywords)

    return replacement


def _record_operators() -> None:
    """Record calls of operators that AITER registers with torch."""
    # torch has no public name for them.
    operators = importlib.import_module("torch._ops")
    for kind, attribute in (("OpOverloadPacket", "_qualified_op_name"), ("OpOverload", "_name")):
        _record_calls_of(getattr(operators, kind), attribute)


def _record_calls_of(kind: Any, attribute: str) -> None:
    original = kind.__call__

    def replacement(self: Any, /, *args: Any, **keywords: Any) -> Any:
        namespace, _, name = getattr(self, attribute).partition("::")
        if namespace == "aiter" and _is_client(1):
            keep(f"{_TORCH}.{name.partition('.')[0]}", args, keywords)
        return original(self, *args, **keywords)

    kind.__call__ = replacement


class _Finder(importlib.abc.MetaPathFinder):
    """Lets the other finders find AITER's modules, and records functions of a module once it was executed."""

    def __init__(self, names: Mapping[str, set[str]]) -> None:
        self._names = names
        self._asking: set[str] = set()

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find a module that the client takes names from; others are somebody else's."""
        wanted = self._wanted(name)
        if not wanted or name in self._asking:
            return None
        self._asking.add(name)
        try:
            spec = self._others(name, path, target)
        finally:
            self._asking.discard(name)
        if spec is not None and spec.loader is not None:
            loader: Any = _Loader(spec.loader, wanted)
            spec.loader = loader
        return spec

    def _wanted(self, name: str) -> set[str]:
        """Names that the client takes from a module, also by the module's older name without the folder."""
        older = f"{_TRITON}{name.rpartition('.')[2]}" if name.startswith(_TRITON) else name
        return self._names.get(name, set()) | self._names.get(older, set())

    def _others(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> importlib.machinery.ModuleSpec | None:
        for finder in sys.meta_path:
            if finder is not self:
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    return spec
        return None


class _Loader:
    """A loader around another's, which looks at the module behind it."""

    def __init__(self, loader: Any, names: set[str]) -> None:
        self._loader, self._names = loader, names

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        """Create the module as its own loader does."""
        made: ModuleType | None = self._loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        """Execute it, and record."""
        self._loader.exec_module(module)
        _record_module(module, self._names)
