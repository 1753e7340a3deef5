"""Makes near-copies small: kernels of one source differ in little, so some of them, one after the other, are the
dictionary that all the others are stored against; where those are too many for one dictionary there are several.

A dictionary is one zstd frame, in which its members shrink against each other; every member is stored against it too, and
then costs the twenty bytes of a single copy. To load a kernel its dictionary is decoded once, then the kernel alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Final

import zstandard

from build_tools.files.cores import threads
from build_tools.pack.writer import Frame, Packed

#: btultra2; the levels above differ by a thousandth at these sizes.
LEVEL: Final = 19
#: A fast level is enough to tell who resembles whom.
TRIAL_LEVEL: Final = 3
#: Bytes of a dictionary: decoded before the first kernel of its group can be, at two to four GB/s, and kept in memory. Large
#: members get more room, because a dictionary of one or two members serves nobody.
DICTIONARY: Final = 512 * 1024
MEMBERS: Final = 4
LARGEST_DICTIONARY: Final = 1024 * 1024
#: Bytes of one group that may be in its dictionaries; each takes a trial against every member.
LARGEST_GROUP: Final = 8 * 1024 * 1024
#: A member that the dictionary brings down to this many bytes would not help another by joining it.
GOOD_ENOUGH: Final = 256
#: What is this many times smaller than a trial is smaller than level 19 makes a kernel on its own, too (1.3 times at most, of all
#: kernels that are built), which then need not be tried.
CLEARLY: Final = 2


def compress(blobs: Sequence[bytes], groups: Sequence[str], pool: Executor | None = None) -> Packed:
    """One frame per blob, in order; ``groups`` says which are likely to be alike. ``pool``: threads, which bundles may
    share; zstd runs without the interpreter's lock.
    """
    if pool is None:
        with threads() as own:
            return compress(blobs, groups, own)
    alike = [[index for index, name in enumerate(groups) if name == group] for group in sorted(set(groups))]
    frames: dict[int, Frame] = {}
    dictionaries: list[Frame] = []
    found = pool.map(lambda members: _clusters(members, blobs), alike)
    clusters = [cluster for group in found for cluster in group]
    for shared, packed in pool.map(lambda cluster: _packed(cluster, blobs), clusters):
        if shared is None:
            frames |= packed
            continue
        number = len(dictionaries)
        dictionaries.append(shared)
        frames |= {
            index: frame if frame.dictionary is None else replace(frame, dictionary=number)
            for index, frame in packed.items()
        }
    return Packed(tuple(frames[index] for index in range(len(blobs))), tuple(dictionaries))


def _packed(cluster: _Cluster, blobs: Sequence[bytes]) -> tuple[Frame | None, dict[int, Frame]]:
    """Compress a cluster: its dictionary's frame, and its members'.

    The dictionary is None where it would not pay.
    """

    @cache
    def alone(index: int) -> Frame:
        return _frame(blobs[index])

    if not cluster.dictionary:
        return None, {index: alone(index) for index in cluster.members}
    content = b"".join(blobs[index] for index in cluster.dictionary)
    shared = _frame(content)
    against = zip(
        cluster.members, _against(content, [blobs[index] for index in cluster.members]), strict=True
    )
    best = {
        index: frame if _size(frame) * CLEARLY < cluster.alone[index] else min(alone(index), frame, key=_size)
        for index, frame in against
    }
    total = sum(map(_size, best.values())) + _size(shared)
    if total * CLEARLY < sum(cluster.alone[index] for index in cluster.members):
        return shared, best
    each = {index: alone(index) for index in cluster.members}
    return (shared, best) if total < sum(map(_size, each.values())) else (None, each)


def regions(blobs: list[bytes], pool: Executor | None = None) -> Packed:
    """Operator blocks, or the table, which is alone: they resemble each other and nothing else."""
    return compress(blobs, [""] * len(blobs), pool)


def _size(frame: Frame) -> int:
    return len(frame.data)


@dataclass(slots=True)
class _Cluster:
    """Positions of blobs: those whose bytes are the dictionary, and all that are stored against it. ``alone``: bytes of a blob
    on its own, at the trial's level.
    """

    dictionary: list[int] = field(default_factory=list)
    members: list[int] = field(default_factory=list)
    alone: Mapping[int, int] = field(default_factory=dict)


def _clusters(members: list[int], blobs: Sequence[bytes]) -> list[_Cluster]:
    """Return the members of one group, by the dictionary that serves them.

    What serves nobody else may be in one too.

    References are chosen first: again and again the member that those chosen so far serve worst. Each knows which earlier
    one served it best, so they form a tree; walked in depth, neighbours are alike, and it is cut into dictionaries.
    """
    if len(members) < 2:
        return [_Cluster([], members)]
    alone = zstandard.ZstdCompressor(level=TRIAL_LEVEL)
    size = {index: len(alone.compress(blobs[index])) for index in members}
    trials = dict(size)
    served = dict.fromkeys(members, -1)
    children: dict[int, list[int]] = {-1: []}
    room = LARGEST_GROUP
    while size:
        worst = max(size, key=lambda index: (size[index], -index))
        if size.pop(worst) < GOOD_ENOUGH or len(blobs[worst]) > room:
            break
        room -= len(blobs[worst])
        children[served[worst]].append(worst)
        children[worst] = []
        dictionary = _raw(blobs[worst])
        dictionary.precompute_compress(level=TRIAL_LEVEL)
        against = zstandard.ZstdCompressor(level=TRIAL_LEVEL, dict_data=dictionary)
        for index in size:
            trial = len(against.compress(blobs[index]))
            if trial < size[index]:
                size[index], served[index] = trial, worst
    clusters = _cut(_walked(children), members, served, blobs)
    return [replace(cluster, alone=trials) for cluster in clusters]


def _walked(children: dict[int, list[int]]) -> list[int]:
    """Yield the references in depth-first order."""
    order: list[int] = []
    waiting = children[-1][::-1]
    while waiting:
        reference = waiting.pop()
        order.append(reference)
        waiting += children[reference][::-1]
    return order


def _cut(
    order: list[int], members: list[int], served: dict[int, int], blobs: Sequence[bytes]
) -> list[_Cluster]:
    """Consecutive references to dictionaries of about equal size, members to the dictionary of what serves them."""
    total = sum(len(blobs[index]) for index in order)
    largest = max((len(blobs[index]) for index in order), default=0)
    room = min(max(DICTIONARY, MEMBERS * largest), LARGEST_DICTIONARY)
    count = -(-total // room)
    clusters: list[_Cluster] = []
    cluster_of: dict[int, _Cluster] = {}
    start = end = before = 0
    for index in order:
        if before >= end or before - start + len(blobs[index]) > room:
            clusters.append(_Cluster())
            start, end = before, before + total // count
        clusters[-1].dictionary.append(index)
        cluster_of[index] = clusters[-1]
        before += len(blobs[index])
    lonely = _Cluster()
    for index in members:
        cluster_of.get(index, cluster_of.get(served[index], lonely)).members.append(index)
    return [*clusters, *([lonely] if lonely.members else [])]


def _frame(blob: bytes) -> Frame:
    return _made(blob, zstandard.ZstdCompressor(compression_params=_parameters(len(blob), 0)))


def _against(content: bytes, blobs: Sequence[bytes]) -> list[Frame]:
    """Compress each blob against ``content``.

    Its tables are built once: for each blob again it would be most of the work. ``Frame.dictionary`` is 0.
    """
    dictionary = _raw(content)
    largest = max(map(len, blobs))
    dictionary.precompute_compress(compression_params=_parameters(largest, len(content)))
    made = []
    for blob in blobs:
        parameters = _parameters(len(blob), len(content))
        made.append(
            _made(blob, zstandard.ZstdCompressor(dict_data=dictionary, compression_params=parameters), 0)
        )
    return made


def _made(blob: bytes, compressor: zstandard.ZstdCompressor, number: int | None = None) -> Frame:
    packed = compressor.compress(blob)
    digest = hashlib.sha256(blob).digest()
    if len(packed) >= len(blob):
        return Frame(blob, len(blob), digest, "raw")
    return Frame(packed, len(blob), digest, "zstd", number)


def _parameters(size: int, dictionary: int) -> zstandard.ZstdCompressionParameters:
    """Choose a window that holds the dictionary and the blob.

    A match may lie anywhere in them.
    """
    return zstandard.ZstdCompressionParameters.from_level(
        LEVEL, source_size=size, dict_size=dictionary, write_checksum=False, write_content_size=True,
        window_log=max(10, min(27, (size + dictionary - 1).bit_length())),
    )  # fmt: skip


def _raw(dictionary: bytes) -> zstandard.ZstdCompressionDict:
    return zstandard.ZstdCompressionDict(dictionary, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
