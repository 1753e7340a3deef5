"""Execute every case of the manifests on the GPU that is here, through the installed wheels, and judge the answers.

    python ci/gpu_check.py [--operator NAME] [--json FILE] [--record FILE]
    python ci/gpu_check.py --opcheck          what torch promises of them: ci/gpu_torch.py

Needs an installed ``aiter-prebuilt`` with the bundle of the device's target, and what ``build_tools`` imports (the group
``build`` of pyproject.toml; or ``--calls``, a file that ``python -m build_tools cases`` wrote elsewhere). No torch. Inputs are
drawn anew on every run; the seed is printed. Exit status: 0 all right, 1 something is wrong or was not executed, 2 no GPU with a
bundle.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import aiter_prebuilt
from aiter_prebuilt.bundles import locate
from aiter_prebuilt.devices import device
from aiter_prebuilt.launch import loading

ROOT = Path(__file__).resolve().parent.parent


def found() -> device.DeviceFacts | None:
    """Find the first device that an installed bundle serves."""
    targets = {bundle.target for bundle in locate.installed()}
    devices = (facts for vendor in device.VENDORS for facts in device.probe(vendor).devices)
    return next((facts for facts in devices if facts.target in targets), None)


def execute(facts: device.DeviceFacts, options: argparse.Namespace, seed: int) -> Iterator[dict[str, Any]]:
    """Yield a line for each call.

    The pipeline makes the calls while the runtime executes them, each process with its own modules.
    """
    words = [
        sys.executable,
        "-m",
        "aiter_prebuilt.execute",
        "--vendor",
        facts.vendor,
        "--device",
        str(facts.ordinal),
    ]
    words += ["--no-fork"] * options.no_fork
    pipe = subprocess.PIPE
    # In the repository's folder its own src would not be found, but in ci it is the installed package that is imported.
    with subprocess.Popen(
        [*words, *options.calls], stdin=pipe, stdout=pipe, text=False, cwd=ROOT / "ci"
    ) as runtime:
        assert runtime.stdin is not None and runtime.stdout is not None
        pipeline = None
        if not options.calls:
            path = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(ROOT))))
            make = [
                "-m",
                "build_tools",
                "cases",
                "--target",
                facts.target,
                "--seed",
                str(seed),
                "--output",
                "-",
            ]
            make += [word for name in options.operator for word in ("--operator", name)]
            environment = os.environ | {"PYTHONPATH": path}
            pipeline = subprocess.Popen(
                [sys.executable, *make], stdout=runtime.stdin, env=environment, cwd=ROOT / "ci"
            )
        runtime.stdin.close()
        for line in runtime.stdout:
            yield json.loads(line)
    if (pipeline is not None and pipeline.wait() != 0) or runtime.returncode not in (0, 1):
        raise SystemExit("the calls were not made, or not executed: see above")


def report(rows: Sequence[dict[str, Any]], present: Sequence[str]) -> int:
    """One line for each operator; how many calls are wrong, or operators were not executed."""
    wrong = [row for row in rows if row["problems"]]
    for row in wrong:
        print(
            f"{row['operator']} {row['label']}: {row['kernel']}[{row['variant']}]: {'; '.join(row['problems'])}"
        )
    for name in sorted({row["operator"] for row in rows}):
        mine = [row for row in rows if row["operator"] == name]
        right = sum(not row["problems"] for row in mine)
        worst = max(float("inf") if row["worst"] is None else row["worst"] for row in mine)
        kernels = len({(row["kernel"], row["variant"]) for row in mine})
        print(
            f"{name}: {right} of {len(mine)} calls right, at least {worst:.3f} of the bound used, {kernels} variants"
        )
    missing = sorted(set(present) - {row["operator"] for row in rows})
    for name in missing:
        print(f"{name}: NOT EXECUTED: the bundles here have it, and no call came")
    print(f"{len(rows) - len(wrong)} calls right, {len(wrong)} wrong, {len(missing)} operators not executed")
    return len(wrong) + len(missing)


def main() -> int:
    """Execute, record, report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", type=Path, help="write seed, device and lines as one document")
    parser.add_argument("--record", type=Path, help="write the lines, for receipts")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument(
        "--operator", action="append", default=[], help="only this one; may be given more than once"
    )
    parser.add_argument(
        "--calls", action="append", default=[], type=Path, help="a file of calls, made elsewhere"
    )
    parser.add_argument(
        "--no-fork", action="store_true", help="all calls in one process: faster, a fault ends them"
    )
    parser.add_argument(
        "--opcheck", action="store_true", help="opcheck, torch.compile and torch.cuda.graph instead"
    )
    options = parser.parse_args()
    options.calls = [path.resolve() for path in options.calls]
    if options.opcheck:
        import gpu_torch  # beside this file

        return gpu_torch.main(["--json", str(options.json)] if options.json else [])
    facts = found()
    if facts is None:
        print("no GPU with an installed bundle here: nothing was executed")
        return 2
    seed = options.seed if options.seed is not None else random.randrange(2**31)
    version = aiter_prebuilt.__version__
    print(f"{facts}, driver {facts.driver_version}, aiter-prebuilt {version}, seed {seed}", flush=True)
    rows = list(execute(facts, options, seed))
    if options.record:
        options.record.write_text("".join(json.dumps(row) + "\n" for row in rows))
    if options.json:
        document = {"version": 2, "seed": seed, "device": str(facts), "lines": rows}
        options.json.write_text(json.dumps(document, indent=1))
    present = options.operator or loading.operators(facts.vendor, facts.ordinal)
    return 1 if report(rows, present) or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
