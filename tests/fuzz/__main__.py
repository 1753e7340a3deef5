"""``nox -s fuzz``: both readers of a bundle under libFuzzer (atheris), with every damage sealed again.

    PYTHONPATH=src:tests python -m fuzz [--minutes 10] [--corpus FOLDER]

A damaged bundle is refused by its hashes alone. Here each mutation is made inside a part (root, operator block, table,
dictionary, frames) and the hashes above it are made right, so that the checks behind them are reached. libFuzzer keeps what
reaches new lines of the Python reader, and damages it further. Both readers must then say the same, word for word; nothing but
a FormatError may come out of the Python reader and nothing but an AiterPrebuiltError out of the native one, which crashes this
process otherwise. What was found lies in the corpus folder as ``crash-*``.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import struct
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import atheris

with atheris.instrument_imports(include=["aiter_prebuilt.contract"]):
    from aiter_prebuilt.contract import bundle as contract

from native.conftest import compile_c, load_extension
from native.fuzz_worker import CORPUS, agree, fresh, native_reads, python_reads
from support.mutate import damaged

ROOT: Final = Path(__file__).resolve().parents[2]
EXTENSION: Final = ROOT / "src/aiter_prebuilt/_native.abi3.so"


class Target:
    """What libFuzzer calls. ``seen``: bundles, and how many of them were refused."""

    def __init__(self, native: Any, folder: Path, seconds: float) -> None:
        self._native, self._path = native, folder / "fuzz.apb"
        self._end = time.monotonic() + seconds
        self._bases = [path.read_bytes() for path in sorted(CORPUS.glob("*.apb"))]
        self._bases += [fresh(f"fuzz {kind}", kind) for kind in ("raw", "mixed", "zstd")]
        self.seen = self.refused = 0

    def mutated(self, data: bytes, size: int, seed: int) -> bytes:
        """Damage sealed again; what no longer opens is damaged no further: another whole one is."""
        rng = random.Random(seed)
        for base in (data, rng.choice(self._bases)):
            try:
                return damaged(rng, base, self._native.zstd_decompress)[:size]
            except (contract.FormatError, ValueError, IndexError, OverflowError, struct.error):
                continue
        return bytes(atheris.Mutate(data, size))

    def __call__(self, data: bytes) -> None:
        """One bundle through both readers.

        Raises:
            AssertionError: they disagree.
        """
        if time.monotonic() > self._end:
            print(json.dumps({"bundles": self.seen, "refused": self.refused, "findings": 0}), flush=True)
            os._exit(0)  # an exception would be a finding
        self._path.write_bytes(data)
        ours = python_reads(data, self._native.zstd_decompress)
        theirs = native_reads(self._native, self._path)
        self.seen += 1
        self.refused += any(ours.values())
        assert agree(ours, theirs, loaded=True), json.dumps({"python": ours, "native": theirs})


def main(arguments: Sequence[str] | None = None) -> None:
    """Run for so many minutes; libFuzzer ends the process with its own status when it finds something."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--corpus", type=Path, default=ROOT / "build" / "fuzz", help="kept between runs")
    options = parser.parse_args(arguments)
    options.corpus.mkdir(parents=True, exist_ok=True)
    for path in CORPUS.glob("*.apb"):
        (options.corpus / path.name).write_bytes(path.read_bytes())
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        stub = compile_c("stub_hip.c", Path(folder) / "libstub_driver.so")
        native = load_extension(EXTENSION)
        native.open_driver("amd", str(stub))
        target = Target(native, Path(folder), options.minutes * 60)
        words = [
            sys.argv[0], str(options.corpus), "-max_len=65536", "-len_control=0", "-timeout=60", "-print_final_stats=1",
            f"-artifact_prefix={options.corpus}/",
        ]  # fmt: skip
        atheris.Setup(words, target, custom_mutator=target.mutated)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
