"""Errors of the bridge: what was asked, what was found, what to type next."""

from __future__ import annotations

from aiter_prebuilt.errors import AiterPrebuiltError


class MachineError(AiterPrebuiltError, RuntimeError):
    """The machine has no GPU, or several that differ where AITER wants one answer."""

    exit_code = 37


class CompileRefusedError(AiterPrebuiltError, RuntimeError):
    """``AITER_PREBUILT_BRIDGE=strict``, and AITER's JIT was about to compile."""

    exit_code = 38


class NoAiterError(AiterPrebuiltError, ImportError):
    """There is no AITER to be asked, or it cannot be imported."""

    exit_code = 39


class CacheDamagedError(AiterPrebuiltError):
    """A file of the bridge's data wheel is not what the wheel's index says."""

    exit_code = 40


class ForeignFileError(AiterPrebuiltError, FileExistsError):
    """A file that somebody else wrote is where one of ours would be."""

    exit_code = 41
