"""FlyDSL's child once more, for ``build --keep-ir``: its dumps are copied before its folder goes.

python -m build_tools.compile.flydsl_stages REQUEST ANSWERS FOLDER
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from build_tools.compile.backends import flydsl_compile


def main(argv: Sequence[str]) -> int:
    """Do the request, and copy what each compile dumps to ``argv[2]``."""
    request, answers, folder = argv
    place = Path(folder).resolve()
    compile_kernel = flydsl_compile.compile_kernel

    def kept(module: ModuleType, symbol: str, constants: Mapping[str, Any], stages: Path) -> bytes:
        data = compile_kernel(module, symbol, constants, stages)
        shutil.copytree(stages, place, dirs_exist_ok=True)
        return data

    vars(flydsl_compile)["compile_kernel"] = kept
    return flydsl_compile.main([request, answers])


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
