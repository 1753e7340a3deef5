"""The content store: what is damaged is no entry, and two writers at once do not harm each other."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
from dataclasses import replace
from pathlib import Path

import pytest

from build_tools.compile.store import Store
from build_tools.errors import StoreError

KEY = "ab" + "0" * 62
DATA = b"a code object" * 100


def put(store: Store, data: bytes = DATA, key: str = KEY) -> Path:
    return store.put(
        key, data, job="job", symbol="kernel", threads=64, seconds=1.25, extra={"lds": "16"}
    ).path


def test_what_was_put_is_got(tmp_path: Path) -> None:
    put(Store(tmp_path))
    entry = Store(tmp_path).get(KEY)
    assert entry is not None
    assert entry.path.read_bytes() == DATA
    assert (entry.symbol, entry.threads, entry.seconds, entry.extra, entry.size) == (
        "kernel",
        64,
        1.25,
        {"lds": "16"},
        len(DATA),
    )


def test_the_files_of_the_store_are_these(tmp_path: Path) -> None:
    """Other checkouts and machines read the same store: another layout, or other words, need another version."""
    entry = Store(tmp_path).put(
        KEY, b"code", job="a job", symbol="k", threads=64, seconds=1.23456, extra={"b": "2", "a": "1"}, peak=7
    )
    digest = hashlib.sha256(b"code").hexdigest()
    assert entry.path == tmp_path / "objects" / digest[:2] / digest and entry.sha256 == digest
    assert (entry.seconds, entry.size, entry.extra, entry.peak) == (1.235, 4, {"a": "1", "b": "2"}, 7)
    text = (tmp_path / "entries" / "ab" / f"{KEY}.json").read_text()
    row = {
        "version": 1, "key": KEY, "job": "a job", "sha256": digest, "size": 4, "symbol": "k", "threads": 64, "seconds": 1.235,
        "peak": 7, "extra": {"a": "1", "b": "2"},
    }  # fmt: skip
    assert text == json.dumps(row, indent=1) + "\n"
    assert Store(tmp_path).get(KEY) == entry
    del row["peak"]  # as entries were before memory was looked at
    (tmp_path / "entries" / "ab" / f"{KEY}.json").write_text(json.dumps(row))
    assert Store(tmp_path).get(KEY) == replace(entry, peak=0)


def test_an_object_that_is_there_is_not_written_again(tmp_path: Path) -> None:
    store = Store(tmp_path)
    before = put(store).stat()
    assert put(store).stat().st_ino == before.st_ino
    put(store).write_bytes(b"damaged")
    assert put(store).read_bytes() == DATA and put(store).stat().st_ino != before.st_ino


def test_a_store_is_found_from_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Store(Path("there")).path == tmp_path.resolve() / "there"


def test_an_unknown_key_is_nothing(tmp_path: Path) -> None:
    assert Store(tmp_path / "not there").get(KEY) is None


@pytest.mark.parametrize("left", [0, 1, len(DATA) // 2, len(DATA) - 1])
def test_a_half_written_object_is_no_entry_and_is_written_again(tmp_path: Path, left: int) -> None:
    store = Store(tmp_path)
    put(store).write_bytes(DATA[:left])
    assert store.get(KEY) is None
    assert put(store).read_bytes() == DATA
    assert store.get(KEY) is not None


def test_a_changed_bit_is_no_entry(tmp_path: Path) -> None:
    store = Store(tmp_path)
    path = put(store)
    path.write_bytes(bytes([DATA[0] ^ 1]) + DATA[1:])
    assert store.get(KEY) is None


def test_a_missing_object_is_no_entry(tmp_path: Path) -> None:
    store = Store(tmp_path)
    put(store).unlink()
    assert store.get(KEY) is None


def test_every_cut_of_the_entry_file_is_no_entry(tmp_path: Path) -> None:
    store = Store(tmp_path)
    put(store)
    path = store.entry_path(KEY)
    whole = path.read_text()
    for length in range(len(whole.rstrip())):
        path.write_text(whole[:length])
        assert store.get(KEY) is None


@pytest.mark.parametrize(
    "change",
    [
        {"version": 99},
        {"key": "cd" * 32},
        {"sha256": "00" * 32},
        {"extra": [1]},
        {"size": "many"},
        {"threads": None},
    ],
)
def test_an_entry_that_says_something_odd_is_no_entry(tmp_path: Path, change: dict[str, object]) -> None:
    store = Store(tmp_path)
    put(store)
    path = store.entry_path(KEY)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    assert store.get(KEY) is None


def test_equal_objects_of_two_keys_are_kept_once(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert put(store) == put(store, key="cd" + "0" * 62)
    assert sum(path.is_file() for path in (tmp_path / "objects").rglob("*")) == 1


def _hammer(folder: str, seed: int) -> None:
    store = Store(Path(folder))
    for turn in range(40):
        key = f"{turn % 8:02x}" + "0" * 62
        data = DATA + bytes([seed, turn % 8])
        put(store, data, key)
        entry = store.get(key)
        assert entry is not None, "an entry was visible before its object was"
        assert entry.path.read_bytes()[:-2] == DATA


def test_two_processes_at_once_need_no_lock(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    children = [context.Process(target=_hammer, args=(str(tmp_path), seed)) for seed in (1, 2)]
    for child in children:
        child.start()
    for child in children:
        child.join(60)
    assert [child.exitcode for child in children] == [0, 0]
    assert not list(tmp_path.rglob("*.tmp"))


def test_a_store_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "objects").write_text("a file where a folder should be")
    with pytest.raises(StoreError, match="keep the code object of job") as caught:
        put(Store(tmp_path))
    assert "objects" in caught.value.found and "--store" in caught.value.fix
