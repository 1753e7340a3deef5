"""Names of products for targets, as people type them: ``mi300x`` is gfx942."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from aiter_prebuilt.contract.targets import TARGETS, TargetFacts
from aiter_prebuilt.errors import ArgumentError


def _series(facts: TargetFacts) -> str:
    """Name a target's products as people do: "MI300" for the MI300X and its like."""
    return facts.devices[0].rstrip("X")


def of_table(table: Mapping[str, TargetFacts]) -> dict[str, str]:
    """Map each product, its series and a pip extra of another name to the target."""
    return {
        word.lower(): target
        for target, facts in table.items()
        for word in (*facts.devices, _series(facts), facts.extra)
        if word != target
    }


#: What people type -> target. Small letters and digits alone.
PRODUCTS: Final = of_table(TARGETS)
#: GPUs that no wheel serves, by target and by product.
UNSUPPORTED: Final = {
    "gfx906": "MI50", "gfx908": "MI100", "gfx90a": "MI200", "gfx1100": "Radeon RX 7900", "gfx1200": "Radeon RX 9060",
    "gfx1201": "Radeon RX 9070", "mi50": "MI50", "mi60": "MI60", "mi100": "MI100", "mi200": "MI200", "mi210": "MI210",
    "mi250": "MI250", "mi250x": "MI250X",
}  # fmt: skip
#: Words before a product's name.
_BRANDS: Final = ("amd", "instinct", "nvidia")


def target_of(text: str) -> str:
    """Return the target of a product; any other text as it is.

    Raises:
        ArgumentError: a GPU that no wheel serves.
    """
    plain = _plain(text)
    if plain in UNSUPPORTED:
        raise ArgumentError("", unsupported(text), supported())
    return PRODUCTS.get(plain, text)


def unsupported(text: str) -> str:
    """Say that no wheel serves this GPU: "gfx90a (MI200) is not supported"."""
    plain = _plain(text)
    product = UNSUPPORTED.get(plain, plain)
    return f"{text}{'' if product.lower() == plain else f' ({product})'} is not supported"


def supported() -> str:
    """List the supported targets with their products."""
    amd = (f"{target} ({_series(facts)})" for target, facts in TARGETS.items() if facts.vendor == "amd")
    return f"Supported: {', '.join(amd)}"


def _plain(text: str) -> str:
    plain = "".join(letter for letter in text.partition(":")[0].lower() if letter.isalnum())
    for brand in _BRANDS:
        plain = plain.removeprefix(brand)
    return plain
