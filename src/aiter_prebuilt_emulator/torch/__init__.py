"""torch on the emulator: with a CPU build of torch, programs for ``device="cuda"`` run as they are.

    python -m aiter_prebuilt_emulator.torch script.py ARGUMENTS...
    python -m pytest -p aiter_prebuilt_emulator.torch tests/

or, before anything else: ``import aiter_prebuilt_emulator.torch as emulated; emulated.install()``.

A tensor on the device is one of torch's own for the processor whose memory is the device's (``hipMalloc``). Kernels take its
address, and torch's operators run on the processor, after what its current stream has; their results go to the device's memory.
So values are the processor's: where a card's library would round otherwise (matrix products, random numbers), they differ as two
libraries do.
"""

from __future__ import annotations

import os
import threading
from typing import Any, Final

__all__ = ["install"]

_INSTALLED: Final = threading.Event()


def install() -> None:
    """Give ``torch.cuda`` the devices that ``AITER_PREBUILT_EMULATOR`` names, before HIP is opened. Again it does nothing.

    Raises:
        ImportError: torch is not installed, or is a build that has devices of its own.
    """
    if _INSTALLED.is_set():
        return
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            "aiter_prebuilt_emulator.torch needs torch, which is not installed; write: pip install torch, its CPU build"
        ) from error
    if torch.version.cuda or torch.version.hip:
        raise ImportError(
            f"torch {torch.__version__} has GPUs of its own, and would not look at the emulator; install its CPU build"
        )
    from aiter_prebuilt_emulator import library

    path = library()
    for name in ("AITER_PREBUILT_HIP", "TRITON_LIBHIP_PATH"):
        os.environ[name] = path
    from aiter_prebuilt_emulator.torch_device import (
        accelerator,
        autograd,
        compiler,
        cuda,
        defaults,
        exchange,
        files,
        functions,
        growth,
        libraries,
        operators,
        profiler,
    )

    cuda.install()
    accelerator.install()
    compiler.install()
    defaults.install()
    functions.install()
    growth.install()
    operators.install()
    libraries.install()
    profiler.install()
    autograd.install()
    exchange.install()
    files.install()
    _INSTALLED.set()


def pytest_load_initial_conftests(*_: Any) -> None:
    """``-p aiter_prebuilt_emulator.torch``: before any test file asks whether there is a GPU."""
    install()


def pytest_runtest_logfinish(*_: Any) -> None:
    """Reset the device after a test whose kernel faulted."""
    from aiter_prebuilt_emulator.torch_device import driver

    if _INSTALLED.is_set():
        for ordinal in range(driver.device_count()):
            driver.reset_after_fault(ordinal)
