"""Names of products for targets, as people type them: ``mi300x`` is gfx942."""

from __future__ import annotations

from typing import Final

from aiter_prebuilt.errors import ArgumentError

#: Product -> target. Small letters and digits alone.
PRODUCTS: Final = {
    "mi300": "gfx942", "mi300a": "gfx942", "mi300x": "gfx942", "mi308x": "gfx942", "mi325x": "gfx942",
    "mi350": "gfx950", "mi350x": "gfx950", "mi355x": "gfx950",
    "h100": "sm_90", "h200": "sm_90", "sm90": "sm_90",
}  # fmt: skip
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
    return "Supported: gfx942 (MI300), gfx950 (MI350)"


def _plain(text: str) -> str:
    plain = "".join(letter for letter in text.partition(":")[0].lower() if letter.isalnum())
    for brand in _BRANDS:
        plain = plain.removeprefix(brand)
    return plain
