"""What an entry's receipt says: JSON text, ``{"executed": false}`` until a device ran its code object and all was right."""

from __future__ import annotations

import json

from aiter_prebuilt.contract.records import Entry


def was_executed(entry: Entry) -> bool:
    """Was it proved before it shipped? A receipt that cannot be read says no."""
    try:
        receipt = json.loads(entry.receipt)
    except ValueError:
        return False
    return isinstance(receipt, dict) and receipt.get("executed") is True
