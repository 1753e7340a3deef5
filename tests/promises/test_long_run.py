"""100,000 calls whose shapes never repeat: the memo stays bounded, and so does the process."""

from __future__ import annotations

from pathlib import Path

from promises import programs
from promises.test_devices import write

#: Bytes that the process may grow by, over 90,000 calls with new shapes, once it has seen 10,000. An entry takes some 500.
GROWTH = 6 << 20


def test_a_stream_of_new_shapes_keeps_memory_bounded(
    extension_path: Path, stub_path: Path, tmp_path: Path
) -> None:
    warm, end = programs.lines(
        """
        import ctypes, gc
        stub = ctypes.CDLL(os.environ["AITER_PREBUILT_HIP"])
        operator = dispatch.operator("o")
        def resident():
            gc.collect()
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        def calls(first, last):
            for size in range(first, last):
                operator((4096, "f32", (size,), None, ("amd", 0)), stream=0)
            return [operator.stats(), resident(), stub.stub_loads(), stub.stub_launches()]
        say(calls(1, 10_001))
        say(calls(10_001, 100_001))
        """,
        {"AITER_PREBUILT_HIP": str(stub_path), "AITER_PREBUILT_BUNDLES": str(write(tmp_path, "gfx942"))},
    )
    assert warm[0]["memo_size"] == end[0]["memo_size"] == 1024, "full, and no larger"
    assert end[0]["memo_hits"] == 0 and end[0]["calls"] == end[0]["launches"] == end[3] == 100_000
    assert end[2] == 1, "one code object, loaded once"
    assert end[1] - warm[1] < GROWTH, f"grew by {end[1] - warm[1]} bytes"
