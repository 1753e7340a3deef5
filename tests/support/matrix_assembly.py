"""Every matrix instruction of the emulated targets, as assembly."""

from __future__ import annotations

import re

from csrc.emulator.generate import isa_tables

TARGETS = ("gfx942", "gfx950")


def matrix_instructions(target: str) -> dict[str, int]:
    """Every matrix instruction of a target in assembly, and 2 x M x N x K x blocks by its name (sparse ones: K of B)."""
    bit = 1 << TARGETS.index(target)
    found = {}
    for row in isa_tables.rows():
        shape = re.search(r"MFMA?C?_(?:SCALE_)?[FI]\d+_(\d+)X(\d+)X(\d+)(?:_(\d+)B)?_", row.opcode)
        if not row.targets & bit or not shape:
            continue
        m, n, k, blocks = (int(number or 1) for number in shape.groups())
        names = []
        for operand in row.operands:
            count = -(-operand.bits // 32)
            kind, first = {
                "d0": ("a", 0), "s0": ("v", 0), "s1": ("v", 16), "s2": ("a", 0), "x0": ("v", 40), "x1": ("v", 41),
            }[operand.slot]  # fmt: skip
            if operand.slot == "s2" and "SMFMAC" in row.opcode:
                kind, first = "v", 40  # the index of what is not zero
            names.append(f"{kind}[{first}:{first + count - 1}]" if count > 1 else f"{kind}{first}")
        found[f"{isa_tables.mnemonic(row.opcode)} {', '.join(names)}"] = 2 * m * n * k * blocks
    return found
