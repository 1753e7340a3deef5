"""Which blobs become dictionaries, and which are stored against them: sizes are small here, so that each bound is met exactly."""

from __future__ import annotations

import random

import pytest
import zstandard

from build_tools.objects.unpack import decompress
from build_tools.pack import compress
from build_tools.pack.writer import Frame, Packed


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("DICTIONARY", 100), ("MEMBERS", 4), ("LARGEST_DICTIONARY", 200)):
        monkeypatch.setattr(compress, name, value)


def cut(*sizes: int) -> list[int]:
    """How many blobs of these sizes each dictionary gets."""
    order = list(range(len(sizes)))
    clusters = compress._cut(order, order, dict.fromkeys(order, -1), [bytes(size) for size in sizes])
    for cluster in clusters:
        assert cluster.members == cluster.dictionary, "each is stored against the dictionary that it is in"
    assert [place for cluster in clusters for place in cluster.dictionary] == order
    return [len(cluster.dictionary) for cluster in clusters]


@pytest.mark.parametrize(
    ("sizes", "counts"),
    [
        ([10] * 6, [6]), ([10] * 10, [10]), ([10] * 11, [6, 5]), ([10] * 30, [10, 10, 10]), ([10] * 25, [9, 9, 7]),
        ([25] * 4, [4]), ([25] * 5, [3, 2]), ([40] * 4, [4]), ([40] * 5, [3, 2]), ([60] * 3, [3]), ([60] * 4, [2, 2]),
        ([200], [1]), ([201], [1]), ([150, 150], [1, 1]), ([150, 50, 150], [2, 1]), ([120, 90, 90], [1, 2]),
        ([120, 100, 100], [1, 2]), ([120, 100, 101], [1, 1, 1]), ([1], [1]), ([], []),
    ],
)  # fmt: skip
def test_dictionaries_are_of_about_one_size(sizes: list[int], counts: list[int]) -> None:
    """At most 100 bytes, or four of the largest member, or 200."""
    assert cut(*sizes) == counts


def test_members_go_with_what_serves_them() -> None:
    blobs = [bytes(60)] * 8
    served = {0: -1, 1: 0, 2: 1, 3: 2, 4: 0, 5: 3, 6: -1, 7: -1}
    first, second, lonely = compress._cut([0, 1, 2, 3], list(range(8)), served, blobs)
    assert (first.dictionary, first.members) == ([0, 1], [0, 1, 4])
    assert (second.dictionary, second.members) == ([2, 3], [2, 3, 5])
    assert (lonely.dictionary, lonely.members) == ([], [6, 7])
    (alone,) = compress._cut([], [5, 6], {5: -1, 6: -1}, blobs)
    assert (alone.dictionary, alone.members) == ([], [5, 6])


def test_references_are_walked_in_depth() -> None:
    children = {-1: [4, 0], 4: [1, 2], 0: [3], 1: [5], 2: [], 3: [], 5: []}
    assert compress._walked(children) == [4, 1, 5, 2, 0, 3]
    assert compress._walked({-1: []}) == []


def trial(blob: bytes) -> int:
    return len(zstandard.ZstdCompressor(level=compress.TRIAL_LEVEL).compress(blob))


def chosen(*blobs: bytes) -> list[int]:
    """The members that are in dictionaries."""
    clusters = compress._clusters(list(range(len(blobs))), blobs)
    assert sorted(place for cluster in clusters for place in cluster.members) == list(range(len(blobs)))
    return [place for cluster in clusters for place in cluster.dictionary]


def blob(seed: int, size: int) -> bytes:
    return random.Random(seed).randbytes(size)


def test_what_is_small_helps_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound is the compressed size: with it a member joins, one byte below it does not."""
    blobs = blob(1, 40), blob(2, 60)
    sizes = [trial(each) for each in blobs]
    assert sizes[0] < sizes[1]
    for bound, expected in (
        (sizes[0], [1, 0]),
        (sizes[0] + 1, [1]),
        (sizes[1], [1]),
        (sizes[1] + 1, []),
    ):
        monkeypatch.setattr(compress, "GOOD_ENOUGH", bound)
        assert chosen(*blobs) == expected


def test_dictionaries_of_a_group_have_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compress, "GOOD_ENOUGH", 1)
    blobs = blob(1, 40), blob(2, 60), blob(3, 50)
    for room, expected in ((150, [1, 2, 0]), (149, [1, 2]), (110, [1, 2]), (109, [1]), (60, [1]), (59, [])):
        monkeypatch.setattr(compress, "LARGEST_GROUP", room)
        assert chosen(*blobs) == expected


def test_the_first_of_equals_is_chosen_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compress, "GOOD_ENOUGH", 30)
    assert chosen(blob(1, 50), blob(2, 50), blob(3, 50)) == [0, 1, 2]
    assert chosen(*[blob(1, 50)] * 3) == [0], "the others cost nothing beside it"


def test_a_member_goes_to_what_serves_it_best(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two kinds: each is stored against its own, though the other was chosen before."""
    monkeypatch.setattr(compress, "GOOD_ENOUGH", 40)
    one, other = blob(1, 90), blob(2, 80)
    blobs = [one, other, one + b"1", other + b"2", one[:-1], blob(3, 10)]
    monkeypatch.setattr(compress, "LARGEST_DICTIONARY", 100)
    clusters = compress._clusters(list(range(6)), blobs)
    assert [(cluster.dictionary, cluster.members) for cluster in clusters] == [
        ([2], [0, 2, 4]),
        ([3], [1, 3]),
        ([], [5]),
    ]


@pytest.mark.parametrize("members", [[], [3]])
def test_one_member_has_no_dictionary(members: list[int]) -> None:
    (cluster,) = compress._clusters(members, [blob(place, 50) for place in range(4)])
    assert (cluster.dictionary, cluster.members) == ([], members)


def test_a_dictionary_is_worth_its_own_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that saves less than it takes is left out."""
    monkeypatch.setattr(compress, "LARGEST_DICTIONARY", 3000)
    shared = blob(9, 900)
    for count, expected in ((4, 0), (900, 1)):
        blobs = [shared[:count] + blob(place, 300) for place in range(3)]
        packed = compress.compress(blobs, ["a"] * 3)
        assert len(packed.dictionaries) == expected


def test_a_frame_is_raw_where_compressing_gains_nothing() -> None:
    for data in (b"", b"x", blob(1, 200)):
        frame = compress._frame(data)
        assert (frame.data, frame.raw_size, frame.encoding, frame.dictionary) == (
            data,
            len(data),
            "raw",
            None,
        )
    (frame,) = compress._against(b"a" * 500, [b"a" * 1000])
    assert (frame.raw_size, frame.encoding, frame.dictionary) == (1000, "zstd", 0)
    assert decompress(frame.data, 1000, b"a" * 500) == b"a" * 1000
    sizes = [(size, compress._frame(b"a" * size)) for size in range(40)]
    for size, frame in sizes:
        packed = _zstd(b"a" * size, b"")
        assert frame.encoding == ("zstd" if len(packed) < size else "raw")
    assert any(len(_zstd(b"a" * size, b"")) == size for size, _ in sizes), "the bound is met"


def _zstd(data: bytes, dictionary: bytes, largest: int = 0) -> bytes:
    """As the frames are made: ``largest`` of the blobs that are stored against the dictionary."""
    shared = zstandard.ZstdCompressionDict(dictionary, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    if dictionary:
        largest = max(largest, len(data))
        shared.precompute_compress(compression_params=compress._parameters(largest, len(dictionary)))
    parameters = compress._parameters(len(data), len(dictionary))
    return zstandard.ZstdCompressor(dict_data=shared, compression_params=parameters).compress(data)


def test_one_reading_of_a_dictionary_serves_blobs_of_all_sizes() -> None:
    """The bytes of each are those that it would have alone against the dictionary, or nearly."""
    head = blob(1, 60_000)
    blobs = [head[:40], head[100:9_000] + blob(2, 50), head * 2, blob(3, 30), head[50_000:] + head[:20_000]]
    for data, frame in zip(blobs, compress._against(head, blobs), strict=True):
        assert frame.raw_size == len(data)
        if frame.encoding == "zstd":
            assert decompress(frame.data, len(data), head) == data
            assert len(frame.data) <= len(_zstd(data, head)) + 16
        else:
            assert frame.data == data and data not in head


@pytest.mark.parametrize(
    ("dictionary", "size"), [(0, 2000), (500, 100), (512, 512), (3000, 3000), (100_000, 200)]
)
def test_a_window_holds_the_dictionary_and_the_blob(dictionary: int, size: int) -> None:
    """So that the first byte of the dictionary can be named from the last of the blob; and it is no larger than needed."""
    head, content = blob(4, dictionary), blob(4, dictionary)[:size] or blob(5, size)
    content = content + blob(6, size - len(content))
    frame = _zstd(content, head)
    assert decompress(frame, size, head) == content
    found = zstandard.get_frame_parameters(frame)
    assert (found.content_size, found.has_checksum) == (size, False)
    assert found.window_size <= max(1024, 2 * (dictionary + size))
    if dictionary >= size > 0:
        assert len(frame) < 40, "all of the blob is in the dictionary"


def test_regions_are_alike_or_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compress, "LARGEST_DICTIONARY", 3000)
    shared = blob(1, 300)
    packed = compress.regions([shared + b"1", shared + b"2", shared + b"3"])
    assert (len(packed.frames), len(packed.dictionaries)) == (3, 1)
    assert [frame.dictionary for frame in packed.frames] == [0, 0, 0]
    assert compress.regions([b"abc"]) == Packed(
        (Frame(b"abc", 3, compress._frame(b"abc").sha256, "raw"),), ()
    )
