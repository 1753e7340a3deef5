"""What kernels ask of the host while they run: refused by name when such a kernel is loaded, and only then."""

from __future__ import annotations

import pytest
from support.hip_process import SUCCESS, Launch, launches
from support.hip_source import hip_object

NOT_SUPPORTED, ILLEGAL_ADDRESS = 801, 700

_KERNELS = """
extern "C" __device__ int printf(const char*, ...);
extern "C" __device__ unsigned long long __ockl_dm_alloc(unsigned long long);
extern "C" __global__ void prints(u32* data, u32 n) { if (n == 7) printf("%d\\n", n); data[0] = n; }
extern "C" __global__ void allocates(u32* data, u32 n) { if (n == 7) data[1] = __ockl_dm_alloc(4 * n) != 0; data[0] = n; }
extern "C" __global__ void plain(u32* data, u32 n) { if (n == 7) __builtin_trap(); data[0] = n; }
"""


def ask(image: bytes, name: str, number: int) -> Launch:
    arguments = [("buffer", bytes(8)), ("bytes", number.to_bytes(4, "little"))]
    return Launch(image, arguments, kernel=name, block=(1, 1, 1))


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_a_kernel_that_asks_is_refused_and_its_neighbours_are_not(target: str) -> None:
    image = hip_object(target, _KERNELS)
    requests = [ask(image, name, 5) for name in ("prints", "allocates", "plain")]
    (prints, allocates, plain), log = launches(requests, devices=target)
    assert [answer.loaded for answer in (prints, allocates, plain)] == [SUCCESS] * 3
    assert [prints.found, allocates.found, plain.found] == [NOT_SUPPORTED, NOT_SUPPORTED, SUCCESS]
    assert plain.status == SUCCESS and plain.words() == [5, 0]
    first, second = log.splitlines()
    assert (
        "hipErrorNotSupported (801): kernel prints needs calls of the host (hidden_hostcall_buffer: printf"
        in first
    )
    assert "kernel allocates needs a heap of the device (hidden_heap_v1: malloc" in second


def test_a_kernel_that_names_everything_is_refused_when_it_asks() -> None:
    """Without optimisation the compiler lists all services for all kernels: only an access tells which of them ask."""
    image = hip_object("gfx942", _KERNELS, "-O0")
    answers, log = launches([ask(image, "plain", 5), ask(image, "prints", 5), ask(image, "prints", 7)])
    assert [answer.status for answer in answers] == [SUCCESS, SUCCESS, ILLEGAL_ADDRESS]
    assert [answer.words() for answer in answers[:2]] == [[5, 0]] * 2
    (line,) = log.splitlines()
    assert "kernel prints" in line and "a null pointer" in line and "printf, assert or malloc" in line
