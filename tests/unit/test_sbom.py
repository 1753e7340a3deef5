"""The bill of materials: valid CycloneDX, the same bytes for the same wheel, and every part with what identifies it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

from aiter_prebuilt.contract.records import BACKENDS
from build_tools.pack import licences, sbom
from build_tools.tools import pins
from build_tools.tools.fetch import fetch

ROOT = Path(__file__).resolve().parents[2]
PINS = pins.load(ROOT)
#: What a hermetic build says of itself.
HERMETIC = {
    "toolchain": "hermetic",
    "composable-kernel": PINS.trees["aiter"].version,
    **{name: PINS.tools[name].version for name in ("ziglang", "clang-tidy", "triton", "flydsl")},
}
HOST = {"ziglang": PINS.tools["ziglang"].version, **sbom.builders(*sbom.BUILDERS)}


def bill(*backends: str, tools: dict[str, str] | None = None) -> sbom.Bill:
    sources = (("manifests/norm/operators.toml", "a" * 64), ("csrc/kernels/hip/quant.hip", "b" * 64))
    return sbom.Bill("aiter-prebuilt-gfx950", "1.0", b"bundle", backends, tools or HERMETIC, sources)


def document(*backends: str, tools: dict[str, str] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(sbom.write(bill(*backends, tools=tools), PINS))
    return found


def used(found: dict[str, Any], use: str) -> dict[str, dict[str, Any]]:
    wanted = [{"name": "aiter-prebuilt:use", "value": use}]
    return {part["name"]: part for part in found["components"] if part["properties"] == wanted}


def hashes_of(part: dict[str, Any]) -> set[str]:
    places = [part, *part.get("components", []), *part.get("externalReferences", [])]
    return {row["content"] for place in places for row in place.get("hashes", [])}


WHEELS = [
    pytest.param(BACKENDS, HERMETIC, id="data"),
    pytest.param([licences.RUNTIME], HOST, id="runtime"),
    pytest.param([licences.EMULATOR], {**HOST, "tinygrad": PINS.tools["tinygrad"].version}, id="emulator"),
]


@pytest.mark.parametrize(("backends", "tools"), WHEELS)
def test_it_is_valid_by_the_schema(backends: list[str], tools: dict[str, str]) -> None:
    text = sbom.write(bill(*backends, tools=tools), PINS).decode()
    validator = JsonStrictValidator(SchemaVersion.V1_6)
    assert validator.validate_str(text) is None
    assert validator.validate_str(text.replace('"scope": "required"', '"scope": "perhaps"')) is not None


@pytest.mark.parametrize(("backends", "tools"), WHEELS)
def test_every_part_has_version_hashes_licence_and_purl(backends: list[str], tools: dict[str, str]) -> None:
    found = document(*backends, tools=tools)
    parts = used(found, "contained")
    assert set(parts) == {part.name for part in licences.parts(backends)}
    for part in parts.values():
        assert part["version"] and "{" not in part["version"] + part["purl"]
        assert PackageURL.from_string(part["purl"]).version
        assert part["licenses"][0]["expression"] and part["supplier"]["name"]
        assert hashes_of(part) and all(re.fullmatch(r"[0-9a-f]{64}", digest) for digest in hashes_of(part))
        assert part["scope"] == "required"
    (graph,) = (row for row in found["dependencies"] if "dependsOn" in row)
    assert graph["ref"] == found["metadata"]["component"]["bom-ref"]
    needed = [*parts.values(), *used(found, "source").values()]
    assert set(graph["dependsOn"]) == {part["bom-ref"] for part in needed}
    for tool in used(found, "build tool").values():
        assert tool["scope"] == "excluded" and tool["licenses"] and tool["purl"].endswith(tool["version"])


def test_a_wheel_lists_only_what_is_in_it_or_made_it() -> None:
    triton = document("triton")
    assert set(used(triton, "contained")) == {"rocm-device-libs", "triton"}
    assert set(used(triton, "build tool")) == {"triton"}
    nvidia = document(licences.TRITON_NVIDIA)
    assert [set(used(nvidia, use)) for use in ("contained", "build tool")] == [{"triton"}, {"triton"}]
    assert set(used(document("asm"), "contained")) == set()
    assert set(used(document("asm"), "build tool")) == {"ziglang"}
    runtime = document(licences.RUNTIME, tools=HOST)
    assert set(used(runtime, "contained")) == {"zstd", "dlpack", "llvm-runtimes", "zig-compiler-rt"}
    assert PINS.sources["apache-tvm-ffi"].sha256 in hashes_of(used(runtime, "contained")["dlpack"])
    assert set(used(runtime, "build tool")) == {"cmake", "ninja", "scikit-build-core", "ziglang"}
    assert set(used(runtime, "source")) == {"manifests/norm/operators.toml", "csrc/kernels/hip/quant.hip"}


def test_the_bytes_are_those_of_the_pins() -> None:
    found = used(document("hip", "ck"), "contained")
    tools = PINS.tools
    assert tools["triton"].installed["triton/backends/amd/lib/ocml.bc"] in hashes_of(
        found["rocm-device-libs"]
    )
    assert PINS.trees["aiter"].sha256 in hashes_of(found["composable-kernel"])
    assert set(tools["clang-tidy"].wheels.values()) < hashes_of(found["llvm-headers"])


def test_what_an_installed_rocm_gave_has_its_version_and_no_hash_of_ours() -> None:
    tools = {
        "toolchain": "rocm",
        "composable-kernel": "from CK_DIR 0123456789ab",
        "ROCm": "7.2.0",
        "amdclang++": "7.2.0",
    }
    found = document("hip", "ck", "asm", tools=tools)
    parts = used(found, "contained")
    assert {name: part["version"] for name, part in parts.items()} == {
        "composable-kernel": "from CK_DIR 0123456789ab",
        "hip-headers": "7.2.0",
        "llvm-headers": "7.2.0",
        "rocm-device-libs": "7.2.0",
    }
    assert not any(hashes_of(part) for part in parts.values())
    assert set(used(found, "build tool")) == {"ROCm", "amdclang++"}
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(found)) is None


def test_equal_input_gives_equal_bytes_in_another_process() -> None:
    code = (
        "import sys; sys.path[:0] = sys.argv[1:]\n"
        "from unit import test_sbom as t\n"
        "sys.stdout.buffer.write(t.sbom.write(t.bill(*t.BACKENDS), t.PINS))"
    )
    places = [str(ROOT), str(ROOT / "src"), str(ROOT / "tests")]
    answers = [
        subprocess.run(
            [sys.executable, "-c", code, *places], env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    ]  # fmt: skip
    assert answers[0] == answers[1] == sbom.write(bill(*BACKENDS), PINS)
    assert json.loads(answers[0])["serialNumber"] != document("hip")["serialNumber"]


def test_versions_of_the_table_are_those_that_the_carriers_have() -> None:
    """A literal version must be mended when a pin is raised."""
    versions = {part.name: part.version for part in licences.table() if "{" not in part.version}
    zig, triton = (Path(str(metadata.distribution(name).locate_file(name))) for name in ("ziglang", "triton"))
    header = (triton / "backends/amd/include/hip/hip_version.h").read_text()
    hip = dict(re.findall(r'HIP_VERSION_(\w+)\s+"?(\w+)', header))
    zstd = dict(re.findall(r"ZSTD_VERSION_(\w+)\s+(\d+)", (fetch("zstd", ROOT) / "zstd.h").read_text()))
    header = (fetch("dlpack", ROOT) / "dlpack" / "dlpack.h").read_text()
    dlpack = dict(re.findall(r"#define DLPACK_(M\w+)_VERSION (\d+)", header))
    libcxx = re.search(
        r"_LIBCPP_VERSION (\d\d)(\d\d)(\d\d)", (zig / "lib/libcxx/include/__config").read_text()
    )
    bitcode = (triton / "backends/amd/lib/ocml.bc").read_bytes()
    device = re.search(rb"(roc-[\d.]+) \d+ ([0-9a-f]{40})", bitcode)
    assert libcxx is not None and device is not None
    assert versions == {
        "hip-headers": f"{hip['MAJOR']}.{hip['MINOR']}.{hip['PATCH']}",
        "zstd": f"{zstd['MAJOR']}.{zstd['MINOR']}.{zstd['RELEASE']}",
        "dlpack": f"{dlpack['MAJOR']}.{dlpack['MINOR']}",
        "llvm-runtimes": ".".join(str(int(number)) for number in libcxx.groups()),
        "rocm-device-libs": device[1].decode(),
    }
    purls = {part.name: part.purl for part in licences.table()}
    assert device[2].decode() in purls["rocm-device-libs"]
    assert hip["GITHASH"] in purls["hip-headers"]
    assert all(versions[name] in purls[name] for name in ("zstd", "dlpack", "llvm-runtimes"))


def test_a_file_of_a_source_tree_has_the_name_that_its_package_gives_it() -> None:
    file = f"amd-aiter {PINS.trees['aiter'].version}: aiter_meta/hsa/gfx942/one.co"
    made = sbom.Bill(
        "aiter-prebuilt-gfx942", "1.0", b"bundle", ("aiter",), HERMETIC, (("aiter:hsa/gfx942/one.co", "c" * 64),),
        {"gfx942-asm-one": file, "gfx942-asm-two": "another"},
    )  # fmt: skip
    found = json.loads(sbom.write(made, PINS))
    (source,) = (part for part in found["components"] if part["name"] == "aiter:hsa/gfx942/one.co")
    told = {(row["name"], row["value"]) for row in source["properties"]}
    assert {("aiter-prebuilt:upstream", file), ("aiter-prebuilt:entry", "gfx942-asm-one")} <= told
    assert ("aiter-prebuilt:entry", "gfx942-asm-two") not in told
    (part,) = (part for part in found["components"] if part["bom-ref"] == "part:aiter")
    assert PINS.trees["aiter"].sha256 in hashes_of(part)
