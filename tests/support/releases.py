"""Records of releases, made; wheels of a release, small, for tests of what is done with one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from build_tools.pack.archive import write_members
from build_tools.release.record import EDITION

TRITON = "csrc/kernels/triton/"
FREE = ("gfx942", "ck-free")


def wheel(folder: Path, name: str, version: str, body: bytes = b"") -> Path:
    """A wheel of one file."""
    stem = f"{name.replace('-', '_')}-{version}"
    metadata = f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\nRequires-Python: >=3.10\n".encode()
    path = folder / f"{stem}-py3-none-any.whl"
    info = f"{stem}.dist-info"
    head = b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    write_members(path, {f"{stem}.py": body, f"{info}/METADATA": metadata, f"{info}/WHEEL": head})
    return path


def bundle(place: tuple[str, str] = FREE, **more: Any) -> dict[str, Any]:
    """Build a record's entry of one bundle."""
    told = {
        "target": place[0], "profile": place[1], "sha256": "0" * 64, "bytes": 1_000_000, "raw_bytes": 9_000_000,
        "code_objects": 2, "entries": 2, "proved": 2, "ck": "tuned", "tools": {"triton": "3.8.0", "toolchain": "hermetic"},
        "sources": {f"{TRITON}norm.py": "a", f"{TRITON}shared.py": "b", "manifests/norm/operators.toml": "c"},
    }  # fmt: skip
    return {**told, **more}


def operator(
    name: str, entries: dict[str, list[Any]], place: tuple[str, str] = FREE, **more: Any
) -> dict[str, Any]:
    """Build a record's entry of one operator in one bundle.

    An entry: backend, code object, recipes, has it a receipt?
    """
    told = {
        "operator": name, "target": place[0], "profile": place[1], "signature": "(x)", "entries": entries,
        "sources": ["csrc/kernels/triton/norm.py", "manifests/norm/operators.toml"],
    }  # fmt: skip
    return {**told, **more}


def record(release: str, bundles: list[dict[str, Any]], operators: list[dict[str, Any]]) -> dict[str, Any]:
    """A whole one."""
    return {
        "edition": EDITION, "release": release, "commit": "c" * 40, "date": "2026-01-01T00:00:00Z", "wheels": [],
        "bundles": bundles, "operators": operators,
    }  # fmt: skip
