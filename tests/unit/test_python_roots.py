"""``ci/python_roots.py``: which packages of an archive a Python needs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "ci"))

import python_roots  # noqa: E402

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

INDEX = """Package: python3.14
Pre-Depends: libc6:any (>= 2.38)
Depends: libpython (= 3.14.1), awk | other, debconf, nowhere
Filename: pool/python3.14.deb
SHA256: 00
Description: a language

Package: libc6
Filename: pool/libc6.deb
SHA256: 01

Package: libpython
Depends: python3.14
Filename: pool/libpython.deb
SHA256: 02

Package: mawk
Provides: awk (= 1), something
Filename: pool/mawk.deb
SHA256: 03

Package: debconf
Filename: pool/debconf.deb
SHA256: 04
"""


def test_a_python_comes_with_all_that_its_packages_need() -> None:
    packages, provided = python_roots.read_index(INDEX)
    assert packages["python3.14"] == python_roots.Package(
        ("libc6", "libpython", "awk", "debconf", "nowhere"), "pool/python3.14.deb", "00"
    )
    assert python_roots.closure(["python3.14"], packages, provided) == [
        "libc6", "libpython", "mawk", "python3.14"
    ]  # fmt: skip


def test_every_declared_python_has_a_place() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    start = "Programming Language :: Python :: 3."
    declared = [each[len(start) - 2 :] for each in project["classifiers"] if each.startswith(start)]
    assert len(declared) == 5 and set(declared) <= set(python_roots.PLACES)


def test_other_bytes_than_the_index_says_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import lzma

    base = "".join(
        f"\nPackage: {name}\nFilename: pool/{name}.deb\nSHA256: 05\n" for name in python_roots._BASE
    )
    index = lzma.compress((INDEX + base).encode())
    monkeypatch.setattr(python_roots, "_fetch", lambda address: index if "Packages" in address else b"other")
    with pytest.raises(python_roots.RootError, match="is not what the index of sid says"):
        python_roots.make("3.14", tmp_path / "root", tmp_path)


def test_names_the_wheels_that_it_needs(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"does not have one wheel each .* Run nox -s wheels"):
        python_roots.main([str(tmp_path)])
