"""Give torch the emulator's devices in every Python that starts: ``aiter-prebuilt-emulator run --torch`` puts this folder first.

Python imports ``sitecustomize`` at its start. torch itself is not imported here: its import is what installs the devices.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Final

_HERE: Final = str(Path(__file__).resolve().parent)


class _Torch(MetaPathFinder):
    """Finds torch as Python does, and installs the emulator's devices behind it."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Answer for ``torch`` alone. Programs also ask only whether it is there."""
        del path, target
        if name != "torch":
            return None
        spec = PathFinder.find_spec(name)
        loader: Any = None if spec is None else spec.loader
        # A child may be a Python of another environment, which has no emulator.
        if loader is None or find_spec("aiter_prebuilt_emulator") is None:
            return spec
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            sys.meta_path.remove(self)
            from aiter_prebuilt_emulator import torch as emulated

            emulated.install()

        loader.exec_module = exec_module
        return spec


def _next() -> None:
    """Run the ``sitecustomize`` that this one hides."""
    places = [each for each in sys.path if each and str(Path(each).resolve()) != _HERE]
    spec = PathFinder.find_spec("sitecustomize", places)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(sys.modules[__name__])


sys.meta_path.insert(0, _Torch())
_next()
