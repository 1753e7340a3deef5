"""Run AITER's own ``op_tests`` under the bridge on the embedded device, and compare the number of right cases with the table.

    AITER_DIR=/checkout python ci/peers.py [--record] [--jobs N] [--case-seconds S] [--row-seconds S] [--log FILE] [ROW ...]

A ROW is a name of ``ci/peers.toml``, with ``.gfx942`` or ``.gfx950`` behind it for one target. ``--record`` writes what was
measured into ``tests/data/peers.json`` and ``docs/peers.md``. Exit code 1: a row has fewer right cases than the table says.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT: Final = Path(__file__).resolve().parents[1]
TABLE: Final = ROOT / "tests" / "data" / "peers.json"
PAGE: Final = ROOT / "docs" / "peers.md"
PROGRAM: Final = Path(__file__).with_name("peer_program.py")
TARGETS: Final = ("gfx942", "gfx950")
OUTCOMES: Final = ("right", "failed", "refused", "not replaced", "triton", "slow", "other")
#: Reasons that a row of the table names.
REASONS: Final = 4


def rows() -> dict[str, list[str]]:
    """The arguments of each row, ``NAME.TARGET``."""
    data = tomllib.loads((ROOT / "ci" / "peers.toml").read_text(encoding="utf-8"))
    return {
        f"{name}.{target}": arguments.split()
        for name, arguments in data["rows"].items()
        for target in data["targets"].get(name, TARGETS)
    }


def chosen(names: list[str], known: dict[str, list[str]]) -> list[str]:
    """The rows that a command names; all of them where it names none.

    Raises:
        SystemExit: there is no such row.
    """
    for name in names:
        if name not in known and f"{name}.gfx942" not in known and f"{name}.gfx950" not in known:
            raise SystemExit(
                f"peers: there is no row {name!r} in ci/peers.toml; its rows are: {', '.join(known)}"
            )
    return [row for row in known if not names or row in names or row.rpartition(".")[0] in names]


def run(row: str, arguments: list[str], tree: Path, limits: tuple[float, float]) -> dict[str, Any]:
    """Run one file on one target: what its cases gave."""
    name, _, target = row.rpartition(".")
    file = tree / "op_tests" / f"test_{name.partition('-')[0]}.py"
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "cases.jsonl"
        bundles = sorted((ROOT / "build" / "bundles").glob(f"{target}-*.apb"))
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("AITER_", "TRITON_"))}
        environment = kept | {
            "AITER_DIR": str(tree),
            "AITER_JIT_DIR": str(Path(folder) / "jit"),
            "AITER_PREBUILT_BRIDGE": "strict",
            "AITER_PREBUILT_BUNDLES": os.pathsep.join(map(str, bundles)),
            "AITER_PREBUILT_EMULATOR": target,
            "HOME": folder,
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": str(ROOT / "src"),
            "TRITON_CACHE_DIR": str(Path(folder) / "triton"),
        }
        words = [str(PROGRAM), str(results), str(limits[0]), str(file), *arguments]
        try:
            done = subprocess.run(
                [sys.executable, "-m", "aiter_prebuilt_emulator.torch", *words], env=environment, cwd=folder,
                capture_output=True, text=True, errors="replace", check=False, timeout=limits[1],
            )  # fmt: skip
            last = (done.stderr.strip().splitlines() or [""])[-1][:160]
            end = f"exit code {done.returncode}: {last}" if done.returncode else ""
        except subprocess.TimeoutExpired:
            end = f"cut off after {limits[1]:.0f} s"
        lines = results.read_text(encoding="utf-8").splitlines() if results.is_file() else []
    return summary([json.loads(line) for line in lines], end) | {"seconds": round(time.monotonic() - began)}


def summary(lines: list[dict[str, Any]], end: str) -> dict[str, Any]:
    """The row of the table: a number for each outcome, and the most frequent reasons."""
    cases = [dict(line) for line in lines if line["case"]]
    last = next((line for line in lines if not line["case"]), None)
    if last is not None and last["why"].startswith("SystemExit"):
        # The file's own verdict is no. It may speak of any case that calls no checkAllclose.
        for line in cases:
            if line["outcome"] == "right" and not line.get("checks"):
                line |= {"outcome": "failed", "why": "the file's own verdict at its end"}
    counted = Counter(line["outcome"] for line in cases)
    why = Counter(f"{line['outcome']}: {line['why']}" for line in cases if line["why"])
    if last is not None and last["outcome"] != "ended":
        end = f"{last['outcome']}: {last['why']}"
    return {
        "cases": len(cases),
        **{outcome: counted[outcome] for outcome in OUTCOMES if counted[outcome]},
        "why": [f"{count} x {text}" if count > 1 else text for text, count in why.most_common(REASONS)],
        "end": end,
    }


def page(table: dict[str, Any]) -> str:
    """The page of the table."""
    total: Counter[str] = Counter()
    for row in table["rows"].values():
        total.update({name: row.get(name, 0) for name in ("cases", *OUTCOMES)})
    lines = [
        "# AITER's own tests",
        "",
        "`nox -s peers` runs AITER's `op_tests` under the bridge, in strict mode, on the embedded device. It fails when a",
        "row has fewer right cases than this table. `AITER_DIR` names the checkout. Shapes are small (`ci/peers.toml`).",
        "",
        "- **right**: no exception, and every `checkAllclose` of the test within its own tolerance. Where a test calls none,",
        "  its own assertions and the verdict at its end count.",
        "- **failed**: a comparison or an assertion of the test does not hold.",
        "- **refused**: our function names an argument that it does not take.",
        "- **not replaced**: AITER would compile a kernel of its own. **triton**: a Triton kernel without a data wheel.",
        "- **slow**: the case took longer than a case may. **other**: everything else, the test's own errors included.",
        "",
        f"Measured with AITER {table['commit']}: {total['right']} of {total['cases']} cases are right.",
        "",
        "| row | cases | " + " | ".join(OUTCOMES) + " | why not all |",
        "|---|" + "---:|" * (len(OUTCOMES) + 1) + "---|",
    ]
    for name, row in table["rows"].items():
        why = "<br>".join([*row["why"], *([f"ended early: {row['end']}"] if row["end"] else [])]).replace(
            "|", "\\|"
        )
        figures = " | ".join(str(row.get(each, "")) for each in OUTCOMES)
        lines.append(f"| {name} | {row['cases']} | {figures} | {why} |")
    return "\n".join([*lines, ""])


def commit_of(tree: Path) -> str:
    """The name of a checkout: ``AITER_COMMIT``, else its commit where git knows it, else the folder's name."""
    if "AITER_COMMIT" in os.environ:
        return os.environ["AITER_COMMIT"]
    words = ["git", "-C", str(tree), "rev-parse", "HEAD"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.stdout.strip()[:10] if done.returncode == 0 else tree.name


def main() -> int:
    """Run the rows and compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", nargs="*")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--case-seconds", type=float, default=60)
    parser.add_argument("--row-seconds", type=float, default=600)
    parser.add_argument("--log", type=Path)
    words = parser.parse_args()
    if "AITER_DIR" not in os.environ:
        raise SystemExit("peers: set AITER_DIR to a checkout of AITER, which has op_tests")
    tree = Path(os.environ["AITER_DIR"]).resolve()
    if not (tree / "op_tests").is_dir():
        raise SystemExit(f"peers: {tree} has no folder op_tests; set AITER_DIR to a checkout of AITER")
    known = rows()
    table = read()
    fewer: list[str] = []

    def one(row: str) -> None:
        found = run(row, known[row], tree, (words.case_seconds, words.row_seconds))
        before = table["rows"].get(row, {}).get("right", 0)
        if found.get("right", 0) < before:
            fewer.append(f"{row}: {found.get('right', 0)} right cases, the table has {before}")
        print(f"{row:42} {json.dumps(found)[:400]}", flush=True)
        if words.log:
            with words.log.open("a", encoding="utf-8") as log:
                log.write(json.dumps({row: found}) + "\n")
        if words.record:
            table["rows"][row] = found

    with ThreadPoolExecutor(words.jobs) as pool:
        list(pool.map(one, chosen(words.rows, known)))
    if words.record:
        table["commit"] = commit_of(tree)
        write(table, known)
    for line in fewer:
        print(f"fewer: {line}", file=sys.stderr)
    return 1 if fewer else 0


def read() -> dict[str, Any]:
    """Return the table that is kept; one without rows where there is none."""
    if not TABLE.is_file():
        return {"commit": "", "rows": {}}
    found: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))
    return found


def write(table: dict[str, Any], known: dict[str, list[str]]) -> None:
    """Write the table and its page."""
    table["rows"] = {row: table["rows"][row] for row in known if row in table["rows"]}
    TABLE.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(table), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
