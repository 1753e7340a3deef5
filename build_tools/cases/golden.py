"""The golden calls of a bundle: one small call of each of its operators, which travels beside it and proves an installation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from aiter_prebuilt.contract.calls import pack
from build_tools.cases import make
from build_tools.cases.table import Cases
from build_tools.errors import ManifestError
from build_tools.manifest.model import Target

#: Fixed: the same cases give the same bytes.
SEED: Final = 1


def stream(cases: Mapping[str, Cases], operators: Iterable[str], target: str, facts: Target) -> bytes:
    """The golden calls of ``operators`` on ``target``, as ``contract.calls`` reads them.

    Raises:
        ManifestError: an operator has none, or its reference fails.
    """
    parts: list[bytes] = []
    for name in sorted(operators):
        mine = cases.get(name)
        calls = [] if mine is None else [*make.calls(mine, target, facts, SEED, golden=True)]
        if not calls:
            raise ManifestError([f"{name}: no golden call on {target}: say golden = \"...\" in its family's cases.toml"])
        parts += map(pack, calls)
    return b"".join(parts)
