"""A bounded fuzzer: damaged bundles for both readers, damaged bytecode for both evaluators. Longer runs:

    AITER_PREBUILT_FUZZ_CASES=20000 python -m pytest tests/native/test_fuzz.py

``tests/data/fuzz`` is the corpus: bundles (``PYTHONPATH=src:tests:. python tests/native/test_fuzz.py`` writes them
again after a change of the format) and programs, one in hexadecimal digits per line. What a long run finds goes there.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from aiter_prebuilt.contract import bytecode
from native import fuzz_worker
from native.conftest import Stub
from native.test_expressions import EDGES, outcome

HERE = Path(__file__).resolve().parent
CASES = int(os.environ.get("AITER_PREBUILT_FUZZ_CASES", "300"))
SEEDS = range(3)
PROGRAMS = [bytes.fromhex(line) for line in (fuzz_worker.CORPUS / "programs.txt").read_text().split()]


@pytest.mark.parametrize("seed", SEEDS)
def test_damaged_bundles(extension_path: Path, stub_path: Path, seed: int) -> None:
    pytest.importorskip("zstandard")
    worker = HERE / "fuzz_worker.py"
    command = [sys.executable, str(worker), str(extension_path), str(stub_path), str(seed), str(CASES)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, (
        f"exit {done.returncode} at {lines[-1:]}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    )
    summary = json.loads(lines[-1])
    assert summary["launches"] == 0
    assert summary["refused"] > CASES // 2, (
        "most damage must be seen, or the damage does not reach the readers"
    )


def damaged_program(rng: random.Random) -> bytes:
    """One of the corpus, changed in one to three places, or two of them joined."""
    code = bytearray(rng.choice(PROGRAMS))
    if rng.random() < 0.15:
        code = code[: rng.randrange(len(code) + 1)] + rng.choice(PROGRAMS)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(code))
        kind = rng.randrange(4)
        if kind == 0:
            code[at] = rng.randrange(256)
        elif kind == 1:
            code[at] = rng.choice(sorted(bytecode._FORMS))
        elif kind == 2 and len(code) > 1:
            del code[at]
        else:
            code.insert(at, rng.randrange(256))
    return bytes(code)


@pytest.mark.parametrize("seed", SEEDS)
def test_damaged_programs(native: ModuleType, seed: int) -> None:
    rng = random.Random(seed)
    values = errors = 0
    for _ in range(8 * CASES):
        code, slots = damaged_program(rng), [rng.choice(EDGES) for _ in range(6)]
        got = outcome(native.evaluate, code, slots)
        assert got == outcome(bytecode.evaluate, code, slots), (code.hex(), slots)
        values += got[0] == "value"
        errors += got[0] == "error"
    assert values > CASES // 3 and errors > CASES


@pytest.mark.parametrize("path", sorted(fuzz_worker.CORPUS.glob("*.apb")), ids=lambda path: path.stem)
def test_the_corpus_is_of_this_format(native: ModuleType, stub: Stub, path: Path) -> None:
    assert not any(fuzz_worker.python_reads(path.read_bytes(), native.zstd_decompress).values())
    assert not any(fuzz_worker.native_reads(native, path).values())


if __name__ == "__main__":
    for kind in ("raw", "zstd", "mixed"):
        (fuzz_worker.CORPUS / f"{kind}.apb").write_bytes(fuzz_worker.fresh("corpus", kind))
