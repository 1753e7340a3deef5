"""Pins and toolchains: what is missing, of another version or of other bytes is said before anything is compiled."""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.util
from importlib import metadata
from pathlib import Path

import pytest

from build_tools.errors import ManifestError, ToolchainError, UsageError
from build_tools.files.filehash import FileHashes
from build_tools.tools import hermetic, pins, rocm, toolchain
from build_tools.tools.pins import ToolPin

ROOT = Path(__file__).resolve().parents[2]


def test_requirements_name_every_wheel_by_its_hash() -> None:
    def tool(name: str, *digests: str) -> ToolPin:
        return ToolPin(
            name, "1.0", "", "", (), {f"{name}{place}": text for place, text in enumerate(digests)}, {}
        )

    made = {pin.name: pin for pin in (tool("zig", "cc", "aa", "cc"), tool("triton", "bb"))}
    lines = pins.requirements(pins.Pins(made, {})).splitlines()
    assert all(line.startswith("#") for line in lines[:2])
    assert lines[2:] == [
        'triton==1.0 ; python_version >= "3.11" \\', "    --hash=sha256:bb",
        "zig==1.0 \\", "    --hash=sha256:aa \\", "    --hash=sha256:cc",
    ]  # fmt: skip


def manifest(tmp_path: Path, text: str) -> Path:
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests" / "toolchains.toml").write_text(text)
    return tmp_path


def test_every_problem_of_the_pins_is_said_at_once(tmp_path: Path) -> None:
    root = manifest(
        tmp_path,
        """
        edition = 2
        extra = 1
        [[tools]]
        name = "a"
        version = "1"
        gives = "x"
        spdx = "MIT"
        backends = []
        wheels = { "a.whl" = "12" }
        [[sources]]
        name = "b"
        colour = "red"
        """,
    )
    with pytest.raises(ManifestError) as caught:
        pins.load(root)
    text = str(caught.value)
    for words in (
        "edition: 2 is not 1",
        "extra: unknown key",
        "tools[0]: 'a.whl'",
        "sources[0].colour: unknown key",
        "sources[0].sha256: is missing",
    ):
        assert words in text


def test_pins_that_are_no_toml(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"toolchains\.toml"):
        pins.load(manifest(tmp_path, "edition ="))


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ToolPin:
    folder = tmp_path / "site-packages" / "ziglang"
    folder.mkdir(parents=True)
    (folder / "zig").write_bytes(b"a compiler")
    spec = importlib.machinery.ModuleSpec("ziglang", None, origin=str(folder / "__init__.py"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec if name == "ziglang" else None)
    monkeypatch.setattr(metadata, "version", lambda _name: "1.0")
    return ToolPin(
        "ziglang", "1.0", "a test", "MIT", (), {}, {"ziglang/zig": hashlib.sha256(b"a compiler").hexdigest()}
    )


def test_a_package_that_is_what_is_pinned(package: ToolPin, tmp_path: Path) -> None:
    row = hermetic.check_package(package, FileHashes(tmp_path / "hashes.json"))
    assert (row.tool, row.version, row.sha256) == ("ziglang", "1.0", package.installed["ziglang/zig"])


def test_a_package_of_another_version(
    package: ToolPin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata, "version", lambda _name: "1.1")
    with pytest.raises(ToolchainError, match=r"version 1\.1 is installed.*pip install"):
        hermetic.check_package(package, FileHashes(tmp_path / "hashes.json"))


def test_a_package_that_is_missing(package: ToolPin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(_name: str) -> str:
        raise metadata.PackageNotFoundError

    monkeypatch.setattr(metadata, "version", absent)
    with pytest.raises(ToolchainError, match="not installed in this Python environment"):
        hermetic.check_package(package, FileHashes(tmp_path / "hashes.json"))


def test_a_package_whose_compiler_has_other_bytes(package: ToolPin, tmp_path: Path) -> None:
    zig = tmp_path / "site-packages" / "ziglang" / "zig"
    hashes = FileHashes(tmp_path / "hashes.json")
    hermetic.check_package(package, hashes)
    zig.write_bytes(b"another compiler")
    with pytest.raises(ToolchainError, match="ziglang/zig has sha256"):
        hermetic.check_package(package, hashes)
    zig.unlink()
    with pytest.raises(ToolchainError, match="has sha256 nothing"):
        hermetic.check_package(package, hashes)


def test_file_hashes_are_remembered_and_a_lost_memory_is_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one")
    memory = FileHashes(tmp_path / "hashes.json")
    digest = memory.sha256(path)
    memory.save()
    assert FileHashes(tmp_path / "hashes.json").sha256(path) == digest == hashlib.sha256(b"one").hexdigest()
    (tmp_path / "hashes.json").write_text("[half")
    assert FileHashes(tmp_path / "hashes.json").sha256(path) == digest


def test_a_tree_hash_does_not_depend_on_its_place(tmp_path: Path) -> None:
    for name in ("here", "there"):
        (tmp_path / name / "sub").mkdir(parents=True)
        (tmp_path / name / "sub" / "a.h").write_text("same")
    hashes = FileHashes(tmp_path / "hashes.json")
    assert hashes.tree(tmp_path / "here") == hashes.tree(tmp_path / "there")
    (tmp_path / "there" / "sub" / "b.h").write_text("")
    assert hashes.tree(tmp_path / "here") != hashes.tree(tmp_path / "there")


def test_an_unknown_kind() -> None:
    with pytest.raises(UsageError, match="Kinds: hermetic, rocm"):
        toolchain.find("cuda", ROOT)


def fake_rocm(root: Path, banner: str = "AMD clang version 20", version: str = "7.0.1") -> Path:
    for name, text in (
        ("bin/amdclang++", f"echo '{banner}'; echo InstalledDir: $0"),
        ("llvm/bin/ld.lld", "exit 0"),
    ):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
    (root / ".info").mkdir(exist_ok=True)
    (root / ".info" / "version").write_text(version + "\n")
    return root


def test_rocm_is_found_by_its_variable_and_named_by_what_it_is_not_where(tmp_path: Path) -> None:
    hashes = FileHashes(tmp_path / "hashes.json")
    first, second, newer = (
        rocm.find(hashes, {"ROCM_PATH": str(fake_rocm(tmp_path / name, version=version))})
        for name, version in (("a", "7.0.1"), ("b", "7.0.1"), ("c", "7.1.0"))
    )
    assert first.driver == (str(tmp_path / "a/bin/amdclang++"),)
    assert first.rows[0].version == "7.0.1"
    assert first.identity == second.identity
    assert first.identity != newer.identity
    assert first.identity.startswith("rocm ")
    assert not first.libraries, "ROCm's driver links its own device libraries"


def test_no_rocm_says_what_to_type(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match=r"has no amdclang\+\+.*ROCM_PATH"):
        rocm.find(FileHashes(tmp_path / "hashes.json"), {"ROCM_PATH": str(tmp_path)})


def test_a_rocm_whose_compiler_does_not_start(tmp_path: Path) -> None:
    root = fake_rocm(tmp_path / "rocm")
    (root / "bin/amdclang++").write_text("#!/bin/sh\necho cannot open shared object; exit 127\n")
    with pytest.raises(ToolchainError, match="cannot open shared object"):
        rocm.find(FileHashes(tmp_path / "hashes.json"), {"ROCM_PATH": str(root)})
