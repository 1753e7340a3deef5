"""``nox -s mutate``: would the tests notice a wrong program? One small change at a time, and the tests of that line.

    PYTHONPATH=tests python -m mutate [--sample 20] [--seed 1] [--folder build_tools/plan] [--all] [--map FILE] [--json FILE]

Python: the operators of cosmic-ray on lines that a test executes (coverage.py says which), the quickest tests first. A line
that no test executes is a survivor. C++ (``csrc/runtime``): the table of ``cpp.py``, compiled, and the suites that
``suites.toml`` has for the file; what does not compile is no mutant. Everything happens in copies, one for each of ``--jobs``.
Tests that fail with nothing changed are named and left out.
Survivors that change nothing, or nothing that a test should see, stand in ``equivalent.toml`` with the reason; they count
neither way. Exit status 1 below ``--bar`` in any folder. ``--map`` keeps which tests execute which line, for a session on the
same sources.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from mutate import covered, cpp, python
from mutate.mutant import Mutant, Verdict

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parents[1]

#: Folders and the files of each that are tried.
FOLDERS: Final = {
    "build_tools/manifest": "*.py", "build_tools/cases": "*.py", "build_tools/plan": "*.py", "build_tools/compile": "*.py",
    "build_tools/objects": "*.py", "build_tools/judge": "*.py", "build_tools/pack": "*.py", "build_tools/prove": "*.py",
    "build_tools/generate": "*.py", "build_tools/report": "*.py", "src/aiter_prebuilt/contract": "*.py",
    "src/aiter_prebuilt/execute": "*.py", "src/aiter_prebuilt": "*.py", "csrc/runtime": "*.cpp",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Score:
    """One folder. ``equivalent``: survivors with a reason."""

    folder: str
    killed: int
    survived: int
    equivalent: int

    @property
    def share(self) -> float:
        """Killed of those that count."""
        return self.killed / max(1, self.killed + self.survived)


def copied(folder: Path) -> Path:
    """The checkout as it is, built parts included, in ``folder``."""
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, check=True, text=True,
    ).stdout.split("\0")  # fmt: skip
    built = [path.relative_to(ROOT).as_posix() for path in (ROOT / "src").rglob("*.so*")]
    for name in filter(None, (*names, *built)):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    for name in ("build/bundles", "build/store", ".git"):  # some tests ask git which files there are
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name)
        elif (ROOT / name).is_file():
            shutil.copy2(ROOT / name, folder / name)
    return folder


def drawn(folder: str, count: int | None, seed: int) -> list[Mutant]:
    """Mutants of a folder, ``count`` of them by lot, in the order of files and lines."""
    files = sorted((ROOT / folder).glob(FOLDERS[folder]))
    maker = cpp.mutants if folder.startswith("csrc/") else python.mutants
    found = [
        mutant for path in files for mutant in maker(path.relative_to(ROOT).as_posix(), path.read_text())
    ]
    if count is not None and count < len(found):
        found = random.Random(f"{seed} {folder}").sample(found, count)
    return sorted(found, key=lambda mutant: (mutant.file, mutant.line, mutant.operator))


def reasons() -> dict[tuple[str, str, str], str]:
    """(file, operator, line's text) -> why a survivor does not count."""
    table = tomllib.loads((HERE / "equivalent.toml").read_text(encoding="utf-8"))
    return {(row["file"], row["operator"], row["line"]): row["reason"] for row in table.get("mutant", [])}


class Bench:
    """Copies of the checkout, each changed by one mutant at a time."""

    def __init__(self, place: Path, jobs: int) -> None:
        self._copies = [copied(place / str(number)) for number in range(jobs)]
        self._natives = {copy: cpp.Native(copy) for copy in self._copies}
        self._free: queue.SimpleQueue[Path] = queue.SimpleQueue()
        for copy in self._copies:
            self._free.put(copy)

    def measure(self, *, lines: bool) -> covered.Map:
        """Which tests execute which line, and which fail with nothing changed."""
        return covered.measure(self._copies[0], len(self._copies), lines=lines)

    def prepare_native(self) -> None:
        """Compile each copy once."""
        with ThreadPoolExecutor(len(self._copies)) as pool:
            list(pool.map(cpp.Native.prepare, self._natives.values()))

    def verdicts(self, mutants: Sequence[Mutant], map_: covered.Map) -> Iterator[Verdict]:
        """Each mutant's fate, in the order of ``mutants``."""
        with ThreadPoolExecutor(len(self._copies)) as pool:
            yield from pool.map(lambda mutant: self._verdict(mutant, map_), mutants)

    def _verdict(self, mutant: Mutant, map_: covered.Map) -> Verdict:
        copy = self._free.get()
        path = copy / mutant.file
        whole = path.read_text(encoding="utf-8")
        path.write_text(mutant.text, encoding="utf-8")
        try:
            if mutant.file.endswith(".cpp"):
                return self._natives[copy].verdict(mutant, map_.failing)
            return python.verdict(mutant, copy, map_)
        finally:
            path.write_text(whole, encoding="utf-8")
            self._free.put(copy)


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sample", type=int, default=20, metavar="N", help="mutants of each folder, by lot")
    parser.add_argument("--all", action="store_true", help="every mutant: days")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--folder", action="append", choices=sorted(FOLDERS), help="may be given more than once"
    )
    parser.add_argument("--bar", type=float, default=0.9, help="share to be killed in each folder")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="mutants tried at a time")
    parser.add_argument("--map", type=Path, help="read what tests execute from here, or write it")
    parser.add_argument("--json", type=Path)
    return parser.parse_args(arguments)


def lines_of_tests(bench: Bench, folders: Sequence[str], kept: Path | None) -> covered.Map:
    """The map, measured unless ``kept`` has it; no lines when no Python is tried."""
    if kept is not None and kept.is_file():
        return covered.Map.parsed(kept.read_text(encoding="utf-8"))
    found = bench.measure(lines=not all(name.startswith("csrc/") for name in folders))
    if kept is not None:
        kept.write_text(found.text(), encoding="utf-8")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Try, print each survivor and a line for each folder."""
    options = parsed(arguments)
    folders = options.folder or list(FOLDERS)
    known = reasons()
    scores: list[Score] = []
    verdicts: list[Verdict] = []
    with tempfile.TemporaryDirectory(prefix="mutate-") as place:
        bench = Bench(Path(place), options.jobs)
        map_ = lines_of_tests(bench, folders, options.map)
        for folder in folders:
            mutants = drawn(folder, None if options.all else options.sample, options.seed)
            if folder.startswith("csrc/"):
                bench.prepare_native()
            mine = []
            for verdict in bench.verdicts(mutants, map_):
                if verdict.stillborn:
                    continue
                why = known.get(verdict.mutant.key, "")
                mine.append(verdict)
                if not verdict.killed:
                    print(f"{verdict.mutant}: {verdict.words}{f' ({why})' if why else ''}", flush=True)
            left = [verdict for verdict in mine if not verdict.killed]
            equivalent = sum(verdict.mutant.key in known for verdict in left)
            scores.append(Score(folder, len(mine) - len(left), len(left) - equivalent, equivalent))
            verdicts += mine
            print(told(scores[-1]), flush=True)
    columns = zip(*((score.killed, score.survived, score.equivalent) for score in scores), strict=True)
    print(told(Score("all", *map(sum, columns))))
    if options.json:
        options.json.write_text(json.dumps(document(options.seed, scores, verdicts), indent=1))
    return int(any(score.share < options.bar for score in scores))


def told(score: Score) -> str:
    """One line."""
    tail = f", {score.equivalent} survived with a reason" if score.equivalent else ""
    return f"{score.folder}: {score.share:.0%}: {score.killed} killed, {score.survived} survived{tail}"


def document(seed: int, scores: Sequence[Score], verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """Machine form."""
    return {
        "version": 1,
        "seed": seed,
        "folders": [{**asdict(score), "share": round(score.share, 4)} for score in scores],
        "survivors": [
            {"mutant": str(verdict.mutant), "why": verdict.words}
            for verdict in verdicts
            if not verdict.killed
        ],
    }


if __name__ == "__main__":
    sys.exit(main())
