"""``manifests/bridge/flydsl.toml``: calls of AITER's FlyDSL functions whose kernels are compiled ahead of time, with numbers as
sizes, and AITER's tables of measured products that name kernels of FlyDSL's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, Field

from aiter_prebuilt.contract.dtype import TARGET_FP8
from build_tools.errors import ManifestError
from build_tools.report.reason_table import STRICT, Table, read_table
from build_tools.seed.triton_calls import torch_name
from build_tools.shapes.forms import FormError, Literal, Size, Tensor, Type, Value, parse

FILE: Final = "manifests/bridge/flydsl.toml"
#: AITER's functions would ask torch for the one that is current.
_STREAM: Final = "stream"


class SeedRow(BaseModel):
    """``client``: for whom it is; ``targets``: only these."""

    model_config = STRICT

    client: str = Field(min_length=1)
    targets: list[str] = []


class FlydslCall(SeedRow):
    """A call. ``modules``: where the function is, the first that a tree has counts."""

    modules: list[str] = Field(min_length=1)
    call: str = Field(min_length=1)


class MeasuredTable(SeedRow):
    """A ``file`` of AITER's ``configs``."""

    file: str = Field(min_length=1)


class File(Table):
    """Both, by name."""

    model_config = STRICT

    calls: dict[str, FlydslCall] = Field(default_factory=dict)
    tables: dict[str, MeasuredTable] = Field(default_factory=dict)


def problems(root: Path, targets: Mapping[str, str]) -> list[str]:
    """List the problems of the file, for the targets too.

    ``targets``: name -> its own fp8. Empty where there is no file.
    """
    try:
        file = read_table(root, FILE, File)
        for target, fp8 in targets.items():
            requests(root, target, fp8)
    except ManifestError as error:
        return list(error.problems)
    rows: list[tuple[str, SeedRow]] = [*file.calls.items(), *file.tables.items()]
    unknown = {(name, each) for name, row in rows for each in row.targets if each not in targets}
    return [f"{FILE}: {name}: there is no target {each!r}" for name, each in sorted(unknown)]


def requests(root: Path, target: str, fp8: str, only: Sequence[str] = ()) -> list[dict[str, Any]]:
    """List the calls for ``target`` as the child takes them.

    Its own fp8 is ``fp8``; ``only`` those, by their names in the file.

    Raises:
        ManifestError: the file is not of this form, or a size is no number.
    """
    file = read_table(root, FILE, File)
    rows: list[tuple[str, SeedRow, dict[str, Any]]] = [
        *((name, row, _call(name, row, fp8)) for name, row in file.calls.items()),
        *((name, row, {"tuned": row.file}) for name, row in file.tables.items()),
    ]
    return [
        {**made, "label": name, "name": row.client}
        for name, row, made in rows
        if target in (row.targets or [target]) and name in (only or [name])
    ]


def _call(name: str, row: FlydslCall, fp8: str) -> dict[str, Any]:
    try:
        form = parse(row.call)
        return {
            "modules": row.modules,
            "function": form.function,
            "positional": [_argument(each, fp8) for each in form.positional],
            "keywords": {word: _argument(each, fp8) for word, each in form.keywords}
            | {_STREAM: {_STREAM: 0}},
        }
    except (FormError, ValueError) as error:
        raise ManifestError([f"{FILE}: {name}: {error}"]) from None


def _argument(given: Value, fp8: str) -> dict[str, Any]:
    """Return a value of a call, in the words of the child."""
    if isinstance(given, Tensor):
        strides = None if given.strides is None else [int(each) for each in given.strides]
        kind = torch_name(fp8 if given.dtype == TARGET_FP8 else given.dtype)
        return {"dims": [int(each) for each in given.dims], "strides": strides, "dtype": kind}
    if isinstance(given, Type):
        return {"type": torch_name(fp8 if given.name == TARGET_FP8 else given.name)}
    if isinstance(given, Size):
        return {"value": int(given.text)}
    assert isinstance(given, Literal)
    return {"value": given.value}
