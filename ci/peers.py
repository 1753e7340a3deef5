"""Run AITER's own ``op_tests``, and other projects' kernel tests, on the emulator, and compare the number of right cases
with the table.

    AITER_DIR=/checkout python ci/peers.py [--record] [--record-fewer] [--jobs N] [--case-seconds S] [--row-seconds S] [ROW ...]

A ROW is a name of ``ci/peers.toml`` or PROJECT:NAME of ``ci/peer_projects.toml``, with ``.gfx942`` or ``.gfx950`` behind it for
one target. ``VLLM_DIR`` and the like name the other checkouts, ``VLLM_PACKAGES`` a folder with packages that its tests need
(``pip install --target``). Without a ROW all rows of the checkouts run that are named.
AITER's calls are under the bridge, which is strict. ``--record`` writes each row into
``tests/data/peers.json`` and ``docs/peers.md`` as soon as it ends, and keeps the rows that did not run. It writes no row that
has fewer right cases than before; ``--record-fewer`` does. ``--page`` writes only the page.
Exit code 1: a row has fewer right cases than the table of this checkout says.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parent))
from peer_rows import AITER, ROOT, arguments_of, chosen, entries, file_of, most_of, project_of, rows, settings
from peers_page import OUTCOMES, page

TABLE: Final = ROOT / "tests" / "data" / "peers.json"
PAGE: Final = ROOT / "docs" / "peers.md"
PROGRAM: Final = Path(__file__).with_name("peer_program.py")
#: Variables of this process that would change what a test does.
OTHERS: Final = ("AITER_", "SGLANG_", "TRITON_", "VLLM_")


def run(row: str, arguments: list[str], file: Path, limits: tuple[float, float]) -> dict[str, Any]:
    """Run one file on one target: what its cases gave."""
    target, project = row.rpartition(".")[2], project_of(row)
    tree = project.checkout()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "cases.jsonl"
        bundles = sorted((ROOT / "build" / "bundles").glob(f"{target}-*.apb"))
        kept = {key: value for key, value in os.environ.items() if not key.startswith(OTHERS)}
        environment = kept | {
            "AITER_DIR": str(AITER.checkout()) if project.calls_aiter else "",
            "AITER_JIT_DIR": str(Path(folder) / "jit"),
            "AITER_PREBUILT_BRIDGE": "strict",
            "AITER_PREBUILT_BUNDLES": os.pathsep.join(map(str, bundles)),
            "AITER_PREBUILT_EMULATOR": target,
            "HOME": folder,
            "PEER_CASES": settings()["cases"].get(row.rpartition(".")[0], ""),
            "PEER_FOLDER": str(tree),
            "PEER_MOST": str(most_of(row)),
            "PEER_PROJECT": project.key,
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), *project.packages()]),
            "TRITON_CACHE_DIR": str(Path(folder) / "triton"),
        }
        words = [str(PROGRAM), str(results), str(limits[0]), str(file), *arguments]
        try:
            done = subprocess.run(
                [sys.executable, "-m", "aiter_prebuilt_emulator.torch", *words], env=environment, cwd=folder,
                capture_output=True, text=True, errors="replace", check=False, timeout=limits[1],
            )  # fmt: skip
            last = named_shortly((done.stderr.strip().splitlines() or [""])[-1], tree)[:160]
            end = f"exit code {done.returncode}: {last}" if done.returncode else ""
        except subprocess.TimeoutExpired:
            end = f"cut off after {limits[1]:.0f} s"
        lines = results.read_text(encoding="utf-8").splitlines() if results.is_file() else []
    judged = row.rpartition(".")[0] in settings()["judged_at_end"]
    found = reclassified(row, [json.loads(line) for line in lines], entries("reclassified"))
    return summary(found, end, judged) | {"seconds": round(time.monotonic() - began)}


def named_shortly(text: str, tree: Path) -> str:
    """Name files of this project, of a checkout and of packages by their paths there: the table is for every machine."""
    text = re.sub(r"/\S*/site-packages/", "", text)
    for folder in (ROOT, tree):
        text = text.replace(f"{folder}/", "")
    return text


def reclassified(
    row: str, lines: list[dict[str, Any]], entries: list[dict[str, str]]
) -> list[dict[str, Any]]:
    """Return the cases with the outcomes that ``ci/peers.toml`` has evidence for.

    Args:
        row: name of the row, with its target.
        lines: what the program wrote.
        entries: ``[[reclassified]]``: patterns of the row's name and of "OUTCOME: TEXT", and the outcome instead.
    """
    found = []
    for line in lines:
        text = f"{line['outcome']}: {line['why']}"
        instead = (
            each["outcome"]
            for each in entries
            if line["case"] and re.match(each["rows"], row) and re.search(each["match"], text)
        )
        found.append(line | {"outcome": next(instead, line["outcome"])})
    return found


def summary(lines: list[dict[str, Any]], end: str, judged: bool = False) -> dict[str, Any]:
    """Return the row of the table: a number for each outcome, and every reason as (cases, outcome, text).

    Args:
        lines: what the program wrote, one for each case and one for the file.
        end: how the process ended, where it did not end well.
        judged: the file judges at its end the cases that compare nothing themselves.
    """
    cases = [dict(line) for line in lines if line["case"]]
    last = next((line for line in lines if not line["case"]), None)
    if last is not None and last["why"].startswith(("SystemExit", "AssertionError")):
        # The file's own verdict is no. It may speak of any case that calls no checkAllclose.
        for line in cases:
            if line["outcome"] in ("right", "no comparison") and not line.get("checks"):
                line |= {"outcome": "failed", "why": "the file's own verdict at its end"}
    elif judged and not end and last is not None and last["outcome"] == "ended":
        for line in cases:
            if line["outcome"] == "no comparison":
                line |= {"outcome": "right", "why": ""}
    counted = Counter(line["outcome"] for line in cases)
    why = Counter((line["outcome"], line["why"]) for line in cases if line["why"])
    if last is not None and last["outcome"] != "ended":
        end = f"{last['outcome']}: {last['why']}"
    return {
        "cases": len(cases),
        **{outcome: counted[outcome] for outcome in OUTCOMES if counted[outcome]},
        "reasons": [[count, outcome, text] for (outcome, text), count in why.most_common()],
        "end": end,
    }


def parsed() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", nargs="*")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--record-fewer", action="store_true")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--case-seconds", type=float, default=60)
    parser.add_argument("--row-seconds", type=float, default=600)
    return parser.parse_args()


def main() -> int:
    """Run the rows and compare."""
    words = parsed()
    if words.page:
        write(read())
        return 0
    known = rows()
    fewer: list[str] = []
    lock = threading.Lock()

    def one(row: str) -> None:
        project = project_of(row)
        name, file = project.title(), project.checkout() / file_of(row, known)
        if not file.is_file():
            print(f"{row:42} this checkout has no {file.name}", flush=True)
            return
        found = run(row, arguments_of(row, name, known), file, (words.case_seconds, words.row_seconds))
        with lock:
            table = read()
            tree = table["trees"].setdefault(name, {"rows": {}})
            tree["source"] = project.source()
            before = tree["rows"].get(row, {}).get("right", 0)
            lower = found.get("right", 0) < before
            if lower:
                fewer.append(f"{row}: {found.get('right', 0)} right cases, the table has {before}")
            print(f"{row:42} {json.dumps(found)[:400]}", flush=True)
            if words.record_fewer or (words.record and not lower):
                tree["rows"][row] = found
                write(table)

    with ThreadPoolExecutor(words.jobs) as pool:
        list(pool.map(one, chosen(words.rows, known)))
    for line in fewer:
        print(f"fewer: {line}", file=sys.stderr)
    return 1 if fewer else 0


def read() -> dict[str, Any]:
    """Return the table that is kept; one without rows where there is none."""
    if not TABLE.is_file():
        return {"trees": {}}
    found: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))
    return found


def text_of(table: dict[str, Any]) -> str:
    """Return the table as JSON with one line for each row."""
    trees = []
    for name, tree in table["trees"].items():
        kept = [f"  {json.dumps(row)}: {json.dumps(figures)}" for row, figures in tree["rows"].items()]
        source = f'"source": {json.dumps(tree["source"])}, '
        trees.append(f' {json.dumps(name)}: {{{source}"rows": {{\n' + ",\n".join(kept) + "\n }}")
    return '{"trees": {\n' + ",\n".join(trees) + "\n}}\n"


def write(table: dict[str, Any]) -> None:
    """Write the table, in the order of its rows' files, and its page."""
    known = rows()
    for tree in table["trees"].values():
        tree["rows"] = {row: tree["rows"][row] for row in known if row in tree["rows"]}
    TABLE.write_text(text_of(table), encoding="utf-8")
    PAGE.write_text(page(table, entries("explained")), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
