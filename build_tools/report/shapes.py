"""Find each model step's kernels.

One line a call and target, and counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

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
class Row:
    """One call of ``model`` on one of ``ranks`` with ``tokens`` in a step. ``call``: its name in ``manifests/clients.toml``,
    ``arguments`` as it is written there, with its sizes; ``layer``: the linear layer that it computes. ``reason``: why that
    kernel, or why none.
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


@dataclass(frozen=True, slots=True)
class Shapes:
    """All of them. ``sets``: bundle -> the set of Composable Kernel's instances in it; ``stale``: bundles older than their
    sources.
    """

    rows: tuple[Row, ...]
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

    def without(self) -> tuple[Row, ...]:
        """Return the calls for which no entry was found."""
        return tuple(row for row in self.rows if row.state in WITHOUT)

    def as_json(self) -> dict[str, Any]:
        """Machine form."""
        return {
            "version": JSON_VERSION,
            "counts": self.counts(),
            "ck": dict(self.sets),
            "stale": list(self.stale),
            "shapes": [asdict(row) for row in self.rows],
        }
