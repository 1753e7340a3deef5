"""Under ``aiter-prebuilt-emulator run --torch``: what torch sees here, in a child by spawn, and in another Python."""

from __future__ import annotations

import importlib
import importlib.util
import json
import multiprocessing
import subprocess
import sys
from typing import Any


def seen(queue: Any = None) -> int:
    """Count torch's devices."""
    assert importlib.util.find_spec("torch") is not None  # asking must not use up the hook
    import torch

    count: int = torch.cuda.device_count()
    if queue is not None:
        queue.put(count)
    return count


if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    queue = context.SimpleQueue()
    child = context.Process(target=seen, args=(queue,))
    child.start()
    spawned = queue.get()
    child.join()
    line = "import torch; print(torch.ones(3, device='cuda').sum().device)"
    shell = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, check=True)
    hidden = getattr(importlib.import_module("sitecustomize"), "HIDDEN", "")
    print(
        json.dumps({"here": seen(), "spawned": spawned, "shell": shell.stdout.split()[-1], "hidden": hidden})
    )
