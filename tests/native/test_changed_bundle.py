"""A bundle's file that changes while a server uses it: cut, longer, replaced, overwritten, its handle closed by somebody. What
was opened goes on working or ends in a named error; the process never dies of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from native.conftest import ROOT

#: One process for each case, because a page of a mapping behind a file's end is SIGBUS. `change` is the case: code that is
#: executed when operator "one" has been launched; after it come that, its other kernel, and operator "two".
PROGRAM = """
import json, os, sys, tempfile
from pathlib import Path
from aiter_prebuilt import errors
from native import synthetic
from native.conftest import load_extension, raw
from native.synthetic import Op, R, S, T
extension, driver, folder, encoding, change = sys.argv[1:]
native = load_extension(Path(extension))
native.open_driver("amd", driver)
image = synthetic.code_object
synthetic.code_object = lambda name: image(name) + b"".join(b"%s %d;" % (name.encode(), n) for n in range(9000))
def op(name, blob):
    step = S("k", ["ptr x"])
    kinds = (("p", "N < 9"), ("q", "N > 8"))
    recipes = [R(variant=v, when=[w], steps=[step], blob=blob + v) for v, w in kinds]
    return Op(name, [T("x", "f32", ["N"])], recipes=recipes)
def bundle_bytes(mark):
    return synthetic.bundle_bytes([op("one", mark + "one"), op("two", mark + "two")], encoding=encoding)
data, path = bundle_bytes("a"), Path(folder, "gfx942-ck-free.apb")
path.write_bytes(data)
bundle = native.Bundle(str(path))
operators = {name: native.Operator(name, lambda vendor, ordinal: ((bundle,), 304)) for name in bundle.names}
def call(name, size):
    try:
        operators[name](raw(0x7F0000000100, "f32", (size,)))
        return "ran"
    except errors.AiterPrebuiltError as error:
        return [type(error).__name__, error.found, error.fix]
said = [call("one", 8)]
exec(change)
said += [call("one", 8), call("one", 16), call("two", 8)]
print(json.dumps(said))
"""


def answers(
    extension: Path, driver: Path, folder: Path, change: str, encoding: str = "zstd"
) -> tuple[Any, Any, Any, Any]:
    """What four calls did: before the change, the same after it, another kernel of that operator, another operator."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AITER_PREBUILT")}
    paths = os.pathsep.join(map(str, (ROOT / "src", ROOT / "tests", ROOT)))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(extension), str(driver), str(folder), encoding, change],
        env=kept | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, f"ended with {done.returncode}: {done.stderr[-2000:]}"
    first, again, other, fresh = json.loads(done.stdout.splitlines()[-1])
    return first, again, other, fresh


@pytest.mark.parametrize("encoding", ["raw", "zstd"])
def test_a_file_that_was_cut(extension_path: Path, stub_path: Path, tmp_path: Path, encoding: str) -> None:
    """As `cp` does it: the file is emptied in place, and filled afterwards."""
    first, again, other, fresh = answers(
        extension_path, stub_path, tmp_path, "os.truncate(path, 0)", encoding
    )
    assert first == again == "ran", "what is loaded needs no file"
    for failure in (other, fresh):
        kind, found, fix = failure
        assert kind == "BundleDamagedError"
        assert "the file changed since it was opened: it had" in found and "and has 0" in found
        assert "cannot be read: it ends before byte" in found
        assert "pip install --force-reinstall" in fix and fix.endswith(", then start this process again")


def test_a_file_that_was_cut_where_it_is_not_needed(
    extension_path: Path, stub_path: Path, tmp_path: Path
) -> None:
    first, again, other, fresh = answers(
        extension_path, stub_path, tmp_path, "os.truncate(path, len(data) - 10)", "raw"
    )
    assert (first, again, other) == ("ran", "ran", "ran") and fresh == "ran"


def test_a_file_that_grew(extension_path: Path, stub_path: Path, tmp_path: Path) -> None:
    """Each part is still where it was, and what its hash says."""
    found = answers(extension_path, stub_path, tmp_path, "path.open('ab').write(bytes(70000))")
    assert found == ("ran",) * 4


@pytest.mark.parametrize("how", ["os.replace(other, path)", "path.unlink()"])
def test_a_file_that_was_replaced_or_removed(
    extension_path: Path, stub_path: Path, tmp_path: Path, how: str
) -> None:
    """As pip does it: the open file is the old one, all of it."""
    change = f"other = Path(folder, 'other'); other.write_bytes(bundle_bytes('b')); {how}"
    assert answers(extension_path, stub_path, tmp_path, change) == ("ran",) * 4


@pytest.mark.parametrize("encoding", ["raw", "zstd"])
def test_a_file_that_was_overwritten(
    extension_path: Path, stub_path: Path, tmp_path: Path, encoding: str
) -> None:
    """Other bytes of the same length: a hash says so, and the time of the change why."""
    change = "path.open('r+b').write(data[::-1]); os.utime(path, ns=(1, 1)); assert path.stat().st_size == len(data)"
    first, again, other, fresh = answers(extension_path, stub_path, tmp_path, change, encoding)
    assert first == again == "ran"
    for failure in (other, fresh):
        assert failure[0] == "BundleDamagedError"
        assert failure[1].startswith("the file changed since it was opened; ")
        assert "SHA-256" in failure[1] or "does not decode" in failure[1]


def test_a_handle_that_somebody_closed(extension_path: Path, stub_path: Path, tmp_path: Path) -> None:
    """A program that becomes a daemon closes every handle, and opens others under the same numbers."""
    change = "os.closerange(3, 64); handles = [os.open(os.devnull, os.O_RDONLY) for _ in range(40)]"
    assert answers(extension_path, stub_path, tmp_path, change) == ("ran",) * 4
    gone = change + "; os.link(path, path.with_name('kept')); path.unlink(); path.write_bytes(b'another')"
    _, again, other, _ = answers(extension_path, stub_path, tmp_path, gone)
    assert again == "ran" and other[0] == "BundleDamagedError" and "its handle was closed" in other[1]
    # And what it opened since is not ours to close.
    after = """
os.closerange(3, 64)
handles = [os.open(os.devnull, os.O_RDONLY) for _ in range(40)]
del bundle
operators.clear()
for handle in handles:
    os.fstat(handle)
bundle = native.Bundle(str(path))
operators = {name: native.Operator(name, lambda vendor, ordinal: ((bundle,), 304)) for name in bundle.names}
"""
    assert answers(extension_path, stub_path, tmp_path, after) == ("ran",) * 4
