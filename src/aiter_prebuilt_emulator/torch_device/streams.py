"""``torch.cuda.Stream`` and ``torch.cuda.Event`` on HIP's own."""

from __future__ import annotations

import ctypes
from types import TracebackType
from typing import Any, Final

import torch

from aiter_prebuilt_emulator.torch_device import driver, memory

_NON_BLOCKING: Final = 1
_OF_TORCH: Final = torch.Event
_BLOCKING_SYNC, _NO_TIMING, _INTERPROCESS = 1, 2, 4


def index_of(device: Any) -> int:
    """Return the ordinal of the device that the program names.

    None is the current one.

    Raises:
        ValueError: it is no GPU.
    """
    if device is None:
        return memory.STATE.device
    if isinstance(device, int):  # as torch counts accelerators
        return device if device >= 0 else memory.STATE.device
    found: Any = torch.device(device)
    if found.type != "cuda":
        raise ValueError(f"Expected a cuda device, but got: {device}")
    return memory.STATE.device if found.index is None else int(found.index)


def gpu_of(value: Any) -> int | None:
    """Return the ordinal that a device argument names.

    None: it names the processor, or is none.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        value = torch.device(value)
    if isinstance(value, torch.device) and value.type == "cuda":
        return index_of(value)
    return None


class Stream:
    """A stream that does not wait for the default one, as torch makes them."""

    def __init__(self, device: Any = None, priority: int = 0, *, handle: int | None = None, **_: Any) -> None:
        self.device_index = index_of(device)
        self._own = handle is None
        self.priority = priority
        if handle is None:
            with memory.current(self.device_index):
                handle = driver.made("hipStreamCreateWithPriority", _NON_BLOCKING, priority)
        self.cuda_stream = handle

    def __del__(self) -> None:
        # Work on it goes on; so do frees that were enqueued there.
        if getattr(self, "_own", False):
            driver.status("hipStreamDestroy", self.cuda_stream)

    @property
    def device(self) -> torch.device:
        """The stream's device."""
        return torch.device("cuda", self.device_index)

    @property
    def stream_id(self) -> int:
        """A number that tells it from others."""
        return self.cuda_stream

    def query(self) -> bool:
        """Is all done that was enqueued?"""
        return _ready("hipStreamQuery", self.cuda_stream)

    def is_capturing(self) -> bool:
        """Is what it gets kept for a graph? The default stream captures nothing."""
        return bool(self.cuda_stream) and driver.number_of_capture(self.cuda_stream) != 0

    def synchronize(self) -> None:
        """Wait until it is."""
        with memory.current(self.device_index):
            driver.call("hipStreamSynchronize", self.cuda_stream)

    def wait_event(self, event: AnyEvent) -> None:
        """Make later work on this stream wait for the event."""
        if event.cuda_event:
            with memory.current(self.device_index):
                driver.call("hipStreamWaitEvent", self.cuda_stream, event.cuda_event, 0)

    def wait_stream(self, stream: Stream) -> None:
        """Make later work on this stream wait for the other stream."""
        self.wait_event(stream.record_event())

    def record_event(self, event: AnyEvent | None = None) -> AnyEvent:
        """Record the event, or a new one, behind enqueued work."""
        event = event or Event()
        event.record(self)
        return event

    def __enter__(self) -> Stream:  # noqa: PYI034 - torch has it so
        self._before = getattr(self, "_before", [])
        self._before.append((memory.STATE.device, current_stream(self.device_index)))
        set_stream(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        device, stream = self._before.pop()
        set_stream(stream)
        memory.select(device)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and (other.cuda_stream, other.device_index) == (
            self.cuda_stream,
            self.device_index,
        )

    def __hash__(self) -> int:
        return hash((self.cuda_stream, self.device_index))

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


class ExternalStream(Stream):
    """Somebody else's stream, by its handle."""

    def __init__(self, stream_ptr: int, device: Any = None, **_: Any) -> None:
        super().__init__(device, handle=stream_ptr)


class AnyEvent:
    """A point in a stream, as ``torch.Event`` is called; for another device than an emulated one, torch's own."""

    def __new__(cls, device: Any = None, *_: Any, **keywords: Any) -> Any:
        """Make an event of the device's kind."""
        if cls is AnyEvent and device is not None and gpu_of(device) is None:
            return _OF_TORCH(device, **keywords)
        return super().__new__(cls)

    def __init__(
        self,
        device: Any = None,
        *,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
    ) -> None:
        del device  # that of the first record
        self._flags = (
            (0 if enable_timing else _NO_TIMING)
            | (_BLOCKING_SYNC if blocking else 0)
            | (_INTERPROCESS if interprocess else 0)
        )
        self.cuda_event = 0  # made on the device of the first record

    def __del__(self) -> None:
        if getattr(self, "cuda_event", 0):
            driver.status("hipEventDestroy", self.cuda_event)

    def record(self, stream: Stream | None = None) -> None:
        """Record the event behind the stream's present work."""
        stream = stream or current_stream()
        with memory.current(stream.device_index):
            self.cuda_event = self.cuda_event or driver.made("hipEventCreateWithFlags", self._flags)
            driver.call("hipEventRecord", self.cuda_event, stream.cuda_stream)

    def wait(self, stream: Stream | None = None) -> None:
        """Make later work on the stream wait for this event."""
        (stream or current_stream()).wait_event(self)

    def query(self) -> bool:
        """Has it passed?"""
        return not self.cuda_event or _ready("hipEventQuery", self.cuda_event)

    def synchronize(self) -> None:
        """Wait until it has."""
        if self.cuda_event:
            driver.call("hipEventSynchronize", self.cuda_event)

    def elapsed_time(self, end_event: AnyEvent) -> float:
        """Milliseconds of the host's clock."""
        if not self.cuda_event or not end_event.cuda_event:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        out = ctypes.c_float()
        driver.call("hipEventElapsedTime", ctypes.byref(out), self.cuda_event, end_event.cuda_event)
        return out.value


class Event(AnyEvent):
    """A point in a stream, as ``torch.cuda.Event`` is called."""

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, **_: Any
    ) -> None:
        super().__init__(enable_timing=enable_timing, blocking=blocking, interprocess=interprocess)


def _ready(name: str, handle: int) -> bool:
    code = driver.status(name, handle)
    if code not in (0, driver.NOT_READY):
        driver.call(name, handle)
    return code == 0


def default_stream(device: Any = None) -> Stream:
    """Return the legacy stream of a device."""
    return Stream(index_of(device), handle=0)


def current_stream(device: Any = None) -> Stream:
    """Return the stream of this thread."""
    ordinal = index_of(device)
    found: Stream | None = memory.STATE.streams.get(ordinal)
    return found or default_stream(ordinal)


def set_stream(stream: Stream | None) -> None:
    """Enqueue there from now on."""
    if stream is not None:
        memory.select(stream.device_index)
        memory.STATE.streams[stream.device_index] = stream


class stream:  # noqa: N801 - torch's name
    """``with torch.cuda.stream(s)``; None changes nothing."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            self.stream.__enter__()

    def __exit__(self, *words: Any) -> None:  # noqa: PYI036 - handed on
        if self.stream is not None:
            self.stream.__exit__(*words)


def settle(ordinal: int) -> None:
    """Before the processor looks at a device's memory: what this thread's stream has is done.

    Raises:
        RuntimeError: the stream captures, and what the processor does would not be captured.
    """
    with memory.current(ordinal):
        found = current_stream(ordinal)
        if found.is_capturing():
            raise RuntimeError(
                "torch's own operators run on the processor, and are in no graph of the emulator: capture kernels only"
            )
        driver.call("hipStreamSynchronize", found.cuda_stream)
