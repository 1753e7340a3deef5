"""Read a code object with both Python readers.

The results are in the words of ``tests/data/code_object_vectors.toml``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiter_prebuilt.bundles import elf
from aiter_prebuilt.contract.elf import ElfError
from build_tools.errors import CodeObjectError
from build_tools.objects import codeobject
from support.code_object_vectors import Vector, load

VECTORS = load()
Reading = Mapping[str, Any]


def build(image: bytes) -> Reading:
    """Read with the build's reader, in the vectors' words."""
    try:
        facts = codeobject.read(image)
    except CodeObjectError as error:
        return {"error": error.found}
    kernels = {
        kernel.symbol: {
            "name": kernel.symbol,
            "kernarg_size": kernel.kernarg_size,
            "kernarg_align": kernel.kernarg_align,
            "args": [list(arg[:3]) for arg in kernel.args],
            "hidden": list(kernel.hidden),
            "lds_static": kernel.lds_static,
            "scratch": kernel.scratch,
            "max_threads": kernel.max_threads,
            "wave": kernel.wave,
            "sgprs": kernel.sgprs,
            "vgprs": kernel.vgprs,
            "agprs": kernel.agprs,
            "sgpr_spills": kernel.sgpr_spills,
            "vgpr_spills": kernel.vgpr_spills,
            "uses_dynamic_stack": kernel.uses_dynamic_stack,
            "preload_length": kernel.kernarg_preload,
        }
        for kernel in facts.kernels
    }
    head = {"target": facts.target, "features": list(facts.features), "code_object": facts.version}
    return {**head, "kernels": kernels}


def runtime(image: bytes) -> Reading:
    """Read with ``verify``'s reader."""
    try:
        found = elf.read(image)
    except ElfError as error:
        return {"error": str(error)}
    kernels = {
        kernel.symbol: {
            "name": kernel.symbol,
            "kernarg_size": kernel.kernarg_size,
            "args": [list(arg[:3]) for arg in kernel.args],
            "lds_static": kernel.lds_static,
            "max_threads": kernel.max_threads,
            "wave": kernel.wave,
        }
        for kernel in found.kernels
    }
    return {"target": found.target, "kernels": kernels}


def expected(vector: Vector, reader: str) -> Reading:
    """Return the expected reading of one reader.

    The vector's fields that this reader has.
    """
    words = vector.refused.get(reader)
    if words is not None:
        return {"error": words}
    of_file = {
        name: vector.expect[name] for name, readers in VECTORS.reads["file"].items() if reader in readers
    }
    fields = [name for name, readers in VECTORS.reads["kernel"].items() if reader in readers]
    kernels = {
        name: {field: row[field] for field in fields} for name, row in vector.expect["kernels"].items()
    }
    return {**of_file, "kernels": kernels}


def compared(name: str, reader: str, wanted: Reading, found: Reading) -> list[str]:
    """Nothing, or a line about what a reader says otherwise than ``wanted``."""
    if "error" in wanted and wanted["error"] in found.get("error", "\0"):
        return []
    if wanted == found:
        return []
    return [f"{name}: {reader} reads\n  {found}\nthe vector says\n  {wanted}"]
