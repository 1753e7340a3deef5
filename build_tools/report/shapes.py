"""Find each model step's kernels.

One line a call and target, and counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from aiter_prebuilt.contract import model_steps

JSON_VERSION: Final = 1
#: An entry of a bundle would be launched; none takes the call; the bundles lack the operator, as where a set of instances leaves
#: it out; ours has other parameters; there is no such function; a function that launches nothing.
CHOSEN, REFUSED, ABSENT, UNBOUND, NOT_SERVED, HOST = (
    "chosen", "refused", "not in the bundles", "unbound", "not served", "on the host",
)  # fmt: skip
STATES: Final = (CHOSEN, REFUSED, ABSENT, UNBOUND, NOT_SERVED, HOST)
#: States of a shape for which no entry was found.
WITHOUT: Final = (REFUSED, ABSENT, UNBOUND, NOT_SERVED)


@dataclass(frozen=True, slots=True)
class ShapeRow:
    """One call of ``model`` on one of ``ranks`` with ``tokens`` in a step. ``call``: its name in ``manifests/clients.toml``,
    ``arguments`` as it is written there, with its sizes; ``layer``: the linear layer that it computes. ``reason``: why that
    kernel, or why none. ``within``: the functions that it calls, when it is no operator itself.
    """

    model: str
    ranks: int
    phase: str
    tokens: int
    call: str
    client: str
    function: str
    layer: str
    arguments: str
    target: str
    state: str
    reason: str
    kernel: str = ""
    variant: str = ""
    backend: str = ""
    profile: str = ""
    cost: int | None = None
    within: tuple[str, ...] = ()


def step_call(row: ShapeRow) -> model_steps.StepCall:
    """Return the row as calls are counted."""
    place = model_steps.Place(row.target, row.ranks, row.layer, row.phase, row.tokens)
    return model_steps.StepCall(row.function, row.client, place, row.within, row.state not in WITHOUT)


@dataclass(frozen=True, slots=True)
class Shapes:
    """All of them. ``sets``: bundle -> the set of Composable Kernel's instances in it; ``stale``: bundles older than their
    sources.
    """

    rows: tuple[ShapeRow, ...]
    sets: Mapping[str, str]
    stale: tuple[str, ...] = ()

    def counts(self) -> dict[str, dict[str, int]]:
        """Target -> state -> calls."""
        targets = dict.fromkeys(row.target for row in self.rows)
        return {
            target: {
                state: sum((row.target, row.state) == (target, state) for row in self.rows)
                for state in STATES
            }
            for target in targets
        }

    def sums(self) -> list[dict[str, Any]]:
        """Count each model's calls on each target: all of them (``engine`` ""), and those of each engine.

        ``steps``: the calls that ``aiter-prebuilt coverage`` asks about, with the same sums; ``sizes``: the calls of all sizes.
        """
        models: dict[str, list[model_steps.StepCall]] = {}
        for row in self.rows:
            models.setdefault(row.model, []).append(step_call(row))
        return [
            {"model": model, "engine": engine, "target": target, **_sums(mine, target)}
            for model, calls in models.items()
            for engine in ("", *model_steps.ENGINES)
            for mine in [model_steps.of_engine(calls, engine) if engine else calls]
            for target in dict.fromkeys(call.place.target for call in calls)
        ]

    def without(self) -> tuple[ShapeRow, ...]:
        """Return the calls for which no entry was found."""
        return tuple(row for row in self.rows if row.state in WITHOUT)

    def as_json(self) -> dict[str, Any]:
        """Machine form."""
        return {
            "version": JSON_VERSION,
            "counts": self.counts(),
            "sums": self.sums(),
            "ck": dict(self.sets),
            "stale": list(self.stale),
            "shapes": [asdict(row) for row in self.rows],
        }


def _sums(calls: Iterable[model_steps.StepCall], target: str) -> dict[str, list[int]]:
    mine = [call for call in calls if call.place.target == target]
    steps = model_steps.total(call for call in mine if model_steps.counted(call.place))
    sizes = model_steps.total(mine)
    return {"steps": [steps.served, steps.calls], "sizes": [sizes.served, sizes.calls]}
