"""Licence expressions and notices: each SPDX identifier has its text, each wheel names what is in it."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

from aiter_prebuilt.contract.records import BACKENDS
from build_tools.pack import licences

ROOT = Path(__file__).resolve().parents[2]


def test_every_identifier_of_the_table_has_its_text() -> None:
    everything = licences.notices([*BACKENDS, licences.RUNTIME, licences.EMULATOR])
    assert all(part.holder in everything for part in licences.table())


def test_backends_of_the_table_exist() -> None:
    assert {name for part in licences.table() for name in part.backends} <= {
        *BACKENDS,
        licences.RUNTIME,
        licences.EMULATOR,
        licences.TRITON_NVIDIA,
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
