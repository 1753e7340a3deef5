"""``python -m emulator.prove FOLDER`` (with ``tests`` on the path): the lines from which ``build_tools receipts`` makes receipts.

The seed is fixed: the same kernels give the same receipts. The tests run the same cases with a fresh seed each time.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from support import proof
from support.emulator import bundles, library_path

SEED = 1


def main() -> int:
    """Write one file per run; 1 when a case is wrong."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    wrong = 0
    for target, profile in proof.RUNS:
        lines, errors = proof.run(library_path(), bundles(target, profile), target, profile, SEED)
        (folder / f"{target}-{profile}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        bad = [line for line in lines if line["problems"]]
        print(f"{target} {profile}: {len(lines)} cases, {len(bad)} wrong")
        for line in bad[:5]:
            print(f"  {line['operator']} {line['label']}: {line['problems']}")
        wrong += len(bad) + (not lines)
        print(errors[-2000:] if bad or not lines else "", end="")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
