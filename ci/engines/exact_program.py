"""A model's answers in float64, for the same tokens: transformers' own model on the processor.

    python -m engines.exact_program MODEL_FOLDER HOW... < ANSWERS.json

``ANSWERS.json`` is a list of ``{"prompt": [...], "tokens": [...]}``. HOW is ``float64``, ``bfloat16`` or ``float64+FAULT``. The
result is one line of JSON, for each HOW by its name: for each token of each answer the logarithm of its probability after what
stands before it, that of the likeliest token, and which that is.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any


def exact(folder: str, answers: list[dict[str, Any]], how: str) -> list[list[dict[str, Any]]]:
    """Return a row for each token of each answer: ``logprob``, ``best`` and ``best_logprob``.

    Args:
        folder: the model.
        answers: prompts with the tokens that followed.
        how: the type that all is computed in, and behind ``+`` one of :data:`engines.faults.FAULTS`, planted into the model.
    """
    import torch

    from engines import faults

    transformers: Any = importlib.import_module("transformers")
    dtype, _, fault = how.partition("+")
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=getattr(torch, dtype), attn_implementation="eager", experts_implementation="eager"
    ).eval()
    planted = faults.FAULTS[fault] if fault else faults.Fault()
    planted.plant(model)
    told = []
    for answer in answers:
        tokens = torch.tensor([[*answer["prompt"], *answer["tokens"]]])
        mask = torch.ones_like(tokens)
        if planted.hidden is not None:
            mask[:, planted.hidden] = 0
        with torch.no_grad():
            logits = model(tokens, attention_mask=mask).logits[0].double()
        scores = torch.log_softmax(logits, dim=-1)
        first = len(answer["prompt"]) - 1
        told.append(
            [
                {
                    "logprob": float(scores[first + i, token]),
                    "best": int(scores[first + i].argmax()),
                    "best_logprob": float(scores[first + i].max()),
                }
                for i, token in enumerate(answer["tokens"])
            ]
        )
    return told


if __name__ == "__main__":
    given = json.load(sys.stdin)
    print(json.dumps({how: exact(sys.argv[1], given, how) for how in sys.argv[2:]}))
