"""Two runtime wheels of two builders: what counts as the same program, and what does not."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

import pytest
from click.testing import CliRunner

from build_tools.errors import WheelError
from build_tools.pack.same_runtime import differences
from build_tools.verbs.same_runtime import same_runtime

INFO = "aiter_prebuilt-1.dist-info"
Wheel = Callable[..., Path]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], bytes]:
    """A shared library of the system's compiler with one function."""

    def made(name: str) -> bytes:
        folder = tmp_path_factory.mktemp("library")
        (folder / "a.c").write_text(f"int {name}(void) {{ return 1; }}\nextern int puts(const char *);")
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", "a.so", "a.c"], cwd=folder, check=True)
        return (folder / "a.so").read_bytes()

    return made


@pytest.fixture
def wheel(tmp_path: Path, library: Callable[[str], bytes]) -> Wheel:
    def made(name: str, **members: bytes | None) -> Path:
        usual = {
            "aiter_prebuilt/__init__.py": b"x = 1\n",
            "aiter_prebuilt/_native.abi3.so": library("PyInit__native"),
            f"{INFO}/WHEEL": b"Wheel-Version: 1.0\nGenerator: a\nRoot-Is-Purelib: false\nTag: cp310-abi3-linux_x86_64\n",
            f"{INFO}/METADATA": b"Name: aiter-prebuilt\n",
            f"{INFO}/RECORD": name.encode(),
        }
        changed = {place.replace("__", "/", 1): data for place, data in members.items()}
        path = tmp_path / f"{name}.whl"
        with ZipFile(path, "w") as file:
            for place, data in (usual | changed).items():
                if data is not None:
                    file.writestr(place, data)
        return path

    return made


def test_builders_may_differ_in_what_is_their_own(wheel: Wheel) -> None:
    head = b"Wheel-Version: 1.0\nGenerator: another\nRoot-Is-Purelib: false\nTag: cp310-abi3-linux_x86_64\n"
    other = wheel("other", **{f"{INFO}__WHEEL": head, f"{INFO}__sboms/a.json": b"{}"})
    assert differences(wheel("one"), other) == []


def test_each_difference_is_named(wheel: Wheel, library: Callable[[str], bytes]) -> None:
    one = wheel("one")
    tag = b"Wheel-Version: 1.0\nGenerator: a\nRoot-Is-Purelib: false\nTag: cp312-cp312-linux_x86_64\n"
    for changed, said in (
        ({"aiter_prebuilt____init__.py": b"x = 2\n"}, "aiter_prebuilt/__init__.py: other bytes"),
        ({"aiter_prebuilt____init__.py": None}, "aiter_prebuilt/__init__.py: only in one.whl"),
        ({"aiter_prebuilt__more.py": b""}, "aiter_prebuilt/more.py: only in other.whl"),
        ({f"{INFO}__METADATA": b"Name: b\n"}, f"{INFO}/METADATA: other bytes"),
        ({f"{INFO}__WHEEL": tag},
         f"{INFO}/WHEEL: Tag is cp310-abi3-linux_x86_64 in one and cp312-cp312-linux_x86_64 in the other"),
        ({"aiter_prebuilt___native.abi3.so": library("PyInit_other")},
         "aiter_prebuilt/_native.abi3.so: exports PyInit__native, PyInit_other in one of them only"),
    ):  # fmt: skip
        assert differences(one, wheel("other", **changed)) == [said]


def test_what_is_no_wheel_or_no_library_is_refused(wheel: Wheel, tmp_path: Path) -> None:
    (tmp_path / "no.whl").write_bytes(b"no")
    with pytest.raises(WheelError, match=r"compare .*no\.whl: it is no wheel"):
        differences(wheel("one"), tmp_path / "no.whl")
    with pytest.raises(WheelError, match="it is no ELF file"):
        differences(wheel("one"), wheel("other", **{"aiter_prebuilt___native.abi3.so": b"\x7fELF cut"}))


def test_the_verb_ends_with_the_error_of_wheels(wheel: Wheel) -> None:
    one, other = str(wheel("one")), str(wheel("other", **{"aiter_prebuilt__more.py": b""}))
    same = CliRunner().invoke(same_runtime, [one, one])
    assert same.exit_code == 0 and "hold the same program" in same.output
    found = CliRunner().invoke(same_runtime, [one, other, "--json"])
    assert isinstance(found.exception, WheelError) and '"differences": [' in found.output
