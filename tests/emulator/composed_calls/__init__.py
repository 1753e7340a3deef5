"""Calls of the public functions that have no golden call: those that choose, prepare or compose (``functions_program.py``).

Each module has the calls of a family. A call has torch's tensors of a device and is compared with a few lines of torch in fp64.
"""

from __future__ import annotations

from typing import Final

from emulator.composed_calls import attention, experts, others, quantisation, rope, routing
from emulator.composed_calls.place import Call

#: Functions that no single process with one device can call, and the test that does.
ELSEWHERE: Final = dict.fromkeys(
    (
        "init_custom_qr",
        "qr_all_reduce",
        "qr_all_reduce_rmsnorm",
        "qr_destroy",
        "qr_get_handle",
        "qr_open_handles",
    ),
    "tests/emulator/quick_ranks_program.py",
)
#: Functions of one target alone, whose refusal on the other is the call there.
ONLY: Final = {"moe_gemm_a8w4": "gfx950"}
#: Function -> its call.
CALLS: Final[dict[str, Call]] = {
    name: call
    for family in (rope, quantisation, attention, experts, routing, others)
    for name, call in family.CALLS.items()
}
