"""Numbers of experts and of groups that the choice of experts takes without Composable Kernel, and which kernel serves them."""

from __future__ import annotations

from typing import Final

import pytest
from support.emulator import bundles

from aiter_prebuilt.bundles import locate
from aiter_prebuilt.inspection import decisions

TARGETS: Final = ("gfx942", "gfx950")


def chosen(
    operator: str, settings: dict[str, str], target: str, monkeypatch: pytest.MonkeyPatch
) -> str | None:
    """Kernel and variant that a described call chooses; None where all refuse it."""
    paths = bundles(target, "ck-free")
    monkeypatch.setenv(locate.VARIABLE, ":".join(map(str, paths)))
    monkeypatch.delenv("AITER_PREBUILT_TUNED", raising=False)
    found = decisions.explain(operator, settings, target, 256)
    names = [f"{row['kernel']}/{row['variant']}" for row in found.decisions if row["chosen"]]
    assert len(names) <= 1
    return names[0] if names else None


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ["bf16", "f16", "f32"])
@pytest.mark.parametrize("experts", [1, 8, 16, 24, 62, 100, 128, 192, 193, 257, 512, 768, 1024])
def test_sigmoids_are_chosen_from(
    experts: int, kind: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"M": "5", "E": str(experts), "K": str(min(experts, 6)), "T": kind}
    served = chosen("topk_sigmoid", settings, target, monkeypatch)
    assert served == f"sigmoid/PER{2 if experts <= 128 else 8 if experts <= 512 else 16}"


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "experts", [1, 12, 24, 48, 62, 64, 72, 100, 127, 128, 130, 224, 256, 257, 300, 512, 768, 1024]
)
def test_softmax_takes_any_number_of_experts(
    experts: int, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"M": "5", "E": str(experts), "K": str(min(experts, 6)), "W": str(min(experts, 6))}
    per = next(each for each in (2, 4, 8, 16) if experts <= 64 * each)
    assembled = experts in (64, 72, 128, 256, 512)
    expected = f"topk_softmax/e{experts}" if assembled else f"any/PER{per}"
    for kind in ("bf16", "f16", "f32"):
        assert chosen("topk_softmax", settings | {"T": kind}, target, monkeypatch) == expected


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("settings", [{"E": "1025", "K": "4"}, {"E": "128", "K": "65"}, {"E": "4", "K": "5"}])
def test_what_no_wave_holds_is_refused(
    settings: dict[str, str], target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert chosen("topk_sigmoid", {"M": "5", "T": "bf16"} | settings, target, monkeypatch) is None


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ["bf16", "f16"])
@pytest.mark.parametrize(
    ("columns", "variant"),
    [
        (40, "ALIGNED1-2048"), (2056, "ALIGNED1-4096"), (7168, "ALIGNED1-8192"),
        (8200, "ALIGNED1-16384"), (18432, "ALIGNED1-any"),
        (1, "ALIGNED0-2048"), (4099, "ALIGNED0-8192"), (8195, "ALIGNED0-any"),
    ],
)  # fmt: skip
def test_tokens_of_experts_are_quantised(
    columns: int, variant: str, kind: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"M": "5", "N": str(columns), "E": "4", "choices": "2", "rows": "10", "scales": "10"}
    for code in ("i8", "e4m3fnuz" if target == "gfx942" else "e4m3fn"):
        kinds = {"T": kind, "Q": code}
        assert chosen("moe_smoothquant_fwd", settings | kinds, target, monkeypatch) == f"smooth_row/{variant}"


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("experts", "groups"),
    [(64, 4), (256, 4), (64, 2), (384, 12), (96, 3), (62, 31), (128, 64), (256, 8), (64, 1), (62, 1), (1020, 6), (256, 1),
     (1032, 8), (2048, 1)],
)  # fmt: skip
def test_groups_of_any_number_are_served(
    experts: int, groups: int, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {"M": "5", "E": str(experts), "K": "2", "num_expert_group": str(groups), "need_renorm": "1"}
    per = next(each for each in (2, 8, 16, 32) if experts <= 64 * each)
    for kind in ("bf16", "f16", "f32"):
        settings = sizes | {"T": kind}
        biased = chosen("biased_grouped_topk_hip", settings | {"topk_grp": "1"}, target, monkeypatch)
        assert biased == f"biased_any/PER{per}"
        plain = chosen("grouped_topk", settings | {"topk_group": "1"}, target, monkeypatch)
        assert plain == f"grouped_any/PER{per}"


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "change",
    [{"E": "65"}, {"E": "2052"}, {"num_expert_group": "0"}, {"topk_grp": "5"}, {"K": "33"}, {"E": "4"}],
)
def test_groups_that_are_none_are_refused(
    change: dict[str, str], target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fits = {
        "M": "5",
        "E": "64",
        "K": "2",
        "num_expert_group": "4",
        "topk_grp": "2",
        "need_renorm": "1",
        "T": "bf16",
    }
    assert chosen("biased_grouped_topk_hip", fits, target, monkeypatch) == "biased_any/PER2"
    assert chosen("biased_grouped_topk_hip", fits | change, target, monkeypatch) is None


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("experts", [1, 8, 24, 62, 64, 96, 128, 160, 192, 256, 257, 384, 512, 8192])
def test_places_of_any_number_of_experts_are_brought_into_order(
    experts: int, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    aiters = experts in (8, 64, 96) or (experts in (128, 160) and target == "gfx950")
    for places, waves in ((64, 4), (4096, 4), (32768, 16)):
        sizes = {"n": places, "num_experts": experts, "block_size": 16, "padded": places + 15 * experts}
        sizes["blocks"] = -(-sizes["padded"] // 16)
        settings = {name: str(size) for name, size in sizes.items()} | {"I": "i32"}
        served = chosen("moe_align_block_size", settings, target, monkeypatch)
        assert served == (f"align/EXPERTS{experts}" if aiters else f"align_any/WAVES{waves}")
        short = settings | {"padded": str(places + 15 * experts - 1)}
        assert chosen("moe_align_block_size", short, target, monkeypatch) is None
