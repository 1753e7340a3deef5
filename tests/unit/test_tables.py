"""Facts that stand in two places because two readers need them: they must say the same."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest
from support import repository

from aiter_prebuilt.contract.dtype import DTYPES
from build_tools.manifest.grammar import parse_tensor
from build_tools.manifest.model import Manifest
from build_tools.tools.tree import tree_of

tomllib = pytest.importorskip("tomllib", reason="Python 3.11 reads TOML")

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def manifest() -> Manifest:
    return repository.manifest()


def test_the_assembly_table_is_the_manifests(manifest: Manifest) -> None:
    """``hsa/topk_softmax.csv`` is what people who adopt the code objects read; the manifest is what is built."""
    with (ROOT / "hsa" / "topk_softmax.csv").open(newline="") as file:
        rows = {
            tuple(row[key] for key in ("target", "T", "EXPERTS", "PER_LANE", "source"))
            for row in csv.DictReader(file)
        }
    (operator,) = (op for op in manifest.families["topk"].operators if op.name == "topk_softmax")
    built = {
        (kernel.targets[0], dtype, str(choice["EXPERTS"]), str(choice["PER_LANE"]), kernel.source)
        for kernel in operator.kernels
        if kernel.backend == "asm"
        for dtype in operator.types["T"]
        for choice in kernel.variants["experts"]
        if isinstance(choice, dict)
    }
    assert built and rows == built


def test_the_ck_instances_are_the_manifests(manifest: Manifest) -> None:
    """Every instance of the generator's table is a variant, with the block that the instance has."""
    table = tomllib.loads((ROOT / "csrc/kernels/ck/instances.toml").read_text())
    kernels = [
        kernel
        for family in manifest.families.values()
        for operator in family.operators
        for kernel in operator.kernels
        if kernel.backend == "ck" and "op" in kernel.constants
    ]
    assert len(kernels) == len(table["ops"])
    for kernel in kernels:
        wanted = table["ops"][kernel.constants["op"]]["instances"]
        rows = [row for values in kernel.variants.values() for row in values if isinstance(row, dict)]
        assert [row["instance"] for row in rows] == wanted
        for row in rows:
            facts = table["instances"][row["instance"]]
            bound = 0 if facts["two_pass"] else facts["columns"]  # 0: a row of any length, read twice
            assert (row["ROWS"], row["COLUMNS"], row["VECTOR"]) == (facts["rows"], bound, facts["vector"])
            assert row["THREADS"] == 64 * facts["waves"][0] * facts["waves"][1]


@pytest.mark.parametrize(
    "name",
    [
        "gemm_a8w8_CK", "gemm_a8w8_blockscale", "gemm_a8w8_bpreshuffle", "gemm_a8w8_blockscale_bpreshuffle",
        "batched_gemm_a8w8_CK", "batched_gemm_bf16_CK", "gemm_a4w4_blockscale",
    ],
)  # fmt: skip
def test_the_gridwise_instances_are_all_that_aiter_measured(manifest: Manifest, name: str) -> None:
    """Each name of AITER's table whose pipeline is v1 or v3 is that of a row here; no two rows are one instance. Tables of one
    model (``model_configs``) name others, which have no row here: ``python -m build_tools report tuned`` lists them.
    """
    operator = next(
        each for family in manifest.families.values() for each in family.operators if each.name == name
    )
    assert operator.tuned_from is not None
    kernel = operator.kernels[0]
    assert kernel.variants_from is not None and kernel.measured is not None
    rows = list(csv.DictReader((ROOT / kernel.variants_from.table).read_text().splitlines()))
    made = [
        (kernel.measured.name["kernelName"].format(**row), row.get("HOT", row.get("ODD"))) for row in rows
    ]
    assert len(set(made)) == len(made) > 5
    tables = tree_of("aiter", ROOT).texts(operator.tuned_from.tables[:1])
    measured = {row["kernelName"] for text in tables.values() for row in csv.DictReader(text.splitlines())}
    mine = {
        each
        for each in measured
        if each.startswith(("a8w8_", "bf16_batched_", "a4w4_")) and each.endswith(("_v1", "_v3"))
    }
    assert mine and mine <= {each for each, _ in made}


def test_element_types_are_what_triton_and_torch_call_them() -> None:
    """A kernel is compiled for ``triton``'s name and called with tensors of ``torch``'s: both name one type."""
    utils = pytest.importorskip("triton._utils")
    torch = pytest.importorskip("torch")
    stored_as_bytes = {"e8m0", "fp4x2"}  # Triton has no element type of these: a kernel sees their bytes
    for kind in DTYPES:
        assert getattr(torch, kind.torch).itemsize == kind.itemsize, kind
        named = "uint8" if kind.name in stored_as_bytes else kind.torch
        assert utils.canonicalize_dtype(kind.triton) == utils.canonicalize_dtype(named), kind


@pytest.mark.parametrize("family", ["gemm_asm"])
def test_assembled_products_ask_for_the_alignment_of_their_operands(manifest: Manifest, family: str) -> None:
    """AITER's objects read 4 bytes of an operand at a time: the embedded device fails each with one 1 or 2 bytes off, and finds
    it right 4 bytes off (``cases.toml`` has those calls).
    """
    asked = 0
    for operator in manifest.families[family].operators:
        operands = [name for name in ("A", "B", "XQ", "WQ") if name in operator.arguments]
        contracts = {name: parse_tensor(name, operator.arguments[name], operator.types) for name in operands}
        for kernel in (each for each in operator.kernels if each.backend == "asm"):
            words = " ".join(kernel.when)
            for name in operands:
                said = re.search(rf"aligned\({name}, (\d+)\)", words)
                asks = contracts[name].align % 4 == 0 or (said is not None and int(said[1]) % 4 == 0)
                assert asks, (operator.name, kernel.name, name)
                asked += 1
    assert asked == 20
