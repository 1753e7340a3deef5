"""Say what decided a choice: a row of a table, the order of kernels, or a cost; and where its figure comes from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from aiter_prebuilt.contract.tuned_grammar import MODELLED

#: Words of ``schemas/explain.json``: a row and a predicted row of the user's tables, a row of the bundle, the lowest cost
#: among variants of the first kernel, the first kernel, a single kernel that takes the call.
USER_ROW: Final = "user row"
PREDICTED_ROW: Final = "predicted user row"
BUNDLE_ROW: Final = "bundle row"
COST: Final = "cost"
ORDER: Final = "order"
ONLY: Final = "only"


def decided_by(decisions: Sequence[Any]) -> str:
    """Return one of the words above for the decisions of a call; "" where nothing is chosen."""
    chosen = next((each for each in decisions if each["chosen"]), None)
    if chosen is None:
        return ""
    if chosen["row"]:
        return PREDICTED_ROW if chosen["source"].partition(";")[0].strip() == MODELLED else USER_ROW
    if chosen["tuned"]:
        return BUNDLE_ROW
    accepted = [each for each in decisions if each["accepted"]]
    if sum(each["kernel"] == chosen["kernel"] for each in accepted) > 1:
        return COST
    return ORDER if len(accepted) > 1 else ONLY


def sentence(decisions: Sequence[Any]) -> str:
    """Say in a sentence what decided a choice; "" where nothing is chosen."""
    chosen = next((each for each in decisions if each["chosen"]), None)
    if chosen is None:
        return ""
    time = f": {chosen['us']} us" if chosen["us"] else ", which has no time"
    told = f" ({chosen['source']})" if chosen["source"] else ""
    mine = [each for each in decisions if each["accepted"] and each["kernel"] == chosen["kernel"]]
    words = {
        USER_ROW: f"a row of your table, {chosen['row']}{time}{told}",
        PREDICTED_ROW: f"a predicted row of your table, {chosen['row']}{time}{told}",
        BUNDLE_ROW: "a tuned row of the bundle, which has no time",
        COST: f"the cost {chosen['cost']}, the lowest of {len(mine)} variants of {chosen['kernel']}, which the order puts first",
        ORDER: f"the order, which puts {chosen['kernel']} first",
        ONLY: "nothing else takes the call",
    }
    return f"Decided by: {words[decided_by(decisions)]}"
