"""Sets of Composable Kernel's instances: which variants of a kernel of theirs a build compiles.

An instance costs half a minute of a core, and AITER's tables name hundreds. ``sample`` has one of a kernel, on one target where
its condition names that, or none where its list is empty, for demonstrations and tests; ``curated`` covers decode, medium and
prefill, and is what a build makes; ``tuned`` has all. Each holds the one before it.
"""

from __future__ import annotations

from typing import Final

from build_tools.manifest.model import CURATED, SAMPLE, TUNED, Kernel
from build_tools.manifest.problems import Problems
from build_tools.plan.variants import Variant, any_holds

SETS: Final = (SAMPLE, CURATED, TUNED)


def set_of(kernel: Kernel, variant: Variant, problems: Problems) -> str:
    """Return the smallest set of ``variant``.

    The first of which a condition holds, ``tuned`` when none does; ``sample`` for every variant of a kernel that says nothing of
    sets.
    """
    if not kernel.sets:
        return SAMPLE
    for name, conditions in sorted(kernel.sets.items(), key=lambda row: SETS.index(row[0])):
        if any_holds(conditions, variant, problems, "sets", name):
            return name
    return TUNED


def holds(wanted: str, smallest: str) -> bool:
    """Tell whether the set ``wanted`` holds a variant.

    ``smallest`` is the smallest set of the variant.
    """
    return SETS.index(smallest) <= SETS.index(wanted)


def may_lack(kernel: Kernel) -> bool:
    """May a target have no instance of the sample? Where the sample is said to be empty, or names targets: the other one's is
    compiled by other sets.
    """
    conditions = kernel.sets.get(SAMPLE)
    return conditions == [] or any("target" in condition for condition in conditions or ())
