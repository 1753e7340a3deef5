"""Messages of the Debug Adapter Protocol on a pair of streams: JSON behind a header with its length."""

from __future__ import annotations

import json
import threading
from typing import IO, Any, Final

Message = dict[str, Any]
#: What the adapter can do, as the protocol names it.
CAPABILITIES: Final = {
    "supportsConfigurationDoneRequest": True, "supportsFunctionBreakpoints": True, "supportsInstructionBreakpoints": True,
    "supportsConditionalBreakpoints": True, "supportsDisassembleRequest": True, "supportsReadMemoryRequest": True,
    "supportsSteppingGranularity": True, "supportsTerminateRequest": True, "supportTerminateDebuggee": True,
    "supportsEvaluateForHovers": True, "supportsValueFormattingOptions": True,
    "exceptionBreakpointFilters": [{"filter": "fault", "label": "Faults of kernels", "default": True}],
}  # fmt: skip
_LONGEST: Final = 1 << 26
#: The only headers of the protocol. A browser that a web page made speak HTTP here begins with another line, and is not read on.
_HEADERS: Final = (b"content-length", b"content-type")


class Messages:
    """Reads requests, writes responses and events with their numbers; any thread may write."""

    def __init__(self, source: IO[bytes], sink: IO[bytes]) -> None:
        self._source, self._sink = source, sink
        self._lock = threading.Lock()
        self._number = 0

    def read(self) -> Message | None:
        """Return the next message.

        None at the end, and when the other side speaks something else.
        """
        length = -1
        try:
            while line := self._source.readline(4096):
                if not line.strip():
                    break
                name, _, value = line.partition(b":")
                if name.strip().lower() not in _HEADERS:
                    return None
                if name.strip().lower() == b"content-length":
                    length = int(value)
            if not 0 <= length <= _LONGEST:
                return None
            body = self._source.read(length)
            found = json.loads(body) if len(body) == length else None
        except (OSError, ValueError, RecursionError):  # the last one: brackets without an end
            return None
        return found if isinstance(found, dict) else None

    def write(self, message: Message) -> None:
        """Send it; whether somebody still listens is seen where requests are read."""
        with self._lock:
            self._number += 1
            body = json.dumps({"seq": self._number, **message}).encode()
            try:
                self._sink.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
                self._sink.flush()
            except (OSError, ValueError):
                return

    def event(self, name: str, body: Message | None = None) -> None:
        """Send an event."""
        self.write({"type": "event", "event": name, "body": body or {}})
