"""A store that several machines share: read through, written once, and believed as its writers are."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from build_tools.compile.place import ObjectPlace, checked, entry_name, input_name, object_name, place_at
from build_tools.compile.shared import SharedStore
from build_tools.compile.store import Store
from build_tools.errors import (
    SharedStoreError,
    SigningError,
    StoreConflictError,
    UntrustedEntryError,
    UsageError,
)
from build_tools.release.sign import Signer, new_key, signers
from build_tools.release.trusted import Behind, EntrySigner, Writers

KEY, OTHER = "ab" + "0" * 62, "cd" + "1" * 62
DATA, STRANGE = b"a code object" * 100, b"another one" * 90


class Bucket(BaseHTTPRequestHandler):
    """As much of S3 as a store asks for: whole objects, read, and written where there is none."""

    objects: dict[str, bytes]

    def do_GET(self) -> None:
        data = self.objects.get(self.path)
        self._answer(404 if data is None else 200, data or b"")

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("If-None-Match") == "*" and self.path in self.objects:
            self._answer(412, b"")
            return
        self.objects[self.path] = data
        self._answer(200, b"")

    def _answer(self, code: int, data: bytes) -> None:
        self.send_response(code)
        for name, value in (
            ("Content-Length", str(len(data))),
            ("ETag", '"1"'),
            ("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT"),
        ):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_words: Any) -> None:
        """Nothing: a test's output is its own."""


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of a bucket, on a server of this process."""
    kind = type("OneBucket", (Bucket,), {"objects": {}})
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    for name, value in (
        ("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}"), ("AWS_ALLOW_HTTP", "true"),
        ("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "b"), ("AWS_REGION", "us-east-1"),
    ):  # fmt: skip
        monkeypatch.setenv(name, value)
    try:
        yield "s3://bucket/below"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(params=["file", "memory", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectPlace:
    url = {"file": f"file://{tmp_path}/a place%20", "memory": "memory:///"}.get(request.param)
    return place_at(url or request.getfixturevalue("bucket"))


def put(store: Store | SharedStore, key: str = KEY, data: bytes = DATA, job: str = "a job") -> Path:
    return store.put(key, data, job=job, symbol="k", threads=64, seconds=1.5, extra={"lds": "8"}, peak=9).path


@pytest.fixture
def keys(tmp_path: Path) -> Iterator[dict[str, tuple[Signer, Path]]]:
    """Two writers, each with the file of its public key."""
    (tmp_path / "keys").mkdir()
    with ExitStack() as stack:
        made = {}
        for name in ("ours", "theirs"):
            secret, public = new_key(tmp_path / "keys", name, "")
            made[name] = signers(stack, [secret], "")[0], public
        yield made


def test_bytes_are_written_once(place: ObjectPlace) -> None:
    assert place.read("objects/ab/x") is None
    assert place.create("objects/ab/x", b"first") and not place.create("objects/ab/x", b"second")
    assert place.read("objects/ab/x") == b"first"
    digest = hashlib.sha256(DATA).hexdigest()
    assert checked(place, object_name(digest)) is None
    place.create(object_name(digest), DATA)
    place.create(input_name(digest), DATA[:-1])
    assert checked(place, object_name(digest)) == DATA
    assert checked(place, input_name(digest)) is None, "other bytes than its name says"


def test_one_of_two_writers_at_once_is_first(place: ObjectPlace) -> None:
    won: list[int] = []
    meet = threading.Barrier(4)

    def write(number: int) -> None:
        meet.wait(10)
        if place.create("objects/ab/one", bytes([number]) * 4096):
            won.append(number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1 and place.read("objects/ab/one") == bytes(won) * 4096


def test_what_one_machine_signs_another_takes_once(
    place: ObjectPlace, tmp_path: Path, keys: dict[str, tuple[Signer, Path]]
) -> None:
    signer, public = keys["ours"]
    first = SharedStore(Store(tmp_path / "one"), place, Writers([], [signer]), EntrySigner(signer))
    assert first.get(KEY) is None
    put(first)
    second = SharedStore(Store(tmp_path / "two"), place, Writers([public]))
    entry = second.get(KEY)
    assert entry is not None and entry.path.is_relative_to(tmp_path / "two")
    assert entry == Store(tmp_path / "two").get(KEY) and entry.path.read_bytes() == DATA
    assert (entry.symbol, entry.threads, entry.seconds, entry.extra, entry.peak) == (
        "k",
        64,
        1.5,
        {"lds": "8"},
        9,
    )
    assert (first.counts.written, second.counts.taken, second.counts.strange) == (1, 1, 0)
    second.get(KEY)
    assert second.counts.taken == 1, "the folder here had it"
    put(second, OTHER, STRANGE)
    assert place.read(entry_name(OTHER)) is None, "who does not sign writes nothing"


def test_an_object_with_other_bytes_is_no_entry(
    place: ObjectPlace, tmp_path: Path, keys: dict[str, tuple[Signer, Path]]
) -> None:
    name = object_name(hashlib.sha256(DATA).hexdigest())
    place.create(name, DATA[:-1])
    signer, public = keys["ours"]
    whole = place_at(f"file://{tmp_path}/whole")
    put(SharedStore(Store(tmp_path / "zero"), whole, None, EntrySigner(signer)))
    writer = SharedStore(Store(tmp_path / "one"), place, None, EntrySigner(signer))
    entry = put(writer)
    assert entry.read_bytes() == DATA and writer.counts.damaged == {name} and writer.counts.written == 0
    assert place.read(entry_name(KEY)) is None, "no entry leads to what is damaged"
    place.create(entry_name(KEY), whole.read(entry_name(KEY)) or b"")
    for verify in (Writers([public]), None):
        store = SharedStore(Store(tmp_path / "two"), place, verify)
        assert store.get(KEY) is None and store.counts.damaged == {name}
        assert store.damaged.startswith(f"damaged in {place.name}: {name} (")


def test_an_object_that_is_lacking_is_damage_until_it_is_written(
    mount: Path, tmp_path: Path, keys: dict[str, tuple[Signer, Path]]
) -> None:
    name = object_name(hashlib.sha256(DATA).hexdigest())
    (mount / name).write_bytes(b"")
    behind = Behind(f"file://{mount}", [], [keys["ours"][0]])
    store = behind(Store(tmp_path / "two"))
    for _ in range(2):
        assert store.get(KEY) is None
    assert (
        f"\ndamaged in file://{mount}: {name} (" in behind.describe()
        and "remove those objects" in behind.describe()
    )
    (mount / name).unlink()
    put(store)
    assert behind.counts.damaged == set() and "damaged" not in behind.describe()
    assert (mount / name).read_bytes() == DATA


def _swap(folder: Path, said: dict[str, Any], key: str = KEY) -> None:
    """Have the entry of ``key`` say something else, as who may write the folder could."""
    path = folder / entry_name(key)
    path.write_text(json.dumps({**json.loads(path.read_text()), **said}))


@pytest.fixture
def mount(tmp_path: Path, keys: dict[str, tuple[Signer, Path]]) -> Path:
    """A shared folder with two signed results."""
    signer, _ = keys["ours"]
    store = SharedStore(
        Store(tmp_path / "one"), place_at(f"file://{tmp_path}/mount"), None, EntrySigner(signer)
    )
    put(store)
    put(store, OTHER, STRANGE, "another job")
    return tmp_path / "mount"


def test_an_entry_that_leads_to_another_jobs_object(
    mount: Path, tmp_path: Path, keys: dict[str, tuple[Signer, Path]]
) -> None:
    """The object is whole and has its own hash; only the signature binds the key to a digest."""
    _swap(mount, {"sha256": hashlib.sha256(STRANGE).hexdigest(), "size": len(STRANGE)})
    place = place_at(f"file://{mount}")
    unsigned = SharedStore(Store(tmp_path / "naive"), place).get(KEY)
    assert unsigned is not None and unsigned.path.read_bytes() == STRANGE, "without signatures nobody notices"
    with pytest.raises(
        UntrustedEntryError, match=rf"{entry_name(KEY)} of file://.*: it is not what its writer signed"
    ):
        SharedStore(Store(tmp_path / "two"), place, Writers([keys["ours"][1]])).get(KEY)
    # The whole entry of the other job, with its signature, under this key.
    (mount / entry_name(KEY)).write_bytes((mount / entry_name(OTHER)).read_bytes())
    for verify in (Writers([keys["ours"][1]]), None):
        with pytest.raises(UntrustedEntryError, match=f"it is the entry of the key {OTHER}"):
            SharedStore(Store(tmp_path / "two"), place, verify).get(KEY)


@pytest.mark.parametrize(
    "said",
    [{"symbol": "l"}, {"threads": 128}, {"extra": {"lds": "9"}}, {"job": "x"}, {"seconds": 2.0}, {"new": 1}],
)
def test_all_that_an_entry_says_is_signed(
    mount: Path, tmp_path: Path, keys: dict[str, tuple[Signer, Path]], said: dict[str, Any]
) -> None:
    store = SharedStore(Store(tmp_path / "two"), place_at(f"file://{mount}"), Writers([keys["ours"][1]]))
    _swap(mount, said)
    with pytest.raises(UntrustedEntryError):
        store.get(KEY)
    assert store.get(OTHER) is not None


def test_entries_of_others_are_left_there(
    mount: Path, tmp_path: Path, keys: dict[str, tuple[Signer, Path]]
) -> None:
    place = place_at(f"file://{mount}")
    store = SharedStore(Store(tmp_path / "two"), place, Writers([keys["theirs"][1]]))
    assert store.get(KEY) is None and store.counts.strange == 1
    both = SharedStore(Store(tmp_path / "three"), place, Writers([keys["theirs"][1], keys["ours"][1]]))
    assert both.get(KEY) is not None
    row = json.loads((mount / entry_name(KEY)).read_text())
    del row["signature"]
    (mount / entry_name(KEY)).write_text(json.dumps(row))
    assert SharedStore(Store(tmp_path / "four"), place, Writers([keys["ours"][1]])).get(KEY) is None


@pytest.mark.parametrize("said", [{"signature": "no"}, {"signature": 3}, {"signature": "a\nb\nc\nd"}])
def test_a_signature_that_is_none(
    mount: Path, tmp_path: Path, keys: dict[str, tuple[Signer, Path]], said: dict[str, Any]
) -> None:
    _swap(mount, said)
    with pytest.raises(UntrustedEntryError, match="signature is none"):
        SharedStore(Store(tmp_path / "two"), place_at(f"file://{mount}"), Writers([keys["ours"][1]])).get(KEY)


@pytest.mark.parametrize(
    "said",
    [{"version": 9}, {"sha256": "../../x"}, {"extra": []}, {"threads": None}, {"new": "x" * (2 << 20)}],
)
def test_an_entry_that_says_something_odd_is_none(mount: Path, tmp_path: Path, said: dict[str, Any]) -> None:
    _swap(mount, said)
    assert SharedStore(Store(tmp_path / "two"), place_at(f"file://{mount}")).get(KEY) is None


@pytest.mark.parametrize(
    "text",
    [
        b"[" * 200_000, b'{"version": 1, "extra": ' + b"[" * 200_000, b'"a text"', b"\xff",
        b'{"version": 1, "key": "%s"}' % (b"k" * (2 << 20)),
    ],
)  # fmt: skip
def test_what_a_stranger_leaves_there_is_no_entry(
    mount: Path, tmp_path: Path, keys: dict[str, tuple[Signer, Path]], text: bytes
) -> None:
    (mount / entry_name(KEY)).write_bytes(text)
    for verify in (Writers([keys["ours"][1]]), None):
        store = SharedStore(Store(tmp_path / "two"), place_at(f"file://{mount}"), verify)
        assert store.get(KEY) is None and store.counts.strange == 0
        assert store.get(OTHER) is not None
        shutil.rmtree(tmp_path / "two")


def test_numbers_that_are_none(mount: Path, tmp_path: Path, keys: dict[str, tuple[Signer, Path]]) -> None:
    _swap(mount, {"threads": float("inf")})
    place = place_at(f"file://{mount}")
    assert SharedStore(Store(tmp_path / "two"), place).get(KEY) is None
    with pytest.raises(UntrustedEntryError, match="it is not what its writer signed"):
        SharedStore(Store(tmp_path / "two"), place, Writers([keys["ours"][1]])).get(KEY)
    local = Store(tmp_path / "one")
    local.entry_path(KEY).write_bytes((mount / entry_name(KEY)).read_bytes())
    assert local.get(KEY) is None


def test_two_results_of_one_key_are_told(
    mount: Path, tmp_path: Path, keys: dict[str, tuple[Signer, Path]]
) -> None:
    signer, _ = keys["ours"]
    store = SharedStore(Store(tmp_path / "two"), place_at(f"file://{mount}"), None, EntrySigner(signer))
    put(store)  # the same is no conflict
    with pytest.raises(
        StoreConflictError, match=rf"keep the code object of a job .*{entry_name(KEY)} is there"
    ):
        put(store, data=STRANGE)
    assert Store(tmp_path / "two").get(KEY) is not None


def test_what_a_build_says_of_it(mount: Path, tmp_path: Path, keys: dict[str, tuple[Signer, Path]]) -> None:
    signer, public = keys["ours"]
    url = f"file://{mount}"
    told: list[str] = []
    ways: list[tuple[list[Path], list[Signer]]] = [
        ([], []), ([keys["theirs"][1]], []), ([public], []), ([], [signer])
    ]  # fmt: skip
    for trusted, signing in ways:
        behind = Behind(url, trusted, signing)
        store = behind(Store(tmp_path / f"s{len(told)}"))
        store.get(KEY)
        put(store, "ef" + "2" * 62, STRANGE)
        told.append(behind.describe())
    assert told == [
        f"{url}: 1 results taken (unsigned: believed as far as you know who may write there)",
        f"{url}: 0 results taken, 1 of writers that --trust does not name were left there",
        f"{url}: 1 results taken",
        f"{url}: 1 results taken, 1 signed and written",
    ]
    with pytest.raises(UsageError, match="Name one with --shared"):
        Behind("", [public], [])
    with pytest.raises(SigningError, match="read the public key"):
        Behind(url, [tmp_path / "none"], [])


@pytest.mark.parametrize("url", ["", "/mnt/store", "ftp://host/x", "s4://x", "file:/x"])
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(
        SharedStoreError, match=r"it is no such address\. Write one of file://, memory://, s3://"
    ):
        place_at(url)


def test_a_folder_is_named_from_the_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for url in ("file://relative", "file://", "file://./x"):
        with pytest.raises(SharedStoreError, match=r"Write three slashes: file:///FOLDER"):
            place_at(url)
    assert list(tmp_path.iterdir()) == []


def test_who_only_reads_makes_no_folder(tmp_path: Path, keys: dict[str, tuple[Signer, Path]]) -> None:
    signer, public = keys["ours"]
    url = f"file://{tmp_path}/mount"
    for trusted in ([], [public]):
        with pytest.raises(SharedStoreError, match="there is no such folder, and this build only reads"):
            Behind(url, trusted, [])
    assert not (tmp_path / "mount").exists()
    Behind(url, [], [signer])
    assert (tmp_path / "mount").is_dir()
    Behind(f"file://{tmp_path}/farm", [], [], farm=True)
    assert (tmp_path / "farm").is_dir()


def test_a_place_that_cannot_be_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(SharedStoreError, match="use the shared store"):
        place_at(f"file://{tmp_path}/file/below")
    place = place_at(f"file://{tmp_path}/mount")
    (tmp_path / "mount" / "objects").write_text("no folder")
    with pytest.raises(SharedStoreError, match="write objects/ab/x in the shared store"):
        place.create("objects/ab/x", b"")


@pytest.mark.parametrize(
    "said",
    [
        {"sha256": int("1" * 64)}, {"threads": -1}, {"threads": 1 << 70}, {"threads": "64"}, {"threads": True},
        {"seconds": -1.0}, {"seconds": float("nan")}, {"seconds": float("inf")}, {"peak": -1}, {"peak": 1 << 70},
        {"symbol": 7}, {"job": None}, {"extra": {"lds": 8}},
    ],
)  # fmt: skip
def test_an_entry_with_a_value_that_no_build_writes_is_none(said: dict[str, Any]) -> None:
    from build_tools.compile.shared import _parsed
    from build_tools.compile.store import row_of, text_of

    row = row_of(KEY, DATA, "a job", "k", 64, 1.5, {"lds": "8"}, 9)
    assert _parsed(text_of(row)) is not None
    assert _parsed(text_of({**row, **said})) is None


def test_a_named_pipe_in_the_place_of_an_entry_is_no_entry(tmp_path: Path) -> None:
    place = place_at(f"file://{tmp_path}/mount")
    name = entry_name(KEY)
    path = tmp_path / "mount" / name
    path.parent.mkdir(parents=True)
    os.mkfifo(path)
    assert place.read(name) is None
    local = Store(tmp_path / "store")
    local.entry_path(KEY).parent.mkdir(parents=True)
    os.mkfifo(local.entry_path(KEY))
    assert local.get(KEY) is None
