"""Names of products for targets, as people type them: ``mi300x`` is gfx942. Runtime and build both read command lines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from aiter_prebuilt.contract.error_text import did_you_mean
from aiter_prebuilt.contract.targets import APUS, TARGETS, TargetFacts


def _series(facts: TargetFacts) -> str:
    """Name a target's products as people do: "MI300" for the MI300X and its like."""
    return facts.devices[0].rstrip("X")


def of_table(table: Mapping[str, TargetFacts], apus: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Map each product, its series and a pip extra of another name to the target."""
    return {
        word.lower(): target
        for target, facts in table.items()
        for word in (*facts.devices, *apus.get(target, ()), _series(facts), facts.extra)
        if word != target
    }


#: What people type -> target. Small letters and digits alone.
PRODUCTS: Final = of_table(TARGETS, APUS)
#: GPUs that no wheel serves, by target and by product.
UNSUPPORTED: Final = {
    "gfx906": "MI50", "gfx908": "MI100", "gfx90a": "MI200", "gfx1100": "Radeon RX 7900", "gfx1200": "Radeon RX 9060",
    "gfx1201": "Radeon RX 9070", "mi50": "MI50", "mi60": "MI60", "mi100": "MI100", "mi200": "MI200", "mi210": "MI210",
    "mi250": "MI250", "mi250x": "MI250X",
}  # fmt: skip
#: GPUs of other generations, by target: gfx8xx, RDNA, other gfx9 than ours, other NVIDIA architectures than ours.
_OTHER_GENERATION: Final = re.compile(
    r"gfx(8|1[01])[0-9a-f]{2,3}|gfx9(0[0-9a-c]|4[01])|gfx125[0-9]|sm(?!90)[0-9]{2,3}a?"
)
#: Words before a product's name.
_BRANDS: Final = ("amd", "instinct", "nvidia")


def target_of(text: str) -> str:
    """Return the target of a product; any other text as it is."""
    return PRODUCTS.get(_plain(text), text)


def refusal(text: str) -> tuple[str, str] | None:
    """Say why a word of the command line names none of our targets, and which ones there are.

    Args:
        text: a target, with features behind it or not, or a product: ``gfx942:xnack-``, ``MI300X``.

    Returns:
        A clause and the remedy; None for a target or a product of ours.
    """
    if unsupported_generation(text):
        return unsupported(text), supported()
    if target_of(text).partition(":")[0] in TARGETS:
        return None
    return f"No target {text!r}", did_you_mean(text.lower(), [*TARGETS, *PRODUCTS]) + supported()


def unsupported_generation(text: str) -> bool:
    """Return True for a GPU that exists and that no wheel serves, by target or product."""
    plain = _plain(text)
    return plain in UNSUPPORTED or _OTHER_GENERATION.fullmatch(plain) is not None


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
