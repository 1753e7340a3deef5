"""Licence expressions and notices: each SPDX identifier has its text, each wheel names what is in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

from aiter_prebuilt.contract.records import BACKENDS
from build_tools.pack import licences

ROOT = Path(__file__).resolve().parents[2]


def texts_in(notices: str) -> dict[str, str]:
    """SPDX identifier -> licence text, as the notices have them."""
    _, *blocks = re.split(rf"^{'=' * 80}$", notices, flags=re.MULTILINE)
    found = {}
    for block in blocks:
        name, _, text = block.strip("\n").partition("\n\n")
        assert name not in found, f"{name} stands there twice"
        found[name] = text.strip()
    return found


#: A line that each licence has. Apache-2.0 is also the beginning of the one with the exception.
TELLING = {
    "Apache-2.0": "TERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION",
    "Apache-2.0 WITH LLVM-exception": "---- LLVM Exceptions to the Apache 2.0 License ----",
    "BSD-3-Clause": "3. Neither the name of the copyright holder nor the names of its contributors",
    "MIT": "The above copyright notice and this permission notice shall be included in all",
    "NCSA": "deal with\nthe Software without restriction",
}


#: What files of a source tree bring in.
TREES = ["aiter", "aiter-2026-08", "aiter-vllm", "aiter-sglang", "aiter-flashinfer", "aiter-nvidia"]


@pytest.mark.parametrize(
    "backend", [*BACKENDS, *TREES, licences.RUNTIME, licences.EMULATOR, licences.TRITON_NVIDIA, "all"]
)
def test_notices_have_each_part_and_each_licence_in_full(backend: str) -> None:
    """All of them, the first and the last too, and none that no part needs."""
    backends = [*BACKENDS, licences.RUNTIME, licences.EMULATOR, *TREES] if backend == "all" else [backend]
    notices = licences.notices(backends)
    parts = licences.parts(backends)
    for part in parts:
        for line in (part.title, f"  Copyright (c) {part.holder}", f"  {part.spdx}", f"  {part.url}"):
            assert line in notices.splitlines(), part.name
    files = {name: licences.FOLDER / f"{name.replace(' ', '-')}.txt" for name in TELLING}
    assert texts_in(notices) == {spdx: files[spdx].read_text().strip() for spdx in {p.spdx for p in parts}}
    if backend == "all":
        assert {part.spdx for part in parts} == set(TELLING) and parts == licences.table()


@pytest.mark.parametrize("spdx", sorted(TELLING))
def test_a_text_is_that_of_its_licence(spdx: str) -> None:
    text = (licences.FOLDER / f"{spdx.replace(' ', '-')}.txt").read_text()
    assert TELLING[spdx] in text and len(text.splitlines()) > 15


def test_backends_of_the_table_exist() -> None:
    assert {name for part in licences.table() for name in part.backends} <= {
        *BACKENDS,
        licences.RUNTIME,
        licences.EMULATOR,
        licences.TRITON_NVIDIA,
        *TREES,
    }


def test_expression_names_our_licence_first_and_each_other_once() -> None:
    assert licences.expression([]) == "MIT"
    assert licences.expression(["asm"]) == "MIT"
    assert licences.expression(["hip"]) == "MIT AND (Apache-2.0 WITH LLVM-exception) AND NCSA"


def test_composable_kernel_is_named_only_where_it_is_in() -> None:
    assert "Composable Kernel" in licences.notices(["ck"])
    assert "device libraries" not in licences.notices([licences.TRITON_NVIDIA])
    assert "Composable Kernel" not in licences.notices(["hip", "triton", "flydsl", "asm"])


def test_the_file_of_the_runtime_is_what_the_table_says() -> None:
    assert (ROOT / "THIRD_PARTY.txt").read_text() == licences.notices([licences.RUNTIME])


def test_expressions_are_spdx() -> None:
    for backend in (*BACKENDS, licences.RUNTIME, licences.EMULATOR):
        assert canonicalize_license_expression(licences.expression([backend]))
    with pytest.raises(InvalidLicenseExpression):
        canonicalize_license_expression("MIT AND somebody's")


def test_the_project_says_the_expression_of_the_runtime() -> None:
    assert (
        f'license = "{licences.expression([licences.RUNTIME])}"'
        in (ROOT / "pyproject.toml").read_text().splitlines()
    )
    assert "DLPack header" in licences.notices([licences.RUNTIME])
    assert "DLPack" not in licences.notices([*BACKENDS, licences.EMULATOR])


def test_a_file_of_a_tree_brings_in_whose_notice_it_has() -> None:
    assert licences.parts_in("Copyright (C) 2024, The vLLM team.\n// by FlashInfer team.") == (
        "aiter-vllm",
        "aiter-flashinfer",
    )
    assert licences.parts_in("Copyright (C) 2024, Advanced Micro Devices, Inc.") == ()
    assert licences.expression(["aiter"]) == "MIT"
    assert licences.expression(["aiter", "aiter-vllm"]) == "MIT AND Apache-2.0"


def test_notices_name_the_file_that_each_entry_was_made_from() -> None:
    notices = licences.notices(
        ["aiter"], {"gfx942-asm-b": "amd-aiter 1.0: b.co", "gfx942-asm-a": "amd-aiter 1.0: a.co"}
    )
    assert notices.index("gfx942-asm-a: amd-aiter 1.0: a.co\n") < notices.index(
        "gfx942-asm-b: amd-aiter 1.0: b.co\n"
    )
    assert "Entries and the files" not in licences.notices(["aiter"])
