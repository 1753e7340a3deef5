"""Kernels and logs for tests of what goes wrong."""

from __future__ import annotations

import re

from support.assembly import code_object
from support.hip import dwords

BUFFER = ("buffer", dwords(range(64)))
_START = "s_load_dwordx2 s[4:5], s[0:1], 0x0\nv_lshlrev_b32_e32 v1, 2, v0\ns_waitcnt lgkmcnt(0)\n"


def kernel(body: str, lds: int = 0) -> bytes:
    """A code object for gfx942: the buffer is in s[4:5], v1 is 4 times the work item."""
    return code_object("gfx942", _START + body + "\ns_endpgm\n", lds)


def one_line(log: str, *says: str) -> str:
    """The log has one line, of this library, with every text."""
    lines = log.splitlines()
    assert len(lines) == 1, log
    assert lines[0].startswith("aiter-prebuilt-emulator: "), log
    for word in says:
        assert re.search(word, lines[0]), (word, lines[0])
    return lines[0]
