"""A child of ``test_latent_backends.py``: calls of ``mla_decode_fwd`` that AITER's assembly and the kernel of ours both take.

Arguments: the target, its own fp8, the file that the results go to, and ``ours`` where rows of a user's table name that kernel.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

#: Heads, most queries, fp8, lengths of contexts, parts.
CALLS = [
    (16, 1, False, (1, 0, 290, 64), 3), (16, 3, False, (70, 200), 4), (16, 6, False, (31, 90), 1), (16, 7, False, (90, 40), 2),
    (128, 1, False, (40, 90), 1), (128, 1, False, (33, 81), 3), (16, 1, True, (300, 400), 2), (16, 1, True, (77, 50), 1),
    (128, 2, True, (100, 90), 2), (128, 3, True, (60, 49), 1),
]  # fmt: skip


def table_of(folder: Path, target: str, units: int, fp8: str) -> str:
    """A user's table with a row for each call."""
    lines = ["target,cus,H,max_seqlen_q,splits,kernel,variant,types"]
    for heads, queries, narrow, _, parts in CALLS:
        kind = fp8 if narrow else "bf16"
        kernel, variant = "ours" if parts > 1 or (heads * queries == 16 and not narrow) else "ours_one", "64"
        lines.append(
            f"{target},{units},{heads},{queries},{parts},{kernel},{variant if heads * queries > 32 else '16'},{kind}_{kind}_bf16"
        )
    path = folder / "mla_decode_fwd.csv"
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def main(target: str, fp8: str, file: str, ours: bool) -> int:
    """Each call once: results, logarithms, parts, and which kernel served it."""
    units = {"gfx942": 304, "gfx950": 256}[target]
    if ours:  # before the first call of the package, which reads it once
        os.environ["AITER_PREBUILT_TUNED"] = table_of(Path(file).parent, target, units, fp8)
    import aiter_prebuilt
    from aiter_prebuilt.devices import device
    from aiter_prebuilt.devices.device_memory import DeviceMemory
    from aiter_prebuilt.execute.array import DeviceArray
    from aiter_prebuilt.execute.record import Recorder, instead
    from build_tools.cases import numbers

    decode: Any = aiter_prebuilt.mla_decode_fwd
    facts, path = device.facts("amd", 0), os.environ["AITER_PREBUILT_HIP"]
    memory = DeviceMemory(facts, path)
    saved: dict[str, Any] = {}

    def made(kind: str, values: Any) -> Any:
        return DeviceArray(memory, kind, values.shape, numbers.encode(values, kind).tobytes())

    def read(array: Any) -> Any:
        kind = numbers.stored(array.dtype)
        return numbers.decode(np.frombuffer(array.read(), kind).reshape(array.shape), array.dtype)

    for number, (heads, queries, narrow, lengths, parts) in enumerate(CALLS):
        rng = np.random.default_rng(number)
        kind, tokens, keys, batches = (
            fp8 if narrow else "bf16",
            queries * len(lengths),
            sum(lengths),
            len(lengths),
        )
        q, kv = (
            made(kind, rng.normal(size=shape)) for shape in ((tokens, heads, 576), (keys + 3, 1, 1, 576))
        )
        out, scale = made("bf16", np.full((tokens, heads, 512), 7.0)), made("f32", np.array([0.5]))
        recorder = Recorder(facts, 0, None)
        with instead(decode, recorder):
            logits, lse = decode(
                q, kv, out, made("i32", np.arange(batches + 1) * queries), made("i32", np.concatenate([[0], np.cumsum(lengths)])),
                made("i32", rng.integers(0, keys + 3, keys)), made("i32", np.ones(batches)), queries,
                num_kv_splits=parts, q_scale=scale, kv_scale=scale,
            )  # fmt: skip
        split = logits is not out
        saved |= {f"o{number}": read(out), f"kernel{number}": np.array(recorder.chosen.kernel)}
        if split:
            saved |= {f"lse{number}": read(lse), f"parts{number}": read(logits)}
    np.savez(file, **saved)
    print("done")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3], "ours" in sys.argv[4:]))
