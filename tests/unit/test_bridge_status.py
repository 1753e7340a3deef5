"""``aiter-prebuilt bridge status`` ends with a legend of its words."""

from __future__ import annotations

from typing import Any

from aiter_prebuilt_bridge import status

FACTS: dict[str, Any] = {
    "bridge": "0.1.0",
    "mode": "on",
    "active": True,
    "aiter": "0.1.7",
    "caches": [],
    "problems": [],
}


def test_names_have_a_legend() -> None:
    report = FACTS | {
        "answered": [], "rules": {}, "replaced": [], "stub": [], "lookups": {}, "left": [
            {"module": "aiter", "name": "f", "why": "no function of ours has this name"}
        ],
    }  # fmt: skip
    lines = status.lines(report)
    assert "left to AITER: 1" in lines and "  aiter.f: no function of ours has this name" in lines
    legend = lines[lines.index("") :]
    for word in ("public name: ", "stub of the JIT: ", "ours: ", "left to AITER: "):
        assert word in " ".join(legend), word


def test_a_models_table_has_a_legend() -> None:
    row = {"form": "f", "client": "vllm", "state": "ours", "served": True, "through": "aiter.f", "why": ""}
    lines = status.lines(FACTS | {"model": "llama3", "calls": [row]})
    legend = " ".join(lines[lines.index("") :])
    for word in ("ours", "stub", "left", "absent", "kernels here"):
        assert word in legend, word
