"""A scheduler's process: workers and builds meet there. It holds no files and runs no work."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from build_tools.errors import FarmError
from build_tools.farm import address

#: Workers that may be lost with a job before it is blamed: the machine's fault may be, three times it is the job's.
LOST: Final = 3


def serve(host: str, port: int, tls: Path | None, said: Callable[[str], None]) -> None:
    """Listen until this process is asked to end. ``said`` is told where.

    Raises:
        OpenFarmError: without TLS off the loopback. FarmError: a certificate is missing, or the port is another's.
    """
    scheme = "tcp" if tls is None else "tls"
    trusted = address.security(f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}", tls)
    address.quiet()
    asyncio.run(_serve(host, port, trusted, scheme, said))


async def _serve(host: str, port: int, trusted: Any, scheme: str, said: Callable[[str], None]) -> None:
    from distributed import Scheduler

    try:
        scheduler: Any = await Scheduler(
            host=host,
            port=port,
            security=trusted,
            protocol=f"{scheme}://",
            dashboard=False,
            dashboard_address=address.NO_PAGE,
            allowed_failures=LOST,
        )
    except OSError as error:
        raise FarmError(f"listen at {host}:{port}", str(error), "Choose another --port or --host") from error
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, lambda: loop.create_task(scheduler.close(reason="asked to end")))
    said(scheduler.address)
    await scheduler.finished()
