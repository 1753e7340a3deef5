"""Compare the calls that engines made with ``manifests/clients.toml``.

    python ci/engine_calls.py [FOLDER] [--keep]

FOLDER has recordings of ``python -m engines run --record FOLDER``. Without one, those that are kept are compared
(``tests/data/engine_calls.json``). ``--keep`` puts FOLDER's recordings in the place of the kept ones, one call of each form. Exit
code 1: a call is in no form.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
KEPT: Final = ROOT / "tests" / "data" / "engine_calls.json"
CLIENT: Final = "vLLM"


def read(folder: Path) -> list[dict[str, Any]]:
    """Return one call of each form, with the runs that made it.

    Raises:
        SystemExit: the folder has no recordings.
    """
    from build_tools.shapes import recorded

    paths = sorted(folder.glob("*.json"))
    if not paths:
        raise SystemExit(f"{folder} has no recordings. Make some: python -m engines run --record {folder}")
    found: dict[str, dict[str, Any]] = {}
    for path in paths:
        for call in json.loads(path.read_text(encoding="utf-8")):
            told = {name: call[name] for name in ("name", "args", "keywords")}
            row = found.setdefault(recorded.shape_free(told), {**told, "runs": []})
            if path.stem not in row["runs"]:
                row["runs"].append(path.stem)
    return [found[key] for key in sorted(found)]


def main() -> int:
    """Exit codes: 0 each call has a form; 1 some have none."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "folder", nargs="?", type=Path, metavar="FOLDER", help="recordings; default: those kept"
    )
    parser.add_argument("--keep", action="store_true", help=f"write {KEPT.relative_to(ROOT)}")
    words = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    from build_tools.shapes import models, recorded

    if words.keep and words.folder is None:
        parser.error("--keep needs a FOLDER with recordings")
    calls = read(words.folder) if words.folder else json.loads(KEPT.read_text(encoding="utf-8"))
    if words.keep:
        rows = ",\n".join(json.dumps(call) for call in calls)
        KEPT.write_text(f"[\n{rows}\n]\n", encoding="utf-8")
    told = recorded.compare(models.read(ROOT), calls, CLIENT)
    for each in told.misfits:
        print(f"no form: {recorded.function_of(each.call)}, in {', '.join(each.call['runs'])}")
        print(f"  nearest: {each.nearest or 'none'}")
        print("".join(f"    {line}\n" for line in each.why), end="")
    print(f"no run made: {', '.join(told.unseen)}")
    print(f"{len(calls)} calls, {len(told.misfits)} without a form; {len(told.seen)} forms were made")
    return 1 if told.misfits else 0


if __name__ == "__main__":
    sys.exit(main())
