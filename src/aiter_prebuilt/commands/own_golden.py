"""Execute the golden calls of own bundles in a process of their own, so that a kernel that faults ends nothing else.

A bundle with a golden call that is wrong is refused from then on, in every process of this user: a file in the user's cache says
so, under the hash of the bundle's header. The next ``doctor`` executes it again.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Sequence
from typing import Final

from aiter_prebuilt.bundles import locate, opening, own_bundles
from aiter_prebuilt.bundles.installed_bundle import InstalledBundle
from aiter_prebuilt.errors import AiterPrebuiltError

#: Seconds after which a child is ended: golden calls are small.
_LIMIT: Final = 300


def check(bundles: Sequence[InstalledBundle], targets: Sequence[str]) -> None:
    """Execute the golden calls of each own bundle of these targets, and note what is wrong.

    Args:
        bundles: installed ones.
        targets: those of the devices here.
    """
    for bundle in bundles:
        if not bundle.tree or not any(locate.serves(bundle.target, target) for target in targets):
            continue
        try:
            opened = opening.open_bundle(bundle, unmarked=True)
        except AiterPrebuiltError as error:
            own_bundles.refuse(bundle.path, error)
            continue
        problem = _problem(bundle)
        if own_bundles.mark(opened.header, problem):
            if problem:
                own_bundles.refuse(bundle.path, own_bundles.of_mark(problem, bundle.tree))
        else:
            warnings.warn(
                f"aiter-prebuilt: {bundle.tree}: {problem}. Run: export {own_bundles.WITHOUT}={bundle.tree}",
                own_bundles.OwnBundleWarning,
                stacklevel=2,
            )


def _problem(bundle: InstalledBundle) -> str:
    """Say what is wrong with the golden calls of a bundle; "" when nothing is."""
    command = [sys.executable, "-m", "aiter_prebuilt", "verify", "--execute", "--json"]
    settings = {locate.VARIABLE: bundle.path, own_bundles.UNMARKED: "1"}
    try:
        done = subprocess.run(
            command,
            env={**os.environ, **settings},
            capture_output=True,
            text=True,
            timeout=_LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"its golden calls did not end within {_LIMIT} s"
    if done.returncode < 0:
        return f"its golden calls ended the process with signal {-done.returncode}"
    try:
        runs = json.loads(done.stdout)["executions"] or ()
    except (ValueError, KeyError, TypeError):
        return f"its golden calls could not be executed: {(done.stderr or done.stdout).strip()[-400:]}"
    wrong = [f"{run['operator']} {run['label']}: {run['problem']}" for run in runs if not run["ok"]]
    return f"its golden calls are wrong: {'; '.join(wrong)}"[:2000] if wrong else ""
