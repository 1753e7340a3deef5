"""Workspaces hold NaN before a call, here as in every proof: the embedded device's pages of zeros would hide what a kernel reads
and nobody wrote. These calls read such places, and are few among those that are drawn.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support import proof
from support.emulator import bundles, library_path

from aiter_prebuilt.contract.calls import pack, read


@pytest.mark.slow
@pytest.mark.parametrize("target", proof.TARGETS)
def test_what_is_added_up_for_keys_without_queries(target: str, tmp_path: Path) -> None:
    """Heads that share keys: their gradients meet in the workspace, into which nobody writes for keys that no query sees."""
    with proof.calls(target, operator="fmha_v3_varlen_bwd").open("rb") as source:
        chosen = [
            call
            for call in read(source)
            if "cu_seqlens_q~" in call.label and "T=bf16" in call.label and _shared(call.label)
        ]
    assert len(chosen) >= 8
    stream = tmp_path / "chosen.calls"
    stream.write_bytes(b"".join(map(pack, chosen)))
    environment = proof.surroundings(library_path(), bundles(target, "ck-free"), target)
    assert environment["AITER_PREBUILT_EMULATOR_FILL"] == "0xff"
    command = [sys.executable, "-m", "aiter_prebuilt.execute", str(stream)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == len(chosen), done.stderr[-3000:]
    assert not [line for line in lines if line["problems"]]


def _shared(label: str) -> bool:
    sizes = dict(word.split("=", 1) for word in label.split() if "=" in word)
    return sizes["HQ"] != sizes["HK"]
