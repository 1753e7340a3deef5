"""How small a bundle of near-copies is, and how fast one kernel comes out of it: one command, one table.

    python benchmarks/bundle_size.py [--json] [--target gfx942] [--bundle FILE]

The set: more than 500 code objects from one source of ours, ``csrc/kernels/hip/quant.hip``, over its own constants, built by
the whole pipeline in a scratch checkout (``build/bench/size``: the first run compiles for some minutes, the next takes seconds).
``--bundle`` measures a bundle that is there instead, without bars. Needs the native extension; no GPU. Exit status: 0 all bars
met, 1 one is missed.
"""

from __future__ import annotations

import argparse
import functools
import platform
import re
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from rows import Row, report

from aiter_prebuilt.contract.bundle import Bundle
from aiter_prebuilt.contract.records import ENCODINGS, NONE32
from aiter_prebuilt.devices import native
from build_tools.objects.unpack import decompress
from build_tools.pipeline.build import build
from build_tools.pipeline.settings import Settings

SCRATCH: Final = ROOT / "build" / "bench" / "size"
FAMILY: Final = "quant"
KERNEL: Final = "dynamic_per_token_scaled_quant"
#: The constants of quant.hip: threads of a block (up to 1024, whole waves), and registers for the row (0: it is read twice).
BLOCKS: Final = range(64, 1025, 64)
ITERATIONS: Final = range(5)
LEAST: Final = 500
#: Sampled code objects: decoding each of some thousands says no more.
SAMPLE: Final = 60
REPEATS: Final = 9


def checkout() -> Path:
    """A scratch checkout: our sources, our tables, and one manifest with one kernel over all its constants."""
    folder, manifests = SCRATCH / "checkout", ROOT / "manifests"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "manifests" / FAMILY).mkdir(parents=True)
    shutil.copytree(ROOT / "csrc" / "kernels" / "hip", folder / "csrc" / "kernels" / "hip")
    for path in manifests.iterdir():
        if path.is_file():
            shutil.copy(path, folder / "manifests")
    for path in (manifests / FAMILY).glob("*.py"):
        shutil.copy(path, folder / "manifests" / FAMILY)
    for name, change in (("operators.toml", widened), ("cases.toml", of_the_kernel)):
        text = (manifests / FAMILY / name).read_text(encoding="utf-8")
        (folder / "manifests" / FAMILY / name).write_text(change(text), encoding="utf-8")
    return folder


def of_the_kernel(text: str) -> str:
    """What stands before the first table, and the tables of the kernel and of the operator that has its name alone."""
    head, *tables = re.split(r"^(?=\[)", text, flags=re.MULTILINE)
    named = re.compile(rf"\[+((kernels|operators)\.)?{KERNEL}[.\]]")
    return head + "".join(table for table in tables if named.match(table))


def widened(text: str) -> str:
    """The family's manifest cut down to the one operator, with every block and every number of iterations as variants."""
    rows = ",\n".join(
        f'  {{ name = "b{block}i{count}", BLOCK = {block}, ITERS = {count} }}'
        for block in BLOCKS
        for count in ITERATIONS
    )
    kept = re.sub(r"^except = .*\n", "", of_the_kernel(text), flags=re.MULTILINE)
    kept, replaced = re.subn(
        r"^row = \[.*?^\]\n", f"row = [\n{rows},\n]\n", kept, flags=re.MULTILINE | re.DOTALL
    )
    if replaced != 1 or kept.count("\n[operators.") != 1:
        raise SystemExit(f"manifests/{FAMILY} no longer has the kernel {KERNEL} that this benchmark widens")
    return kept


def built(target: str) -> Path:
    """The bundle of the wide manifest."""
    settings = Settings(
        root=checkout(), store=SCRATCH / "store", bundles=SCRATCH / "bundles", targets=(target,), profiles=("ck-free",)
    )  # fmt: skip
    settings.bundles.mkdir(parents=True, exist_ok=True)
    return build(settings).bundles[0].path


def sizes(bundle: Bundle, total: int) -> tuple[int, dict[str, int]]:
    """(bytes of the code objects before compression, bytes in the file by kind of part)."""
    index = {f"dictionary {ref.stored.dictionary}" for ref in bundle.root.operators}
    kinds: dict[str, int] = {}
    for name, _, size in bundle.parts():
        kind = "blocks' dictionary" if name in index else name.split(" ")[0]
        kinds[kind] = kinds.get(kind, 0) + size
    if sum(kinds.values()) != total:
        raise SystemExit("the parts do not fill the file")
    return sum(record.raw_size for _, record in bundle.table), kinds


def timed(call: Callable[[], object]) -> float:
    """Median microseconds."""
    seconds = []
    for _ in range(REPEATS):
        before = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - before)
    return median(seconds) * 1e6


def decode_times(bundle: Bundle, data: bytes) -> tuple[list[float], list[float]]:
    """Microseconds of the extension's decoder for (each dictionary, each sampled code object with its dictionary at hand)."""
    decode = native.module().zstd_decompress
    contents: list[bytes] = []
    shared: list[float] = []
    for stored in bundle.root.dictionaries:
        frame = data[stored.offset : stored.offset + stored.stored_size]
        zstd = ENCODINGS[stored.encoding] == "zstd"
        contents.append(decode(frame, stored.raw_size, None) if zstd else frame)
        if zstd:
            shared.append(timed(functools.partial(decode, frame, stored.raw_size, None)))
    kernels: list[float] = []
    for offset, record in bundle.table[:: max(1, len(bundle.table) // SAMPLE)]:
        if ENCODINGS[record.encoding] != "zstd":
            continue
        content = None if record.dictionary == NONE32 else contents[record.dictionary]
        frame = data[offset : offset + record.stored_size]
        kernels.append(timed(functools.partial(decode, frame, record.raw_size, content)))
    return shared, kernels


def measure(path: Path, bars: bool) -> list[Row]:
    """All rows of one bundle."""
    data = path.read_bytes()
    bundle = Bundle(data, decompress)
    raw, kinds = sizes(bundle, len(data))
    index = sum(kinds.get(kind, 0) for kind in ("header", "root", "block", "table", "blocks' dictionary"))
    shared, kernels = decode_times(bundle, data)
    count = bundle.root.code_object_count
    rows = [
        Row("size", "code objects", count, "", note="all different" if bars else ""),
        Row("size", "raw code objects", raw / 1024, "KiB"),
        Row("size", "bundle", len(data) / 1024, "KiB", note=f"1/{raw / len(data):.1f} of raw"),
        Row("size", "bundle / raw", 100 * len(data) / raw, "%", 5 if bars else None),
        Row("size", "  of it the index: header, root, blocks, table", 100 * index / len(data), "%"),
        Row("size", "  of it dictionaries", 100 * kinds.get("dictionary", 0) / len(data), "%"),
        Row("size", "  of it frames", 100 * kinds.get("frame", 0) / len(data), "%"),
        Row("size", "bytes of the index per entry", index / bundle.root.entry_count, "B"),
        Row("size", "bytes of a frame, mean", kinds.get("frame", 0) / count, "B"),
        Row("decode", "a dictionary, the slowest; once per process", max(shared, default=0.0), "us"),
        Row(
            "decode",
            "one kernel, its dictionary at hand, median",
            median(kernels),
            "us",
            100 if bars else None,
        ),
        Row("decode", "one kernel, its dictionary at hand, the slowest", max(kernels), "us"),
    ]
    if bars and count < LEAST:
        raise SystemExit(f"{count} code objects, the bar is for at least {LEAST}")
    return rows


def main() -> int:
    """Build, pack, measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--target", default="gfx942")
    parser.add_argument("--bundle", type=Path, help="measure this bundle instead, without bars")
    options = parser.parse_args()
    path = options.bundle or built(options.target)
    facts = {"bundle": path.name, "processor": platform.processor() or platform.machine()}
    return report(measure(path, options.bundle is None), options.json, facts)


if __name__ == "__main__":
    sys.exit(main())
