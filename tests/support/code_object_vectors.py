"""The vectors of ``tests/data/code_object_vectors.toml``, whole: what a vector leaves out is the default's."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from support.amdgpu_elf import write

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PATH: Final = Path(__file__).resolve().parents[1] / "data" / "code_object_vectors.toml"
READERS: Final = ("build", "runtime", "emulator")


@dataclass(frozen=True, slots=True)
class Vector:
    """One code object. ``refused``: words of each reader that does not read it; the others must read ``expect``.

    ``device``: what hipModuleLoad says on a device of the target ("", or words of the refusal).
    """

    name: str
    image: bytes
    expect: Mapping[str, Any]
    refused: Mapping[str, str]
    device: str


@dataclass(frozen=True, slots=True)
class Vectors:
    """``reads``: the readers of each field of the file, and of a kernel."""

    reads: Mapping[str, Mapping[str, tuple[str, ...]]]
    vectors: tuple[Vector, ...]


def load() -> Vectors:
    """All vectors, in the order of the file."""
    document = tomllib.loads(PATH.read_text(encoding="utf-8"))
    reads = {
        part: {name: tuple(readers) for name, readers in rows.items()}
        for part, rows in document["reads"].items()
    }
    return Vectors(reads, tuple(_vector(row, document["default"]) for row in document["vector"]))


def _vector(row: Mapping[str, Any], default: Mapping[str, Any]) -> Vector:
    kernels = [_kernel(changes, default["kernel"]) for changes in row.get("kernels", [{}])]
    expected = row.get("expect", {})
    changed = expected.get("kernels", [{}] * len(kernels))
    expect = (
        {"target": default["target"], "features": default["features"], "code_object": default["code_object"]}
        | {key: value for key, value in expected.items() if key != "kernels"}
        | {"kernels": {(whole := default["expect"] | each)["name"]: whole for each in changed}}
    )
    refused = row.get("refused", {})
    return Vector(
        row["name"], write({**row, "kernels": kernels}), expect,
        dict.fromkeys(READERS, refused) if isinstance(refused, str) else refused,
        row.get("device", ""),
    )  # fmt: skip


def _kernel(changes: Mapping[str, Any], default: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {**default["metadata"], **changes.get("metadata", {})}
    symbol = metadata[".symbol"]
    return {
        "metadata": {key: value for key, value in metadata.items() if key not in changes.get("without", ())},
        "descriptor": {**default["descriptor"], **changes.get("descriptor", {})},
        "symbol": {"name": symbol if isinstance(symbol, str) else "kernel.kd", **changes.get("symbol", {})},
    }
