"""Targets of the command line."""

from __future__ import annotations

from aiter_prebuilt.contract import products
from aiter_prebuilt.errors import ArgumentError


def known_target(text: str) -> str:
    """Return the target of a word of the command line, which must name one of ours, or a product of one.

    Raises:
        ArgumentError: a GPU that no wheel serves, or a word that names none.
    """
    refused = products.refusal(text)
    if refused is not None:
        raise ArgumentError("", *refused)
    return products.target_of(text)
