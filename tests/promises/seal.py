"""A process that may compute, read and nothing else: a seccomp filter in plain BPF (x86-64), through ctypes.

After :func:`apply`, a system call that starts a program, opens a connection, opens a file for writing, changes a folder,
takes a lock, or makes anonymous memory executable ends the process with SIGSYS, and faulthandler prints the Python stack.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import platform
import signal
import struct
from typing import Final

#: System calls of x86-64 that are refused whatever their arguments are.
ALWAYS: Final = {
    "creat": 85, "execve": 59, "execveat": 322, "fork": 57, "vfork": 58, "socket": 41, "connect": 42, "bind": 49,
    "listen": 50, "sendto": 44, "sendmsg": 46, "mkdir": 83, "mkdirat": 258, "rmdir": 84, "unlink": 87, "unlinkat": 263,
    "rename": 82, "renameat": 264, "renameat2": 316, "link": 86, "linkat": 265, "symlink": 88, "symlinkat": 266,
    "mknod": 133, "mknodat": 259, "flock": 73, "truncate": 76, "ftruncate": 77, "chmod": 90, "fchmod": 91, "chown": 92,
    "fchown": 93, "fchmodat": 268, "fchownat": 260, "utimensat": 280, "setxattr": 188, "memfd_create": 319,
    "io_uring_setup": 425, "ptrace": 101, "shmget": 29,
}  # fmt: skip
#: Their arguments lie in memory, which a filter cannot read; libc does without them when they do not exist.
MISSING: Final = {"clone3": 435, "openat2": 437}
_OPEN, _OPENAT, _MMAP, _MPROTECT, _CLONE, _FCNTL, _WRITE, _PWRITE = 2, 257, 9, 10, 56, 72, 1, 18
_LOCKS: Final = (6, 7, 37, 38)  # F_SETLK, F_SETLKW, F_OFD_SETLK, F_OFD_SETLKW
_FOR_WRITING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_EXECUTABLE, _ANONYMOUS, _THREAD = 4, 0x20, 0x10000

_LOAD, _EQUAL, _GREATER, _ANY_BIT, _RETURN = 0x20, 0x15, 0x25, 0x45, 0x06
_ALLOW, _TRAP, _ENOSYS, _KILL = 0x7FFF0000, 0x00030000, 0x00050000 | 38, 0x80000000
_X86_64: Final = 0xC000003E

Instruction = tuple[int, int, int, int]


def _when(number: int, tests: list[Instruction], answer: int) -> list[Instruction]:
    """``answer`` for a call whose tests all hold. A test is (code, argument, value, wanted outcome)."""
    rest: list[Instruction] = []
    for code, argument, value, wanted in reversed(tests):
        out = len(rest) + 1  # past what is there and the return
        jumps = (0, out) if wanted else (out, 0)
        rest = [(_LOAD, 0, 0, 16 + 8 * argument), (code, *jumps, value), *rest]
    return [(_LOAD, 0, 0, 0), (_EQUAL, 0, len(rest) + 1, number), *rest, (_RETURN, 0, 0, answer)]


def instructions() -> list[Instruction]:
    """The filter: (code, jump if true, jump if false, value)."""
    rules = [_when(number, [], _TRAP) for number in ALWAYS.values()]
    rules += [_when(number, [], _ENOSYS) for number in MISSING.values()]
    rules += [
        _when(number, [(_ANY_BIT, place, _FOR_WRITING, 1)], _TRAP)
        for number, place in ((_OPEN, 1), (_OPENAT, 2))
    ]
    rules += [_when(_FCNTL, [(_EQUAL, 1, command, 1)], _TRAP) for command in _LOCKS]
    rules += [_when(number, [(_GREATER, 0, 2, 1)], _TRAP) for number in (_WRITE, _PWRITE)]
    rules.append(_when(_CLONE, [(_ANY_BIT, 0, _THREAD, 0)], _TRAP))
    rules.append(_when(_MMAP, [(_ANY_BIT, 2, _EXECUTABLE, 1), (_ANY_BIT, 3, _ANONYMOUS, 1)], _TRAP))
    rules.append(_when(_MPROTECT, [(_ANY_BIT, 2, _EXECUTABLE, 1)], _TRAP))
    start: list[Instruction] = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, _X86_64), (_RETURN, 0, 0, _KILL)]
    return [*start, *(row for rule in rules for row in rule), (_RETURN, 0, 0, _ALLOW)]


def possible() -> bool:
    """Is this a Linux of the architecture that the numbers are for?"""
    return platform.system() == "Linux" and platform.machine() == "x86_64"


def apply() -> None:
    """Seal this process, all its threads, for good. Raises OSError when the kernel refuses the filter."""
    program = b"".join(struct.pack("<HBBI", *row) for row in instructions())
    buffer = ctypes.create_string_buffer(program, len(program))
    header = ctypes.create_string_buffer(
        struct.pack("<H6xQ", len(program) // 8, ctypes.addressof(buffer)), 16
    )
    libc = ctypes.CDLL(None, use_errno=True)
    faulthandler.register(signal.SIGSYS, all_threads=False, chain=True)
    no_new_privileges, set_filter, all_threads, seccomp = 38, 1, 1, 317
    if libc.prctl(no_new_privileges, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_NO_NEW_PRIVS)")
    if libc.syscall(seccomp, set_filter, all_threads, header) != 0:
        raise OSError(ctypes.get_errno(), "seccomp(SECCOMP_SET_MODE_FILTER)")


def drop_privileges() -> None:
    """Become nobody, when this is root: no group, no way back."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)
