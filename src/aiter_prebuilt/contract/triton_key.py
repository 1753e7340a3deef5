"""The parts of a key of Triton's cache, in words: what a compile depends on. The build writes them beside each kernel, and a
lookup that finds nothing is compared with them.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: The parts, in the order in which a report names them.
PARTS = (
    "triton",
    "target",
    "backend",
    "source",
    "signature",
    "attributes",
    "constexprs",
    "options",
    "environment",
)


@dataclass(frozen=True, slots=True)
class CompileInputs:
    """The inputs of one Triton compile: the compiler's own objects."""

    src: Any
    backend: Any
    options: Any
    environment: Mapping[str, str]

    @property
    def function(self) -> str:
        """The kernel, with its module."""
        return f"{self.src.fn.__module__}.{self.src.fn.__qualname__}"


def base32(digest: str) -> str:
    """Return a hash as Triton names its cache's folders."""
    return base64.b32encode(bytes.fromhex(digest)).decode("ascii").rstrip("=")


def parts_of(asked: CompileInputs, cache: Any) -> dict[str, Any]:
    """Return the parts of its key.

    ``cache``: the module ``triton.runtime.cache``.
    """
    names = list(asked.src.fn.arg_names)

    def named(path: tuple[int, ...]) -> str:
        return ".".join([names[path[0]], *map(str, path[1:])])

    options = dict(vars(asked.options))
    options["extern_libs"] = [[name, Path(path).name] for name, path in options.get("extern_libs") or ()]
    return {
        "function": asked.function,
        "triton": triton_key(cache),
        "target": str(asked.backend.target),
        "backend": str(asked.backend.hash()),
        "source": asked.src.fn.cache_key,
        "signature": {name: str(kind) for name, kind in asked.src.signature.items() if kind != "constexpr"},
        "attributes": {named(path): str(found) for path, found in sorted(asked.src.attrs.items()) if found},
        "constexprs": {named(path): _constant(found) for path, found in sorted(asked.src.constants.items())},
        "options": {name: str(found) for name, found in sorted(options.items())},
        "environment": {name: str(found) for name, found in sorted(asked.environment.items())},
    }


def triton_key(cache: Any) -> str:
    """One number for all of an installed Triton's files."""
    return hashlib.sha256(cache.triton_key().encode()).hexdigest()


def _constant(found: Any) -> str:
    return str(getattr(found, "cache_key", found))
