"""Every way in which an installed bundle can be wrong ends in one named error whose text holds the command that mends it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from support.mutate import rehashed

from aiter_prebuilt import errors
from aiter_prebuilt.bundles import locate, opening
from aiter_prebuilt.bundles.installed_bundle import InstalledBundle
from aiter_prebuilt.contract import version
from native import synthetic
from native.conftest import Stub
from native.test_damage import ops

NAME = "gfx942-ck-free.apb"


def whole() -> bytes:
    return synthetic.bundle_bytes(ops("mending"))


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


FILES: dict[str, tuple[Callable[[bytes], bytes], type[Exception], str]] = {
    "empty": (lambda data: b"", errors.BundleDamagedError, "too few"),
    "cut": (lambda data: data[:-1], errors.BundleDamagedError, "cut or grew"),
    "longer": (lambda data: data + b"x", errors.BundleDamagedError, "cut or grew"),
    "header": (lambda data: flipped(data, 20), errors.BundleDamagedError, "header is damaged"),
    "root": (lambda data: flipped(data, 200), errors.BundleDamagedError, "root is damaged"),
    "text mode": (lambda data: data.replace(b"\r\n", b"\n"), errors.BundleDamagedError, "not those of a bundle"),
    "newer format": (
        lambda data: rehashed(data, fmt=version.BUNDLE_FORMAT + 1), errors.BundleVersionError,
        f"format {version.BUNDLE_FORMAT + 1}",
    ),
    "older format": (
        lambda data: rehashed(data, fmt=version.BUNDLE_FORMAT - 1), errors.BundleVersionError,
        f"format {version.BUNDLE_FORMAT - 1}",
    ),
    "newer recipes": (
        lambda data: rehashed(data, recipe=version.RECIPE + 1), errors.BundleVersionError, f"version {version.RECIPE + 1}",
    ),
    "another target": (
        lambda data: synthetic.bundle_bytes(ops("mending"), target="gfx950"), errors.BundleTargetError, "for gfx950",
    ),
}  # fmt: skip


@pytest.mark.parametrize("reader", [opening.open_bundle, opening.read_bundle])
@pytest.mark.parametrize("case", FILES)
def test_a_wrong_file(
    native: ModuleType,
    stub: Stub,
    tmp_path: Path,
    case: str,
    reader: Callable[[InstalledBundle], object],
) -> None:
    change, error, words = FILES[case]
    (tmp_path / NAME).write_bytes(change(whole()))
    (bundle,) = locate.installed(str(tmp_path))
    with pytest.raises(errors.AiterPrebuiltError) as raised:
        reader(bundle)
    assert type(raised.value) is error and words in raised.value.found, raised.value
    assert "pip install" in raised.value.fix and "aiter-prebuilt[gfx942]" in raised.value.fix
    assert NAME in raised.value.asked and stub.launches() == 0


def test_the_whole_file_opens(native: ModuleType, tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(whole())
    (bundle,) = locate.installed(str(tmp_path))
    assert opening.open_bundle(bundle).names == opening.read_bundle(bundle).names == ("one", "two")


def test_no_wheel() -> None:
    with pytest.raises(errors.NoBundleError, match=r"pip install 'aiter-prebuilt\[gfx950\]'"):
        locate.for_target("gfx950", locate.installed("", [str(Path("/nonexistent"))])[:0], "AMD Instinct")


def test_two_versions_installed(tmp_path: Path) -> None:
    """Two site-packages folders, each with a bundle of the same target."""
    for folder in ("old", "new"):
        place = tmp_path / folder / locate.FOLDER
        place.mkdir(parents=True)
        shutil.copyfile(__file__, place / NAME)
    (found,) = locate.installed("", [str(tmp_path / "new"), str(tmp_path / "old")])
    assert found.path == str(tmp_path / "new" / locate.FOLDER / NAME)
    both = os.pathsep.join(str(tmp_path / folder / locate.FOLDER) for folder in ("old", "new"))
    with pytest.raises(
        errors.BundleConflictError, match=r"two files claim it.*Name one of them in AITER_PREBUILT_BUNDLES"
    ):
        locate.installed(both, [])
