"""The parts of a key of FlyDSL's cache, in words: what a compile depends on. The build writes them beside each kernel, and a
lookup that finds nothing is compared with them.

FlyDSL's key has two halves. One is a hash of a launcher's sources, of what closures hold and of FlyDSL's own files, native
libraries among them, which are other bytes for each version of Python; the other has the call: target, options, constants, types.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

#: The parts, in the order in which a report names them.
PARTS: Final = (
    "version", "libraries", "sources", "target", "source", "closure", "environment", "hints", "globals", "named", "arguments",
    "owner",
)  # fmt: skip
#: FlyDSL's words for entries of a key that are no arguments.
_NAMED: Final = {
    "_env_": "environment", "_target_": "target", "_hints_": "hints", "_globals_": "globals", "_self_type_": "owner",
}  # fmt: skip
#: How FlyDSL marks globals that it knows by their name alone.
_BY_NAME: Final = ("callable", "obj")
#: Behind the source of a function that a launcher calls: what its closure holds, which is a part of its own.
_CLOSURE: Final = ",closure:"


@dataclass(frozen=True, slots=True)
class CompileInputs:
    """The inputs of one FlyDSL compile: the compiler's own objects.

    ``launcher``: a ``JitFunction``; ``key``: the half of its key that has the call.
    """

    launcher: Any
    key: Iterable[tuple[Any, Any]]

    @property
    def function(self) -> str:
        """The launcher, with its module."""
        written = self.launcher.func
        return f"{written.__module__}.{written.__qualname__.rpartition('.')[2]}"


def cache_key(folder: str, call: str) -> str:
    """Build the name under which FlyDSL caches a call.

    It joins the folder of a launcher and the call's half of the key, as text.
    """
    return f"{folder}/{hashlib.sha256(call.encode()).hexdigest()[:16]}"


def parts_of(asked: CompileInputs, jit: Any) -> dict[str, Any]:
    """Return the parts of its key.

    ``jit``: the module ``flydsl.compiler.jit_function``.
    """
    written = asked.launcher.func
    found: dict[str, Any] = {"function": asked.function, **build_of(jit)}
    found["source"] = _source(jit, written, getattr(asked.launcher, "_manager_owner_cls", None))
    found["closure"] = dict(
        word.partition("=")[::2] for word in private(jit, "_collect_closure_scalar_vals")(written)
    )
    found["arguments"] = {}
    for name, value in asked.key:
        part = _NAMED.get(name)
        if part is None:
            found["arguments"][str(name)] = str(value)
        elif part == "globals":
            # Functions and modules are known by name: most of a long list, and one number for all.
            plain = [(name, told) for name, told in value if told[0] not in _BY_NAME]
            found["globals"] = _pairs(plain)
            found["named"] = _digest(map(str, (each for each in value if each[1][0] in _BY_NAME)))
        else:
            found[part] = _pairs(value) if part == "environment" else str(value)
    return found


def build_of(jit: Any) -> dict[str, str]:
    """Return an installed FlyDSL.

    One number for all of its files (``flydsl``), its version, and its native libraries and its Python files as a number each.
    """
    head, _, rest = str(private(jit, "_flydsl_key")()).partition("-")
    words = rest.split("-")
    sources = [word for word in words if ".py:" in word or "=" in word]
    version = [*head.split(":"), ""][1]
    return {
        "flydsl": _digest([version, *words]),
        "version": version,
        "libraries": _digest(word for word in words if word not in sources),
        "sources": _digest(sources),
    }


def private(jit: Any, name: str) -> Any:
    """Return a function of FlyDSL's that makes keys.

    They have no public names.
    """
    return getattr(jit, name)


def _source(jit: Any, written: Any, owner: Any) -> str:
    try:
        file = inspect.getfile(written)
    except (TypeError, OSError):
        file = ""
    needs = private(jit, "_collect_dependency_sources")(written, file, owner_cls=owner)
    texts = (text.rpartition(_CLOSURE)[0] or text for text in needs)
    return _digest([private(jit, "_get_func_source")(written), *sorted(texts)])


def _pairs(value: Any) -> dict[str, str]:
    """Entries of a nested part: names are a word, or a word and its module."""
    return {
        name if isinstance(name, str) else ".".join(reversed(name)): str(found)
        for name, found in value
        if found != ""
    }


def _digest(words: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(words).encode()).hexdigest()
