"""``torch.cuda.CUDAGraph`` on HIP's graphs. They hold kernels, copies and fills of HIP's: torch's own operators run on the
processor and are refused while a stream captures.
"""

from __future__ import annotations

from typing import Any, Final

from aiter_prebuilt_emulator.torch_device import driver, memory, streams

_MODES: Final = {"global": 0, "thread_local": 1, "relaxed": 2}


def captures() -> bool:
    """Tell whether this thread's stream captures."""
    return streams.current_stream().is_capturing()


class CUDAGraph:
    """A captured graph of a stream."""

    def __init__(self, keep_graph: bool = False) -> None:
        del keep_graph
        self._ready = 0
        self._kept: list[Any] = []
        self._stream: streams.Stream | None = None

    def __del__(self) -> None:
        self.reset()

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
        """On this thread's stream, which is not the default one."""
        del pool
        self._stream = streams.current_stream()
        driver.call("hipStreamBeginCapture", self._stream.cuda_stream, _MODES[capture_error_mode])

    def capture_end(self) -> None:
        """End the capture; the graph can be launched afterwards."""
        if self._stream is None:
            raise RuntimeError("capture_end() without capture_begin()")
        kept = memory.CAPTURED.pop(self._stream.cuda_stream, [])
        graph = driver.made_last("hipStreamEndCapture", self._stream.cuda_stream)
        self.reset()
        self._kept = kept
        self._ready = driver.made("hipGraphInstantiate", graph, None, None, 0)
        driver.call("hipGraphDestroy", graph)

    def replay(self) -> None:
        """On this thread's stream."""
        stream = streams.current_stream()
        with memory.current(stream.device_index):
            driver.call("hipGraphLaunch", self._ready, stream.cuda_stream)

    def reset(self) -> None:
        """Forget it."""
        if self._ready:
            driver.status("hipGraphExecDestroy", self._ready)
            self._ready = 0
        self._kept = []

    def pool(self) -> tuple[int, int]:
        """There are no pools."""
        return 0, 0


class graph:  # noqa: N801 - torch's name
    """``with torch.cuda.graph(g)``: captures on a stream of its own."""

    def __init__(
        self, cuda_graph: CUDAGraph, pool: Any = None, stream: Any = None, capture_error_mode: str = "global"
    ) -> None:
        self._graph, self._mode = cuda_graph, capture_error_mode
        self._stream = stream or streams.Stream()
        del pool

    def __enter__(self) -> None:
        driver.call("hipDeviceSynchronize")
        self._stream.__enter__()
        self._graph.capture_begin(capture_error_mode=self._mode)

    def __exit__(self, *words: Any) -> None:  # noqa: PYI036 - handed on
        try:
            self._graph.capture_end()
        finally:
            self._stream.__exit__(*words)
