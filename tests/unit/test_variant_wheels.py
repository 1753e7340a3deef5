"""The experiment with wheel variants: what they require, that the drafts' own library reads them, that all else is as it was."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from packaging.metadata import parse_email

from aiter_prebuilt.contract.version import VERSION
from build_tools.pack import variant_wheels

variantlib = pytest.importorskip(
    "variantlib", reason="variantlib is not installed: pip install --group variants"
)

ROOT = Path(__file__).resolve().parents[2]
STEM = f"aiter_prebuilt_auto-{VERSION}"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return variant_wheels.write_variants(ROOT, ["gfx950", "gfx942"], tmp_path_factory.mktemp("dist"))


def test_a_wheel_for_each_card_and_one_for_none(written: list[Path]) -> None:
    assert [path.name for path in written] == [
        f"{STEM}-py3-none-any-gfx942.whl", f"{STEM}-py3-none-any-gfx950.whl", f"{STEM}-py3-none-any-null.whl",
        f"{STEM}-variants.json",
    ]  # fmt: skip
    assert {path.parent.name for path in written} == {"variants"}, "apart from what every installer takes"


@pytest.mark.parametrize(("label", "extra"), [("gfx942", "[gfx942]"), ("gfx950", "[gfx950]"), ("null", "")])
def test_each_requires_its_bundle_and_holds_nothing(written: list[Path], label: str, extra: str) -> None:
    (path,) = (path for path in written if path.stem.endswith(f"-{label}"))
    with zipfile.ZipFile(path) as archive:
        assert all(name.startswith(f"{STEM}.dist-info/") for name in archive.namelist())
        told, left = parse_email(archive.read(f"{STEM}.dist-info/METADATA"))
        variant = json.loads(archive.read(f"{STEM}.dist-info/variant.json"))
    assert told["requires_dist"] == [f"aiter-prebuilt{extra}=={VERSION}"] and not left
    properties = {"amd": {"gfx_arch": [label]}} if extra else {}
    assert variant["variants"] == {label: properties}
    provider = variant["providers"]["amd"]
    assert provider == {"requires": ["rocm-bootstrap==0.3.0"], "plugin-api": variant_wheels.PLUGIN}


def test_the_drafts_library_chooses_by_the_card(written: list[Path]) -> None:
    from variantlib.resolver.lib import sort_and_filter_supported_variants  # type: ignore[attr-defined, unused-ignore]
    from variantlib.variants_json import VariantsJson

    listed = VariantsJson(json.loads(written[-1].read_text()))
    assert set(listed.variants) == {"gfx942", "gfx950", "null"}
    from variantlib.api import VariantProperty

    for card, expected in (
        ("gfx950", ["gfx950", "null"]),
        ("gfx942", ["gfx942", "null"]),
        ("gfx90a", ["null"]),
    ):
        found = sort_and_filter_supported_variants(
            list(listed.variants.values()),
            [VariantProperty("amd", "gfx_arch", card)],
            namespace_priorities=["amd"],
        )
        assert [each.label for each in found] == expected


def test_the_same_input_makes_the_same_bytes(written: list[Path], tmp_path: Path) -> None:
    again = variant_wheels.write_variants(ROOT, ["gfx942", "gfx950"], tmp_path)
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in written]
