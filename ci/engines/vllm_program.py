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
from pathlib import Path
from typing import Any

from engines import recorder


def main() -> None:
    """Run one model."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--prompts", required=True)
    parser.add_argument("--tokens", type=int, default=8)
    parser.add_argument("--settings", default="{}", help="of LLM, as JSON")
    parser.add_argument("--sampling", default="{}", help="more of SamplingParams, as JSON")
    parser.add_argument(
        "--rounds", type=int, default=1, help="how often all prompts are asked; the last answers count"
    )
    parser.add_argument(
        "--record", type=Path, help="write each distinct call of AITER's functions to this file"
    )
    words = parser.parse_args()
    if words.record is not None:
        recorder.start()
    begun = time.perf_counter()
    vllm: Any = importlib.import_module("vllm")
    settings = json.loads(words.settings)
    fixed = {
        "skip_tokenizer_init": True,
        "disable_log_stats": "speculative_config" not in settings,  # they count drafted tokens
        "jit_monitor_mode": "error",
    }
    llm = vllm.LLM(model=words.folder, **(fixed | settings))
    up = time.perf_counter()
    prompts = json.loads(words.prompts)
    fixed = {
        "temperature": 0,
        "max_tokens": words.tokens,
        "detokenize": False,
        "ignore_eos": True,
        "logprobs": 1,
    }
    sampling = vllm.SamplingParams(**(fixed | json.loads(words.sampling)))
    outputs: list[Any] = []
    for _ in range(words.rounds):
        outputs = llm.generate([{"prompt_token_ids": each} for each in prompts], sampling, use_tqdm=False)
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
        "cached_tokens": sum(each.num_cached_tokens or 0 for each in outputs),
        "tokens_drafted": _drafted(llm) if "speculative_config" in settings else 0,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        **_counted(),
    }
    if words.record is not None:
        words.record.write_text(json.dumps(recorder.calls()), encoding="utf-8")
    sys.stdout.flush()
    print(json.dumps(told))


def _drafted(llm: Any) -> int:
    """Count drafted tokens, which the model took or refused."""
    name = "vllm:spec_decode_num_draft_tokens"
    return sum(int(metric.value) for metric in llm.get_metrics() if metric.name == name)


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
