"""The last lines of ``nox -s demo``: what was built, what was proved, what to do next."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

#: Begins a row of ``verify --execute``, whatever lies behind it.
_ROW = re.compile(r"^(\w+) +\S+ +(right|WRONG)\b", re.MULTILINE)
_PREFIX = "aiter_prebuilt"


def lines(dist: Path, shown: str, missing: str) -> list[str]:
    """Return at most ten lines.

    Args:
        dist: the folder of the wheels.
        shown: what ``verify --execute`` printed.
        missing: why the data wheels of the bridge were not built; empty when they were.
    """
    wheels = sorted(dist.glob(f"{_PREFIX}*.whl"))
    names = [
        path.name.partition("-")[0].removeprefix(_PREFIX).strip("_").replace("_", "-") for path in wheels
    ]
    targets = sorted({name for name in names if re.fullmatch(r"gfx\w+|sm\d+", name)})
    others = [name or "runtime" for name in names if not any(target in name for target in targets)]
    size = sum(path.stat().st_size for path in wheels) / 1e6
    told = [f"Built: {len(wheels)} wheels, {size:.1f} MB, in {dist}"]
    told += [f"  {target}: {', '.join(name for name in names if target in name)}" for target in targets]
    told += [f"  every GPU: {', '.join(others)}"]
    if missing:
        told.append(f"Not built: the data wheels of the bridge. {missing}")
    proved = Counter(target for target, verdict in _ROW.findall(shown) if verdict == "right")
    wrong = len(_ROW.findall(shown)) - proved.total()
    counts = ", ".join(f"{count} operators on {target}" for target, count in sorted(proved.items()))
    told.append(f"Proved on emulated GPUs, without a framework or compiler: {counts}; {wrong} wrong")
    first = next(
        (target for target in targets if target.startswith("gfx")), targets[0] if targets else "gfx942"
    )
    return [
        *told,
        "Next, in the environment of your engine:",
        f"  pip install --no-index --find-links {dist} 'aiter-prebuilt[{first},bridge]'",
        "  aiter-prebuilt doctor",
    ]
