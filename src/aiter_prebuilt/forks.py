"""A fork waits until no other thread is inside an import that this package began.

CPython gives the child a new import lock, but a module's own lock stays with the thread that held it, and that thread is not
in the child: whoever needs the module there waits for ever. So what imports late does it inside :data:`importing`; a fork lets
others finish first and nobody begin until it is done. It waits :data:`PATIENCE` seconds at most, because what another thread
imports may itself wait for the one that forks; a child that was made all the same is told so.
"""

from __future__ import annotations

import os
import time

# Not `threading`: it is milliseconds of an import that does nothing else.
from _thread import RLock, get_ident
from types import TracebackType
from typing import Final

from aiter_prebuilt.errors import ForkError

#: Seconds. An import reads a few small files.
PATIENCE: Final = 10.0


class Importing:
    """``with importing:`` around an import that happens late; any thread, nested or not."""

    def __init__(self) -> None:
        # Reentrant: a signal's handler may fork while its thread is in here. No importer holds it while it imports.
        self._lock = RLock()
        self._inside: dict[int, int] = {}
        self._forking: set[int] = set()
        self._left_behind = False

    def __enter__(self) -> None:
        """Refuse an import in a child forked during another import.

        Raises ForkError where another thread of the parent was importing.
        """
        if self._left_behind:
            raise ForkError(
                "import a part of aiter_prebuilt in this child process",
                "it was forked while another thread of its parent was importing that part",
                "Start workers with the 'spawn' method, or use aiter_prebuilt once in the parent before it forks "
                "(`aiter_prebuilt.rms_norm` loads the code and opens no GPU)",
            )
        mine = get_ident()
        with self._lock:
            self._inside[mine] = self._inside.get(mine, 0) + 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        mine = get_ident()
        with self._lock:
            self._inside[mine] -= 1
            if not self._inside[mine]:
                del self._inside[mine]

    def _others(self) -> bool:
        return any(thread != get_ident() for thread in self._inside)

    def before(self) -> None:
        """In the thread that forks: take the lock when no other thread imports."""
        end = time.monotonic() + PATIENCE
        while (left := end - time.monotonic()) > 0:
            if not self._lock.acquire(timeout=left):
                return
            if not self._others():
                self._forking.add(get_ident())
                return
            self._lock.release()
            time.sleep(0.001)

    def after_in_parent(self) -> None:
        """Others may import again."""
        if get_ident() in self._forking:
            self._forking.discard(get_ident())
            self._lock.release()

    def after_in_child(self) -> None:
        """Nobody else is here: the lock is a new one, and who was importing never ends."""
        mine = get_ident()
        self._left_behind = self._left_behind or self._others()
        self._lock = RLock()
        self._inside = {mine: self._inside[mine]} if mine in self._inside else {}
        self._forking = set()


importing: Final = Importing()
os.register_at_fork(
    before=importing.before,
    after_in_parent=importing.after_in_parent,
    after_in_child=importing.after_in_child,
)
