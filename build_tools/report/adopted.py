"""Code objects that upstreams assembled: how many there are, how many are launched here, proved, and how they are chosen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

from build_tools.manifest.model import Manifest
from build_tools.records import Plan, PlannedBundle, in_tree
from build_tools.report.left_out import LeftOut
from build_tools.tools import tree

#: Where the trees keep them, a folder for each target.
FOLDERS: Final = ("aiter:hsa",)
_SUFFIX: Final = ".co"
#: The family of what lies in the target's folder itself.
TOP: Final = "(top)"
#: How a code object comes to be launched: rows that were measured name it; the cost decides among several; or conditions
#: leave only it.
MEASURED, COST, CONDITION = "measured", "cost", "condition"


@dataclass(frozen=True, slots=True)
class Family:
    """The objects of one folder for one target. ``chosen``: launchable ones by how they are chosen, the first that applies.
    ``left_out``: reasons, and how many objects each is about; ``unnamed``: those that nobody gives a reason for.
    """

    target: str
    family: str
    objects: int
    launchable: int
    proved: int
    chosen: Mapping[str, int]
    left_out: Mapping[str, int]
    unnamed: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Machine form."""
        return asdict(self)


def compute(
    plan: Plan, manifest: Manifest, root: Path, executed: Collection[tuple[str, str]], reasons: LeftOut
) -> tuple[Family, ...]:
    """Return a row for each folder and target, sorted.

    ``executed``: (target, SHA-256) of the code objects that have a receipt.

    Raises:
        FetchError: a source tree cannot be had.
    """
    ways = _ways(plan.bundles, {job.id: job.source for job in plan.jobs})
    found = []
    for target in manifest.targets:
        groups: dict[tuple[str, str], list[str]] = {}
        for name in there(root, (target,)):
            mark = "" if name.startswith(FOLDERS) else f" ({name.partition(':')[0]})"
            groups.setdefault((mark, family_of(name, target)), []).append(name)
        for (mark, family), names in sorted(groups.items()):
            mine = [name for name in names if name in ways]
            why = Counter(reasons.of(name) for name in names if name not in ways)
            found.append(
                Family(
                    target=target,
                    family=f"{family}{mark}",
                    objects=len(names),
                    launchable=len(mine),
                    proved=sum((target, tree.digest(name, root)) in executed for name in mine),
                    chosen=dict(sorted(Counter(ways[name] for name in mine).items())),
                    left_out={
                        reason: count for reason, count in sorted(why.items(), key=str) if reason is not None
                    },
                    unnamed=tuple(name for name in names if name not in ways and reasons.of(name) is None),
                )
            )
    return tuple(found)


def problems(plan: Plan, manifest: Manifest, root: Path, reasons: LeftOut) -> list[str]:
    """Objects of pinned trees that are neither launched nor left out with a reason, and reasons that are about nothing. What a
    checkout has instead of the pin is no problem of the manifests.

    Raises:
        FetchError: a source tree cannot be had.
    """
    if not all(tree.tree_of(folder, root).pinned for folder in FOLDERS):
        return []
    return reasons.without_trees(tree.unread_editions(root)).problems(
        frozenset(there(root, manifest.targets)), taken(plan)
    )


def there(root: Path, targets: Iterable[str]) -> Iterator[str]:
    """Yield the trees' code objects for these targets.

    They are named as in manifests. Of an edition those whose bytes the pinned tree has not.

    Raises:
        FetchError: a source tree cannot be had.
    """
    editions = tuple(f"{name}:hsa" for name in tree.asked_editions(root))
    known: set[str] = set()
    every = tuple(targets)
    for folder in (*FOLDERS, *editions):
        source = tree.tree_of(folder, root)
        for target in every:
            for name in (f"{folder}/{target}/{name}" for name in source.names(f"{folder}/{target}", _SUFFIX)):
                if not editions:
                    yield name
                elif (digest := source.sha256(name)) not in known:
                    known.add(digest)
                    yield name


def taken(plan: Plan) -> frozenset[str]:
    """Return the files of trees that a recipe launches."""
    return frozenset(job.source for job in plan.jobs if in_tree(job.source) and job.source.endswith(_SUFFIX))


def family_of(name: str, target: str) -> str:
    """Return the folder below the target's."""
    parts = PurePosixPath(name).parts
    below = parts[parts.index(target) + 1 : -1]
    return below[0] if below else TOP


def _ways(bundles: Iterable[PlannedBundle], sources: Mapping[str, str]) -> dict[str, str]:
    """Find how each launched file is chosen.

    A measurement for one operator counts before another's cost.
    """
    found: dict[str, str] = {}
    order = (MEASURED, COST, CONDITION)
    for planned in (planned for bundle in bundles for planned in bundle.operators):
        named = {row.recipe for row in planned.operator.tuned}
        for place, recipe in enumerate(planned.operator.recipes):
            way = MEASURED if place in named else COST if recipe.cost else CONDITION
            for source in (sources[planned.jobs[step.entry]] for step in recipe.steps):
                found[source] = min(way, found.get(source, CONDITION), key=order.index)
    return found
