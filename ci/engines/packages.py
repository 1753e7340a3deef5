"""Packages beside the lock ``engines`` that an engine needs: Triton, AITER and vLLM's own wheel, each by its hash."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

#: 336 MB, most of them compiled for NVIDIA cards; its own requirements would bring CUDA's packages.
VLLM: Final = "vllm==0.33.0 --hash=sha256:4b6bdec4ab269990bf70d45a3c1e94c3760a27064513760193b26d6f0da883aa"
_HASHED: Final = ("--no-deps", "--require-hashes")


def pinned(root: Path, toolchains: Mapping[str, Any], folder: Path) -> list[str]:
    """Return pip's words for Triton and AITER as ``manifests/toolchains.toml`` pins them."""
    listed = (root / "build_tools" / "requirements.txt").read_text(encoding="utf-8")
    triton = next(each for each in re.split(r"\n(?=\S)", listed) if each.startswith("triton=="))
    tree = next(each for each in toolchains["trees"] if each["name"] == "aiter")
    line = f"{tree['distribution']}=={tree['version']} --hash=sha256:{tree['sha256']}"
    return [*_HASHED, "-r", str(_written(folder / "pinned.txt", f"{triton.rstrip()}\n{line}\n"))]


def vllm(folder: Path) -> list[str]:
    """Return the words of ``pip download`` that bring vLLM's wheel into ``folder``."""
    return [*_HASHED, "-d", str(folder), "-r", str(_written(folder / "vllm.txt", f"{VLLM}\n"))]


def _written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path
