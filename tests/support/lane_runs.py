"""One vector instruction over arrays of any length: 64 lanes at a time, eight instructions per wave."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from support.matrix_wave import Batch
from support.one_wave import MODE

Words = npt.NDArray[np.uint32]
_PER_WAVE = 8


def _names(first: int, dwords: int) -> str:
    return f"v{first}" if dwords == 1 else f"v[{first}:{first + dwords - 1}]"


def over_lanes(
    target: str,
    instruction: str,
    sources: Sequence[Words],
    *,
    out: int = 1,
    old: int = 0,
    mode: int = MODE,
) -> Words:
    """Results of ``instruction`` (``{d}``, ``{a}``, ``{b}``, ``{c}`` stand for its registers) as ``[dword][element]``.

    Every source is ``[dword][element]`` or ``[element]``; ``out`` is the result's width in dwords, ``old`` its value before.
    """
    rows = [np.atleast_2d(source).astype(np.uint32) for source in sources]
    count = rows[0].shape[1]
    widths = [len(row) for row in rows]
    per_wave = _PER_WAVE if sum(widths) + out <= 8 else 1
    first = [sum(widths[:i]) * per_wave for i in range(len(rows))]
    # 64-bit operands start at even registers
    first = [place + place % 2 for place in first]
    result = 128
    lines = []
    for n in range(per_wave):
        names = {
            letter: _names(first[i] + n * widths[i], widths[i]) for i, letter in enumerate("abc"[: len(rows)])
        }
        lines.append(instruction.format(d=_names(result + n * out, out), **names))
    source = "\n".join(lines)
    batch = Batch(target, (source,))
    got = np.zeros((out, count), np.uint32)
    for start in range(0, count, 64 * per_wave):
        registers: dict[int, Words] = {result: np.full((out * per_wave, 64), old, np.uint32)}
        stop = min(start + 64 * per_wave, count)
        for i, row in enumerate(rows):
            part = np.zeros((widths[i], 64 * per_wave), np.uint32)
            part[:, : stop - start] = row[:, start:stop]
            registers[first[i]] = part.reshape(widths[i], per_wave, 64).transpose(1, 0, 2).reshape(-1, 64)
        file = batch.run(source, registers, mode=mode)
        waves = (
            file[result : result + out * per_wave]
            .reshape(per_wave, out, 64)
            .transpose(1, 0, 2)
            .reshape(out, -1)
        )
        got[:, start:stop] = waves[:, : stop - start]
    return got
