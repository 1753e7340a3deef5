"""Every error of the runtime, one class each: what failed, the value that was found, what to do.

The native extension raises these classes too, by name (``csrc/runtime/errors.h`` lists them and a test
compares the two). All are subclasses of :class:`AiterPrebuiltError`; those about an argument are also
``TypeError`` or ``ValueError``, so that callers who know only Python's classes still catch them.

The command ``aiter-prebuilt`` ends with ``exit_code``: each class has one of its own. ``docs/exit-codes.md`` lists them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from aiter_prebuilt.contract.error_text import DescribedError

#: Exit code of a command that Ctrl-C ended, as shells have it for SIGINT.
INTERRUPTED: Final = 130


class AiterPrebuiltError(DescribedError):
    """Base of all errors here. ``asked``, ``found`` and ``fix`` are kept apart for programs; ``str()`` is a sentence or two."""

    exit_code: ClassVar[int] = 1


class NativeError(AiterPrebuiltError, ImportError):
    """The native extension is missing or has another ABI number than this package."""

    exit_code = 4


class NoBundleError(AiterPrebuiltError):
    """No installed bundle serves the target of this device."""

    exit_code = 5


class BundleDamagedError(AiterPrebuiltError):
    """A bundle is truncated or some of its bytes are not what was recorded."""

    exit_code = 6


class BundleVersionError(AiterPrebuiltError):
    """A bundle of another format or recipe version than this runtime reads."""

    exit_code = 7


class BundleTargetError(AiterPrebuiltError):
    """A bundle's content is not for the target that its wheel or folder names."""

    exit_code = 8


class BundleConflictError(AiterPrebuiltError):
    """Two installed bundles claim the same kernel of one operator, or disagree about its signature."""

    exit_code = 9


class NoOperatorError(AiterPrebuiltError, AttributeError):
    """No installed bundle has this operator."""

    exit_code = 10


class DriverError(AiterPrebuiltError):
    """The GPU driver library is absent, too old, or answered with an error. ``found`` has the driver's own code and name."""

    exit_code = 11


class NoDeviceError(DriverError):
    """The driver works and reports no GPU."""

    exit_code = 3


class LoadError(DriverError):
    """The driver refused a code object, or its kernel symbol is missing."""

    exit_code = 12


class LaunchError(DriverError):
    """The driver refused a launch."""

    exit_code = 13


class CaptureError(AiterPrebuiltError):
    """A graph capture is running and the kernel is not loaded yet; loading it would spoil the capture."""

    exit_code = 14


class ForkError(AiterPrebuiltError):
    """This process is a fork of one that had already opened the driver."""

    exit_code = 15


class ArgumentError(AiterPrebuiltError, ValueError):
    """An argument breaks the operator's signature. Base of the classes below."""

    exit_code = 2


class ArgumentCountError(ArgumentError, TypeError):
    """Too few or too many arguments."""

    exit_code = 16


class ArgumentKindError(ArgumentError, TypeError):
    """Not a tensor where one is needed, or not a number, or None for an argument that is not optional."""

    exit_code = 17


class ArgumentDTypeError(ArgumentError, TypeError):
    """A tensor of another element type (another fp8 flavour too), or types that no kernel combines."""

    exit_code = 18


class ArgumentShapeError(ArgumentError):
    """A tensor of another rank, or a size that differs from what the signature says."""

    exit_code = 19


class ArgumentStrideError(ArgumentError):
    """A tensor that is not contiguous, a stride that the signature does not allow, or memory that an output shares with itself
    or with another tensor.
    """

    exit_code = 20


class ArgumentAlignmentError(ArgumentError):
    """A base address that is not a multiple of what the signature says."""

    exit_code = 21


class ArgumentDeviceError(ArgumentError):
    """Tensors on the CPU, on different devices, or without memory (meta and fake tensors)."""

    exit_code = 22


#: Asks for checks of values (``value_checks.py``). Read when an operator is made: a later change has no effect.
CHECK: Final = "AITER_PREBUILT_CHECK"


class ArgumentValueError(ArgumentError):
    """A value on the device that the operator's contract does not allow; ``AITER_PREBUILT_CHECK=1`` looked for it."""

    exit_code = 23


class UnsupportedError(AiterPrebuiltError, NotImplementedError):
    """An option of the AITER signature that no kernel here covers; never silently ignored."""

    exit_code = 24


class NoBridgeError(AiterPrebuiltError, ImportError):
    """``aiter-prebuilt bridge`` where the bridge is not installed."""

    exit_code = 25


class FreeThreadedError(AiterPrebuiltError, ImportError):
    """The package was imported by a free-threaded Python."""

    exit_code = 26


class KeyFileError(AiterPrebuiltError, ValueError):
    """A file of public keys cannot be read."""

    exit_code = 27


class UnsignedError(AiterPrebuiltError):
    """A bundle or a release without a signature, where keys were named."""

    exit_code = 28


class WrongKeyError(AiterPrebuiltError):
    """A signature that none of the named keys made."""

    exit_code = 29


class SignatureError(AiterPrebuiltError):
    """A signature that is not right: what it signs, its comment, or itself was changed."""

    exit_code = 30


class OldBundleError(AiterPrebuiltError):
    """A bundle that a trusted key signed for an older release than this runtime."""

    exit_code = 31


class TunedTableError(AiterPrebuiltError, ValueError):
    """A table of tuned rows (``AITER_PREBUILT_TUNED``) cannot be read; ``asked`` names file, line and column."""

    exit_code = 32


class OtherTableError(TunedTableError):
    """A table that ``tune`` was to go on with was measured on another device, with another driver, or with another bundle."""

    exit_code = 33


class MissLogError(AiterPrebuiltError, ValueError):
    """A miss log (``AITER_PREBUILT_MISS_LOG``) cannot be read; ``asked`` names file and line."""

    exit_code = 34


class WorkerError(AiterPrebuiltError):
    """A process that measured on a card ended before it said anything."""

    exit_code = 35


class UnfinishedError(AiterPrebuiltError):
    """Nothing was wrong, and the time that ``certify`` had did not suffice for all of it."""

    exit_code = 42


#: More refusals than these are told by reason: a reader looks for the reason, not for the hundredth variant that has it.
MOST_LINES: Final = 12


def by_reason(refusals: Sequence[tuple[str, str]]) -> list[str]:
    """Group refusals into lines.

    A line for each (candidate, reason), or for each reason when they are more than :data:`MOST_LINES`, in the order in which they
    come: callers put the nearest candidate first.
    """
    if len(refusals) <= MOST_LINES:
        return [f"{candidate}: {reason}" for candidate, reason in refusals]
    groups: dict[str, list[str]] = {}
    for candidate, reason in refusals:
        groups.setdefault(reason, []).append(candidate)
    return [
        f"{len(names)} of {len(refusals)} candidates ({names[0]}{', ...' if len(names) > 1 else ''}): {reason}"
        for reason, names in groups.items()
    ]


class NoKernelError(AiterPrebuiltError):
    """Every candidate was refused. ``reasons`` holds one line per candidate, first the one that the fewest types and conditions
    keep from serving the call; ``str()`` groups them when they are many.
    """

    exit_code = 36

    def __init__(self, asked: str, found: str, fix: str, reasons: Sequence[str] = ()) -> None:
        super().__init__(asked, found, fix)
        self.reasons = tuple(reasons)

    def __str__(self) -> str:
        parts = [reason.partition(": ") for reason in self.reasons]
        lines = "".join(f"\n  {line}" for line in by_reason([(name, why) for name, _, why in parts]))
        return f"{super().__str__().removesuffix('.')}:{lines}" if lines else super().__str__()
