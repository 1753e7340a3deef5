"""The runtime's and the embedded device's wheels: what is asked of the compiler, judged, put in, and said."""

from __future__ import annotations

import hashlib
import json
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from build_tools.errors import WheelError
from build_tools.files.run import Outcome
from build_tools.pack import emulator_wheel, runtime_wheel, sbom
from build_tools.tools import host, pins
from build_tools.tools.host_cache import FOLDER, kept, key_of

ROOT = Path(__file__).resolve().parents[2]
NAME = f"aiter_prebuilt-0.1.0-{runtime_wheel.TAG}.whl"
INFO = "aiter_prebuilt-0.1.0.dist-info"
MEMBERS = {
    "aiter_prebuilt/__init__.py": b"import", runtime_wheel.EXTENSION: b"\x7fELF", f"{INFO}/METADATA": b"Name: x\n",
    f"{INFO}/RECORD": b"of another",
}  # fmt: skip


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with one file of each kind."""
    files = (
        "CMakeLists.txt", "pyproject.toml", "README.md", "LICENSE", "THIRD_PARTY.txt", "csrc/runtime/a.cpp",
        "csrc/runtime/notes.md",
        "src/aiter_prebuilt/__init__.py", "src/aiter_prebuilt/deep/er.json", "src/aiter_prebuilt/_native.abi3.so",
        "csrc/emulator/isa/b.cpp", "csrc/emulator/README.md", "src/aiter_prebuilt_emulator/__init__.py",
        "src/aiter_prebuilt_emulator/py.typed", "src/aiter_prebuilt_emulator/notes.txt",
    )  # fmt: skip
    root = tmp_path / "repository"
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"text of {name}")
    (root / "manifests").mkdir()
    (root / "manifests/toolchains.toml").write_bytes((ROOT / "manifests/toolchains.toml").read_bytes())
    return root


def wheel(folder: Path, name: str = NAME, without: str = "") -> Path:
    """What the build backend would have made."""
    path = folder / name
    with ZipFile(path, "w") as archive:
        archive.writestr("aiter_prebuilt/", b"")
        for member, data in MEMBERS.items():
            if member != without:
                archive.writestr(member, data)
    return path


class Builder:
    """Stands for pip and the compiler: makes ``made`` wheels, ends with ``code``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, made: int = 1, code: int = 0) -> None:
        self.made, self.code = made, code
        self.calls: list[tuple[list[str], dict[str, Any]]] = []
        self.judged: list[str] = []
        for place in (runtime_wheel, emulator_wheel):
            monkeypatch.setattr(place, "environment_of", lambda pinned: {"CC": "zig"})
            monkeypatch.setattr(place, "judge", lambda path: self.judged.append(path.name))
            monkeypatch.setattr(place, "compile_project", self.compile)
        monkeypatch.setattr(runtime_wheel, "library_ahead", lambda environment: nullcontext())
        monkeypatch.setattr(runtime_wheel, "native_sources", lambda root: {"ZSTD": "/z", "DLPACK": "/d"})
        monkeypatch.setattr(runtime_wheel, "run", self.run)

    def run(self, argv: list[object], **words: Any) -> Outcome:
        command = [str(word) for word in argv]
        self.calls.append((command, words))
        folder = Path(command[command.index("-w") + 1])
        for place in range(self.made):
            wheel(folder, NAME.replace("aiter", "b" * place + "aiter"))
        return Outcome(tuple(command), self.code, "what it said", 0.0)

    def compile(self, what: str, source: Path, folder: Path, settings: list[str], environment: Any) -> None:
        self.calls.append(([what, *settings], {"cwd": source, "env": environment}))
        for name in ("_native.abi3.so", "libamdhip64.so"):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(b"\x7fELF new")


def test_the_runtime_wheel_is_asked_for_judged_and_finished(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = Builder(monkeypatch)
    path = runtime_wheel.build_runtime_wheel(root, tmp_path / "dist")
    ((command, words),) = builder.calls
    assert command[:4] == [sys.executable, "-m", "pip", "wheel"] and command[-1] == str(root)
    assert {"--no-deps", "--no-build-isolation", "--no-index"} < set(command)
    settings = [command[at + 1] for at, word in enumerate(command) if word == "-C"]
    assert settings == [
        "cmake.define.ZSTD=/z",
        "cmake.define.DLPACK=/d",
        "cmake.define.CMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY",
        f"wheel.tags={runtime_wheel.TAG}",
        f"build-dir={root / 'build' / 'runtime-wheel'}",
    ]
    assert (words["cwd"], words["env"]) == (root, {"CC": "zig"}) and words["timeout"] >= 600
    assert (path, builder.judged) == (tmp_path / "dist" / NAME, [NAME])
    assert path.is_file()


@pytest.mark.parametrize(
    "changed",
    [
        "csrc/runtime/a.cpp",
        "src/aiter_prebuilt/deep/er.json",
        "THIRD_PARTY.txt",
        "manifests/toolchains.toml",
        "",
    ],
)
def test_the_runtime_is_compiled_again_only_after_a_change(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    builder = Builder(monkeypatch)
    first = runtime_wheel.build_runtime_wheel(root, tmp_path / "dist").read_bytes()
    (root / "csrc/runtime/notes.md").write_text("no source")
    if changed:
        (root / changed).write_text((root / changed).read_text() + "\n# changed\n")
    again = runtime_wheel.build_runtime_wheel(root, tmp_path / "again")
    assert (len(builder.calls), builder.judged) == (1 + bool(changed), [NAME, NAME])
    assert changed or again.read_bytes() == first


@pytest.mark.parametrize(("made", "code"), [(1, 1), (0, 0), (2, 0), (0, 1)])
def test_what_was_not_built_right_is_no_runtime_wheel(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: int, code: int
) -> None:
    builder = Builder(monkeypatch, made, code)
    with pytest.raises(WheelError, match="build the runtime wheel") as caught:
        runtime_wheel.build_runtime_wheel(root, tmp_path / "dist")
    assert caught.value.found == f"exit code {code}\nwhat it said" or not code
    assert caught.value.fix == "Mend what the compiler says"
    assert not (root / FOLDER).exists(), "what failed is not kept"
    assert builder.judged == [] and not (tmp_path / "dist").exists()


def test_a_finished_wheel_has_its_members_and_a_bill(root: Path, tmp_path: Path) -> None:
    pinned = pins.load(root)
    made = wheel(tmp_path)
    path = runtime_wheel.finish(made, root, tmp_path / "dist", pinned)
    with ZipFile(path) as archive:
        inside = {name: archive.read(name) for name in archive.namelist()}
        modes = {info.filename: info.external_attr >> 16 & 0o777 for info in archive.infolist()}
    bill = inside.pop(f"{INFO}/sboms/{sbom.FILE_NAME}")
    record = inside.pop(f"{INFO}/RECORD")
    assert inside == {name: data for name, data in MEMBERS.items() if not name.endswith("/RECORD")}
    assert record != MEMBERS[f"{INFO}/RECORD"]
    assert {name for name, mode in modes.items() if mode == 0o755} == {runtime_wheel.EXTENSION}
    document = json.loads(bill)
    subject = document["metadata"]["component"]
    assert (subject["name"], subject["version"]) == ("aiter-prebuilt", "0.1.0")
    assert subject["hashes"][0]["content"] == hashlib.sha256(b"\x7fELF").hexdigest()
    parts = {part["name"]: part.get("version") for part in document["components"]}
    assert parts["ziglang"] == pinned.tools["ziglang"].version
    assert {"cmake", "ninja", "scikit-build-core", *runtime_wheel.source_files(root)} <= set(parts)
    again = runtime_wheel.finish(made, root, tmp_path / "again", pinned)
    assert again.read_bytes() == path.read_bytes()


def test_a_wheel_without_the_extension_is_refused(root: Path, tmp_path: Path) -> None:
    made = wheel(tmp_path, without=runtime_wheel.EXTENSION)
    with pytest.raises(WheelError, match=rf"finish {NAME}: it has no {runtime_wheel.EXTENSION}.*CMakeLists"):
        runtime_wheel.finish(made, root, tmp_path / "dist", pins.load(root))


def test_the_files_that_wheels_are_made_of(root: Path) -> None:
    assert runtime_wheel.source_files(root) == (
        "CMakeLists.txt", "csrc/runtime/a.cpp", "pyproject.toml", "src/aiter_prebuilt/__init__.py",
        "src/aiter_prebuilt/deep/er.json",
    )  # fmt: skip
    assert emulator_wheel.source_files(root) == (
        "csrc/emulator/isa/b.cpp", "src/aiter_prebuilt_emulator/__init__.py", "src/aiter_prebuilt_emulator/notes.txt",
        "src/aiter_prebuilt_emulator/py.typed",
    )  # fmt: skip


def test_the_extension_is_compiled_beside_its_sources(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builder = Builder(monkeypatch)
    path = runtime_wheel.compile_extension(root)
    assert builder.calls == [
        (["the native extension", "-DZSTD=/z", "-DDLPACK=/d"], {"cwd": root, "env": {"CC": "zig"}})
    ]
    assert (path, path.read_bytes()) == (root / "src" / runtime_wheel.EXTENSION, b"\x7fELF new")
    assert path.stat().st_mode & 0o777 == 0o755


def test_the_extension_is_taken_out_of_the_one_wheel(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "dist"
    folder.mkdir()
    wheel(folder, "aiter_prebuilt_gfx950-0.1.0-py3-none-any.whl")
    said = f"0 runtime wheels in {folder}. Run python -m build_tools wheels"
    with pytest.raises(WheelError, match="unpack the extension") as caught:
        runtime_wheel.unpack_extension(folder, root)
    assert f"{caught.value.found}. {caught.value.fix}" == said
    wheel(folder)
    path = runtime_wheel.unpack_extension(folder, root)
    assert (path, path.read_bytes()) == (root / "src" / runtime_wheel.EXTENSION, b"\x7fELF")
    assert path.stat().st_mode & 0o777 == 0o755
    wheel(folder, NAME.replace("0.1.0", "0.2.0"))
    with pytest.raises(WheelError, match="2 runtime wheels in"):
        runtime_wheel.unpack_extension(folder, root)
    calls: list[tuple[Path, Path]] = []
    monkeypatch.setattr(runtime_wheel, "unpack_extension", lambda *places: calls.append(places))
    monkeypatch.setattr(sys, "argv", ["runtime_wheel", "--unpack", "here"])
    assert (runtime_wheel.main(), calls) == (0, [(Path("here"), ROOT)])
    monkeypatch.setattr(sys, "argv", ["runtime_wheel"])
    with pytest.raises(SystemExit):
        runtime_wheel.main()


def test_the_wheel_of_the_embedded_device(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = Builder(monkeypatch)
    path = emulator_wheel.build_emulator_wheel(root, tmp_path / "dist")
    ((command, words),) = builder.calls
    assert command == ["the emulator", f"-DPython3_EXECUTABLE={sys.executable}"]
    assert words == {"cwd": root / "csrc/emulator", "env": {"CC": "zig", "PYTHONPATH": str(root)}}
    assert (builder.judged, path.parent) == ([path.name], tmp_path / "dist")
    assert path.name == f"aiter_prebuilt_emulator-0.1.0-{emulator_wheel.TAG}.whl"
    with ZipFile(path) as archive:
        inside = {name: archive.read(name) for name in archive.namelist() if ".dist-info/" not in name}
        about = {name.split("/", 1)[1]: archive.read(name).decode() for name in archive.namelist()}
        modes = {info.filename: info.external_attr >> 16 & 0o777 for info in archive.infolist()}
    library = emulator_wheel.LIBRARY
    assert inside == {
        library: b"\x7fELF new",
        "aiter_prebuilt_emulator/__init__.py": b"text of src/aiter_prebuilt_emulator/__init__.py",
        "aiter_prebuilt_emulator/py.typed": b"text of src/aiter_prebuilt_emulator/py.typed",
    }
    assert {name for name, mode in modes.items() if mode == 0o755} == {library}
    assert about["entry_points.txt"] == (
        "[console_scripts]\naiter-prebuilt-emulator = aiter_prebuilt_emulator.__main__:main\n"
    )
    assert "Root-Is-Purelib: false" in about["WHEEL"]
    assert f"Tag: {emulator_wheel.TAG}" in about["WHEEL"]
    parts = {part["name"] for part in json.loads(about[f"sboms/{sbom.FILE_NAME}"])["components"]}
    assert {"ziglang", "tinygrad", "cmake", "ninja", *emulator_wheel.source_files(root)} <= parts


@pytest.mark.parametrize(
    "changed", ["csrc/emulator/isa/b.cpp", "src/aiter_prebuilt_emulator/__init__.py", ""]
)
def test_the_embedded_device_is_compiled_again_only_after_a_change(
    root: Path, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    """Its Python package is not compiled."""
    builder = Builder(monkeypatch)
    library = emulator_wheel.compile_emulator(root)
    if changed:
        (root / changed).write_text("another text")
    library.unlink()
    assert emulator_wheel.compile_emulator(root).read_bytes() == b"\x7fELF new"
    assert len(builder.calls) == 1 + changed.startswith("csrc/")


def test_what_is_kept_is_what_was_made(tmp_path: Path) -> None:
    made = iter((b"first", b"second", b"third", b"fourth"))

    def ask(name: str, key: str) -> bytes:
        return kept(tmp_path, name, key * 16, lambda: next(made))

    assert [ask("a", "0"), ask("a", "0"), ask("b", "0"), ask("a", "0")] == [
        b"first",
        b"first",
        b"second",
        b"first",
    ]
    (place,) = (tmp_path / FOLDER).glob("a-*")
    place.write_bytes(place.read_bytes()[:-1] + b"?")
    assert [ask("a", "0"), ask("b", "0")] == [b"third", b"second"], "a damaged one is made again"
    assert ask("a", "1") == b"fourth"
    names = sorted(path.name[:3] for path in (tmp_path / FOLDER).iterdir())
    assert names == ["a-1", "b-0"], "one of a name, the last"


def test_the_key_is_all_that_decides_the_bytes(root: Path, tmp_path: Path) -> None:
    def key(files: tuple[str, ...] = ("README.md", "LICENSE"), tool: str = "1", code: str = "x") -> str:
        (tmp_path / "maker.py").write_text(code)
        return key_of(root, files, (tmp_path / "maker.py",), {"zig": tool})

    assert key() == key(("LICENSE", "README.md"))
    assert len({key(), key(("README.md",)), key(tool="2"), key(code="y")}) == 4
    before = key()
    (root / "LICENSE").write_text("another")
    assert key() != before


def test_the_library_is_linked_beside_the_compile(tmp_path: Path) -> None:
    """And has ended when the compile has; whether it went well is not asked."""
    told = tmp_path / "told"
    compiler = tmp_path / "c++"
    compiler.write_text(f'#!/bin/sh\necho "$@" > "{told}.part"; mv "{told}.part" "{told}"; exit 1\n')
    compiler.chmod(0o755)
    with host.library_ahead({"CXX": str(compiler)}):
        pass
    assert told.read_text().startswith("-shared -x c++ /dev/null -o ")
