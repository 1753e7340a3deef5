"""What is inside the wheels: members, RECORD, tags, metadata, licences, bill of materials."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.utils import parse_wheel_filename
from wheel.wheelfile import WheelFile

from aiter_prebuilt.contract import kernel_cache
from aiter_prebuilt.contract.bundle import SUFFIX, Bundle
from aiter_prebuilt.contract.records import BACKENDS, VENDORS
from aiter_prebuilt.contract.version import VERSION
from build_tools.files.reproducible import DEFAULT_EPOCH
from build_tools.manifest.parse import load
from build_tools.objects.unpack import decompress
from build_tools.pack import bridge_wheel, cache_wheel, emulator_wheel, licences, sbom
from build_tools.pack.runtime_wheel import TAG
from build_tools.tools.host import judge

ROOT = Path(__file__).resolve().parents[2]


def every_wheel(dist: Path, data_wheels: Path) -> list[Path]:
    """The built wheels and the made-up ones."""
    return [*sorted(dist.glob("*.whl")), *sorted(data_wheels.glob("*.whl"))]


def metadata_of(path: Path) -> dict[str, list[str]]:
    with ZipFile(path) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        message = Parser().parsestr(archive.read(name).decode())
    return {key: [str(value) for value in message.get_all(key, [])] for key in set(message)}


def test_members_lie_in_one_folder_and_the_record_is_right(dist: Path, data_wheels: Path) -> None:
    for path in every_wheel(dist, data_wheels):
        package = path.name.split("-")[0]
        packages = ("aiter_prebuilt", emulator_wheel.PACKAGE, bridge_wheel.PACKAGE)
        data = f"{bridge_wheel.PACKAGE}_"
        own = (
            kernel_cache.folder_of(package.removeprefix(data))
            if package.startswith(data)
            else "aiter_prebuilt_bundles"
        )
        folder = f"{package if package in packages else own}/"
        with WheelFile(path) as wheel:
            names = wheel.namelist()
            outside = [name for name in names if not name.startswith((folder, wheel.dist_info_path + "/"))]
            # What ``site`` looks for beside the packages, and what that imports.
            beside = [f"{bridge_wheel.PACKAGE}{end}" for end in (".pth", ".start")] + [
                f"{bridge_wheel.MODULE}/__init__.py"
            ]
            assert outside == (beside if package == bridge_wheel.PACKAGE else []), path.name
            assert len(names) == len(set(names))
            for name in names:
                wheel.read(name)  # WheelFile compares with RECORD and raises
            recorded = {
                line.rsplit(",", 2)[0] for line in wheel.read(wheel.record_path).decode().splitlines()
            }
        assert recorded == set(names), path.name


def test_record_is_really_compared(data_wheels: Path, tmp_path: Path) -> None:
    path = next(data_wheels.glob("*gfx950*.whl"))
    damaged = tmp_path / path.name
    data = bytearray(path.read_bytes())
    data[data.index(b"APBNDL") + 200] ^= 1
    damaged.write_bytes(data)
    with WheelFile(damaged) as wheel, pytest.raises(Exception, match=r"CRC|Hash"):
        wheel.read("aiter_prebuilt_bundles/gfx950-ck-free.apb")


def test_no_two_wheels_own_one_path(dist: Path) -> None:
    owners: dict[str, str] = {}
    for path in sorted(dist.glob("*.whl")):
        with ZipFile(path) as archive:
            for name in archive.namelist():
                assert owners.setdefault(name, path.name) == path.name, name


def test_tags(dist: Path, data_wheels: Path, runtime_wheel: Path) -> None:
    for path in every_wheel(dist, data_wheels):
        _, version, _, tags = parse_wheel_filename(path.name)
        assert str(version) == VERSION
        native = {runtime_wheel.name.split("-")[0]: TAG, emulator_wheel.PACKAGE: emulator_wheel.TAG}
        expected = native.get(path.name.split("-")[0], "py3-none-any")
        assert {str(tag) for tag in tags} == {expected}
        with ZipFile(path) as archive:
            (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/WHEEL"))
            header = Parser().parsestr(archive.read(name).decode())
        assert header.get_all("Tag") == [expected]
        assert header["Root-Is-Purelib"] == ("true" if expected == "py3-none-any" else "false")


@pytest.mark.parametrize("package", ["aiter_prebuilt", emulator_wheel.PACKAGE])
def test_auditwheel_confirms_the_platform(dist: Path, package: str) -> None:
    (path,) = dist.glob(f"{package}-*.whl")
    judge(path)
    shown = subprocess.run(
        [sys.executable, "-m", "auditwheel", "show", "--json", str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    verdict = json.loads(shown.stdout)
    tag = re.fullmatch(r"manylinux_(\d+)_(\d+)_x86_64", verdict["overall_tag"])
    assert tag is not None, verdict["overall_tag"]
    major, minor = map(int, tag.groups())
    assert (major, minor) <= (2, 28)
    assert verdict["external_libs"] == {}
    assert {name.split(".so")[0] for name in verdict["versioned_symbols"]} <= {
        "libc",
        "libdl",
        "libpthread",
        "libm",
    }


def test_extras_are_the_targets_of_the_manifests_with_the_same_version(runtime_wheel: Path) -> None:
    manifest = load(ROOT / "manifests")
    wheels = {
        manifest.targets[target].extra + profile.suffix: manifest.targets[target].distribution
        + profile.suffix
        for profile in manifest.profiles.values()
        for target in profile.targets
    } | {"emulator": "aiter-prebuilt-emulator", "bridge": bridge_wheel.DISTRIBUTION}
    wheels |= {
        cache_wheel.extra(name): cache_wheel.distribution(name)
        for name, target in manifest.targets.items()
        if target.vendor == "amd"
    }
    found = metadata_of(runtime_wheel)
    assert set(found["Provides-Extra"]) == set(wheels)
    assert set(found["Requires-Dist"]) == {
        f'{name}=={VERSION}; extra == "{extra}"' for extra, name in wheels.items()
    }


def test_what_ck_adds_requires_the_ck_free_wheel(data_wheels: Path) -> None:
    needs = {
        path.name.split("-")[0]: metadata_of(path)["Requires-Dist"] for path in data_wheels.glob("*.whl")
    }
    runtime = f"aiter-prebuilt=={VERSION}"
    assert needs["aiter_prebuilt_gfx942"] == [runtime]
    assert needs["aiter_prebuilt_gfx942_ck"] == [runtime, f"aiter-prebuilt-gfx942=={VERSION}"]


def test_licence_files_and_bill_of_materials(dist: Path, data_wheels: Path, runtime_wheel: Path) -> None:
    for path in every_wheel(dist, data_wheels):
        with WheelFile(path) as wheel:
            info = wheel.dist_info_path
            about = metadata_of(path)
            for name in about["License-File"]:
                assert wheel.read(f"{info}/licenses/{name}").strip()
            (document,) = (name for name in wheel.namelist() if name.startswith(f"{info}/sboms/"))
            bill = json.loads(wheel.read(document))
        assert bill["bomFormat"] == "CycloneDX"
        assert bill["metadata"]["component"]["name"] == about["Name"][0]
        assert bill["metadata"]["component"]["licenses"] == [{"expression": about["License-Expression"][0]}]
        if path.parent == dist:
            assert bill["metadata"]["tools"]["components"], path.name
            assert [part["name"] for part in bill["components"] if part["type"] == "file"], path.name
    assert metadata_of(runtime_wheel)["License-Expression"] == [licences.expression([licences.RUNTIME])]


def backends_of(path: Path) -> set[str]:
    """Whose work can be in a wheel, in the words of the table of licences: asked of the kernels of its bundle."""
    package = path.name.split("-")[0]
    native = {"aiter_prebuilt": licences.RUNTIME, emulator_wheel.PACKAGE: licences.EMULATOR}
    if package == bridge_wheel.PACKAGE:
        return set()
    if package.startswith(f"{bridge_wheel.PACKAGE}_"):
        folder = kernel_cache.folder_of(package.removeprefix(f"{bridge_wheel.PACKAGE}_"))
        with ZipFile(path) as archive:
            index = kernel_cache.read(json.loads(archive.read(f"{folder}/{kernel_cache.INDEX}")))
        return {"aiter", *(entry.tool for entry in index.entries)}
    if package in native:
        return {native[package]}
    with ZipFile(path) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(SUFFIX))
        bundle = Bundle(archive.read(name), decompress)
    used = {BACKENDS[kernel.backend] for one in bundle.names for kernel in bundle.operator(one).kernels}
    symbols = {entry.symbol for one in bundle.names for entry in bundle.operator(one).entries}
    used |= {"aiter"} if any(symbol.startswith("_ZN5aiter") for symbol in symbols) else set()
    # Rows that AITER measured are its tables'; those of an NVIDIA card are ours.
    nvidia = VENDORS[bundle.root.vendor] == "nvidia"
    used |= {"aiter"} if not nvidia and any(bundle.operator(one).tuned for one in bundle.names) else set()
    # Two of AITER's HIP sources whose heads name others: the caches vLLM, the choice of experts NVIDIA.
    used |= {"aiter-vllm"} if any("reshape_and_cache_flash_kernel" in symbol for symbol in symbols) else set()
    theirs = (
        symbol for symbol in symbols if symbol.startswith("_Z")
    )  # a Triton kernel of ours has the same name
    used |= {"aiter-nvidia"} if any("moe_sum_kernel" in symbol for symbol in theirs) else set()
    on_nvidia = {"triton": licences.TRITON_NVIDIA, "hip": licences.HIP_NVIDIA} if nvidia else {}
    return {on_nvidia.get(backend, backend) for backend in used}


def test_whose_work_is_in_a_wheel_is_said_in_full(dist: Path, data_wheels: Path) -> None:
    """The bill of materials, the notices and the licence expression name the same parts; each licence's text is there."""
    for path in every_wheel(dist, data_wheels):
        used = backends_of(path)
        parts = [part for part in licences.table() if used & set(part.backends)]
        with WheelFile(path) as wheel:
            info = wheel.dist_info_path
            own = wheel.read(f"{info}/licenses/LICENSE").decode()
            notices = wheel.read(f"{info}/licenses/THIRD_PARTY.txt").decode()
            bill = json.loads(wheel.read(f"{info}/sboms/{sbom.FILE_NAME}"))
        contained = {"name": "aiter-prebuilt:use", "value": "contained"}
        found = {part["name"]: part for part in bill["components"] if contained in part["properties"]}
        assert set(found) == {part.name for part in parts}, path.name
        for part in parts:
            assert found[part.name]["licenses"] == [{"expression": part.spdx}], (path.name, part.name)
            assert found[part.name]["supplier"]["name"] == part.holder and found[part.name]["version"]
            assert f"{part.title}\n  Copyright (c) {part.holder}\n  {part.spdx}\n" in notices, path.name
        needed = {part.spdx for part in parts}
        rule = "=" * 80
        assert re.findall(rf"^{rule}\n(.+)$", notices, re.MULTILINE) == sorted(needed), path.name
        for spdx in needed:
            text = (licences.FOLDER / f"{spdx.replace(' ', '-')}.txt").read_text().rstrip()
            assert f"{rule}\n{spdx}\n\n{text}\n" in notices, (path.name, spdx)
        assert own == (ROOT / "LICENSE").read_text()
        (said,) = metadata_of(path)["License-Expression"]
        words = {word.strip("()") for word in said.split(" AND ")}
        assert words == {"MIT", *needed}, path.name


def test_no_time_and_no_place_of_this_machine(dist: Path, data_wheels: Path) -> None:
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or DEFAULT_EPOCH)
    places = {str(ROOT), str(Path.home()), sys.prefix} - {"/", "/usr"}
    for path in every_wheel(dist, data_wheels):
        with ZipFile(path) as archive:
            assert {info.date_time for info in archive.infolist()} == {time.gmtime(epoch)[:6]}
            for name in archive.namelist():
                content = archive.read(name)
                for place in places:
                    assert place.encode() not in content, (path.name, name, place)
