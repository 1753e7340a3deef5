"""Cases of the manifests on the embedded device: calls from the pipeline, lines from the runtime."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from aiter_prebuilt.contract.bundle import Bundle
from aiter_prebuilt.contract.calls import pack, read
from aiter_prebuilt.contract.version import CALLS_SUFFIX
from build_tools.judge import findings
from build_tools.manifest.model import SAMPLE
from build_tools.objects.entries import entries_of
from build_tools.objects.unpack import decompress, open_bundle
from build_tools.pack import notes
from support import repository

ROOT = Path(__file__).resolve().parents[2]
TARGETS = ("gfx942", "gfx950")
#: (target, profile): ck-full runs the operators of its own bundle, whose kernels come first there.
RUNS = [(target, profile) for target in TARGETS for profile in ("ck-free", "ck-full")]
#: Another one in each run of the tests; receipts are made with 1.
SEED = int(os.environ.get("AITER_PREBUILT_TEST_SEED") or random.randrange(2**31))
CHECKS = "all"
#: Calls of one operator in a run of the tests, by lot of the seed. All of them were executed for the receipts, which are
#: compared by hash; ``nox -s prove -- --all`` executes all again.
MOST = 5


def _python(environment: dict[str, str] | None = None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AITER_PREBUILT")}
    return kept | {"PYTHONPATH": os.pathsep.join(map(str, (ROOT / "src", ROOT)))} | (environment or {})


@cache
def calls(target: str, seed: int = SEED, operator: str | None = None) -> Path:
    """A stream with calls of a target, at most ``MOST`` of each operator, or all of one. The processes of a run share it: the
    one that comes first makes it, which takes most of a minute.
    """
    path = Path(os.environ["AITER_PREBUILT_TEST_SHARED"]) / f"{target}-{seed}-{operator}.calls"
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.is_file():
            made = path.with_suffix(".part")
            which = ["--operator", operator] if operator else ["--most", str(MOST)]
            words = ["cases", "--target", target, "--seed", str(seed), *which, "--output", str(made)]
            done = subprocess.run(
                [sys.executable, "-m", "build_tools", *words], env=_python(), capture_output=True, text=True
            )
            assert done.returncode == 0, done.stderr[-4000:]
            made.rename(path)
    return path


def some(path: Path, operators: Iterable[str]) -> Path:
    """A stream with those calls of another one."""
    wanted = frozenset(operators)
    named = hashlib.sha256(" ".join(sorted(wanted)).encode()).hexdigest()[:16]
    chosen = path.with_name(f"{path.stem}-{named}-{os.getpid()}.calls")
    with path.open("rb") as source, chosen.open("wb") as target:
        for call in read(source):
            if call.operator in wanted:
                target.write(pack(call))
    return chosen


def stream(bundles: Sequence[Path], target: str, profile: str, seed: int = SEED) -> Path:
    """The calls of one run."""
    everything = calls(target, seed)
    own = next(path for path in bundles if path.stem.endswith(profile))
    return some(everything, Bundle(own.read_bytes(), decompress).names)


def golden(bundle: Path) -> tuple[Path, int]:
    """The golden calls that a bundle's wheel brings, unpacked where anybody may read them, and of how many operators they are."""
    with bundle.with_suffix(CALLS_SUFFIX).open("rb") as source:
        found = list(read(source, decompress))
    path = Path(os.environ["AITER_PREBUILT_TEST_SHARED"]) / f"{bundle.stem}-golden-{os.getpid()}.calls"
    path.write_bytes(b"".join(map(pack, found)))
    return path, len({call.operator for call in found})


@cache
def in_part(bundles: tuple[Path, ...]) -> frozenset[str]:
    """Operators of which these bundles have one instance of Composable Kernel's alone (``--ck sample``): it need not serve each
    call.
    """
    if all(notes.read(path).get("ck") != SAMPLE for path in bundles):
        return frozenset()
    return frozenset(operator for operator, _ in repository.manifest().of_sets())


def labels(path: Path) -> list[tuple[str, str]]:
    """List the operators and labels of a stream's calls."""
    with path.open("rb") as source:
        return [(call.operator, call.label) for call in read(source, decompress)]


@cache
def _known(bundles: tuple[Path, ...]) -> tuple[str, ...]:
    """List the findings that proofs of these bundles pass over."""
    entries = (entry for path in bundles for entry in entries_of(open_bundle(path)))
    return findings.words(findings.read(ROOT), ((entry.symbol, entry.sha256) for entry in entries))


def surroundings(library: Path, bundles: Sequence[Path], target: str) -> dict[str, str]:
    """The environment of a child whose HIP is one embedded device with every check on, and NaN in workspaces."""
    return _python(
        {
            "AITER_PREBUILT_HIP": str(library),
            "AITER_PREBUILT_EMULATOR": target,
            "AITER_PREBUILT_EMULATOR_CHECKS": CHECKS,
            "AITER_PREBUILT_EMULATOR_FILL": "0xff",
            "AITER_PREBUILT_EMULATOR_KNOWN": " ".join(_known(tuple(bundles))),
            "AITER_PREBUILT_BUNDLES": os.pathsep.join(map(str, bundles)),
        }
    )


def run(
    library: Path, bundles: Sequence[Path], target: str, profile: str, seed: int = SEED
) -> tuple[list[dict[str, Any]], str]:
    """One run: (a line per call, what went to standard error)."""
    command = [sys.executable, "-m", "aiter_prebuilt.execute", str(stream(bundles, target, profile, seed))]
    environment = surroundings(library, bundles, target)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1500)
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr
