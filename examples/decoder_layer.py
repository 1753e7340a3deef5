"""Whole decoder layers of four models by the functions that servers call, beside exact ones.

    python examples/decoder_layer.py llama3 --target gfx950

It needs the installed wheels (aiter-prebuilt[gfx942,gfx950,emulator]) and torch for the processor: no GPU, no compiler.
One layer takes a step of several prompts of different lengths, then a step of the token behind each. Then four layers with other
weights, an embedding and a head write tokens, each the likeliest. Exit code 1: a row is further from exact than the bound, or a
token is another.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict, dataclass
from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from embedded import EmbeddedDevice

if TYPE_CHECKING:
    from step import Model

MODELS: Final = ("llama3", "qwen3moe", "gptoss", "deepseek_v3")
TARGETS: Final = ("gfx942", "gfx950")
GENERATED: Final = 4
JSON_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Row:
    """How far the furthest row of a layer's result is from exact, in parts of its length, and how far it may be."""

    layer: int
    step: str
    part: str
    error: float
    bound: float


def main(words: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--target", choices=TARGETS, default="gfx950")
    parser.add_argument(
        "--seed", type=int, help="draw other numbers: two tokens may then be too close to call"
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(words)
    start = time.monotonic()
    EmbeddedDevice(options.target)  # before anything asks for a device
    import torch

    model: Model = import_module(options.model).MODEL
    with torch.inference_mode():
        rows = [row for index in model.kinds for row in one_layer(model, index)]
        written = tokens(model)
    right = all(row.error <= row.bound for row in rows) and written["tokens"] == written["exact"]
    report = {
        "version": JSON_VERSION, "model": options.model, "target": options.target, "right": right,
        "layer": [asdict(row) for row in rows], **written, "seconds": round(time.monotonic() - start, 1),
    }  # fmt: skip
    if options.json:
        print(json.dumps(report))
    else:
        show(rows, report)
    return 0 if right else 1


def one_layer(model: Model, index: int) -> list[Row]:
    """A step of prompts, and one of the token behind each."""
    import torch
    from step import ROUNDING, Sequences, distance

    random = torch.Generator().manual_seed(index)
    weights = model.weights(random, index)
    longest = max(model.prompts) + 1
    sequences = Sequences(len(model.prompts), longest, model.page)
    layer = model.layer(weights, sequences.stored, longest)
    # A layer in the middle of a model is given its input in two parts: what the one before adds, and the residual.
    inputs = [(model.added(random, prompt + 1), model.states(random, prompt + 1)) for prompt in model.prompts]
    sums = [added.double() + residual.double() for added, residual in inputs]
    wanted = [model.exact(model.exact_weights(weights), each) for each in sums]
    found: list[Row] = []
    for step, rows in (("prompts", slice(0, -1)), ("next tokens", slice(-1, None))):
        parts = [torch.cat([each[place][rows] for each in inputs]) for place in (0, 1)]
        added, residual = layer(parts[0], parts[1], sequences.step([len(each[rows]) for each in sums]))
        exact_added, exact_residual = (torch.cat([each[place][rows] for each in wanted]) for place in (0, 1))
        attended = exact_residual - torch.cat([each[rows] for each in sums])
        errors = (distance(residual, exact_residual, attended), distance(added, exact_added, exact_added))
        for part, error, roundings in zip(("attention", "the rest"), errors, model.roundings, strict=True):
            found.append(Row(index, step, part, error, roundings * ROUNDING))
    return found


def tokens(model: Model) -> dict[str, Any]:
    """What four layers write."""
    import toy

    made, prompts = toy.made(model), toy.prompts(model)
    found, wanted = toy.written(made, prompts, GENERATED), toy.exactly_written(made, prompts, GENERATED)
    pairs = zip(chain(*found.logits), chain(*wanted.logits), strict=True)
    return {
        "tokens": found.tokens,
        "exact": wanted.tokens,
        "closest": toy.closest(wanted),
        "logits_differ": max(float((one - exact).abs().max()) for one, exact in pairs),
    }


def show(rows: list[Row], report: dict[str, Any]) -> None:
    """The report for people."""
    print(f"{report['model']} on {report['target']}: errors of the furthest rows, in parts of their length")
    for row in rows:
        print(f"  layer {row.layer}  {row.step:12} {row.part:10} {row.error:.4f}, bound {row.bound:.4f}")
    print("four layers write, token by token:")
    for found, exact in zip(report["tokens"], report["exact"], strict=True):
        print(f"  {found} {'as exactly' if found == exact else f'and exactly {exact}'}")
    print(
        f"logits differ by up to {report['logits_differ']:.2f}; where two tokens are closest, by {report['closest']:.2f}"
    )
    print(f"{'right' if report['right'] else 'WRONG'}, {report['seconds']} s")


if __name__ == "__main__":
    sys.exit(main())
