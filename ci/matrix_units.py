"""Print the units of ``ci/matrix.json``, one a line: unit, target, profile, shard. ``I/N`` prints those of job I of N."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

MATRIX = Path(__file__).with_name("matrix.json")


def units_of(table: dict[str, Any], part: str) -> list[str]:
    """Return the lines of one job. Units go round: with as many jobs as units, each job has one.

    Args:
        table: what ``ci/matrix.json`` holds.
        part: ``I/N`` with I from 1 to N, or nothing for all units.

    Raises:
        ValueError: ``part`` is not of that form.
    """
    match = re.fullmatch(r"(\d+)/(\d+)", part or "1/1")
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise ValueError(f"{part!r} is not I/N with 1 <= I <= N. Write 1/4, for example")
    first, jobs = int(match[1]), int(match[2])
    return [
        f"{row['unit']} {row['target']} {row['profile']} {row['shard']}"
        for row in table["units"][first - 1 :: jobs]
    ]


def main(words: list[str]) -> int:
    """Print them; 2 where the part makes no sense."""
    try:
        lines = units_of(json.loads(MATRIX.read_text(encoding="utf-8")), words[0] if words else "")
    except ValueError as error:
        sys.stderr.write(f"error: ci/matrix_units.py: {error}\n")
        return 2
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
