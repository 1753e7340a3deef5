"""One offline run of stock vLLM on the emulator: prompts in, tokens and log probabilities out.

Started by :mod:`engines.vllm_run` in the environment of :mod:`engines.surroundings`. Prints one line of JSON, its last.
"""

from __future__ import annotations

import argparse
import importlib
import json
import resource
import sys
import time
from collections import Counter
from typing import Any


def main() -> None:
    """Run one model."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--prompts", required=True)
    parser.add_argument("--tokens", type=int, default=8)
    parser.add_argument("--settings", default="{}", help="of LLM, as JSON")
    words = parser.parse_args()
    begun = time.perf_counter()
    vllm: Any = importlib.import_module("vllm")
    fixed = {"skip_tokenizer_init": True, "disable_log_stats": True, "jit_monitor_mode": "error"}
    llm = vllm.LLM(model=words.folder, **(fixed | json.loads(words.settings)))
    up = time.perf_counter()
    prompts = json.loads(words.prompts)
    sampling = vllm.SamplingParams(
        temperature=0, max_tokens=words.tokens, detokenize=False, ignore_eos=True, logprobs=1
    )
    outputs: list[Any] = llm.generate(
        [{"prompt_token_ids": each} for each in prompts], sampling, use_tqdm=False
    )
    answers = [
        {
            "prompt": list(prompt),
            "tokens": list(each.outputs[0].token_ids),
            "logprobs": [
                float(row[token].logprob)
                for row, token in zip(each.outputs[0].logprobs, each.outputs[0].token_ids, strict=True)
            ],
        }
        for prompt, each in zip(prompts, outputs, strict=True)
    ]
    told = {
        "answers": answers,
        "seconds": {"start": round(up - begun, 1), "answers": round(time.perf_counter() - up, 1)},
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        **_counted(),
    }
    sys.stdout.flush()
    print(json.dumps(told))


def _counted() -> dict[str, Any]:
    """Count launches by kernel, and calls of what stands in for vLLM's own operators."""
    from aiter_prebuilt_emulator import native
    from engines import vllm_operators

    launches: Counter[str] = Counter()
    for row in native.counters()["kernels"]:
        launches[row["kernel"]] += row["launches"]
    return {"stood_in": dict(vllm_operators.CALLS), "kernels": launches}


if __name__ == "__main__":
    main()
