"""FlyDSL's child once more, for ``build --keep-ir``: its dumps are copied before its folder goes.

python -m build_tools.compile.flydsl_stages REQUEST ANSWERS FOLDER
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from build_tools.compile.backends import flydsl_compile

_KEPT: Final = "kept"


def main(argv: Sequence[str]) -> int:
    """Do the request, and copy what each compile dumps to ``argv[2]``."""
    request, answers, folder = argv
    place = Path(folder).resolve()
    compile_kernel, compile_job = flydsl_compile.compile_kernel, flydsl_compile.compile_job

    def kept(module: ModuleType, symbol: str, constants: Mapping[str, Any], stages: Path) -> bytes:
        data = compile_kernel(module, symbol, constants, stages)
        # A source may write below the scratch folder alone, and is still being watched.
        shutil.copytree(stages, stages.parent / _KEPT)
        return data

    def done(job: Mapping[str, Any], root: Path, scratch: Path) -> dict[str, Any]:
        answer = compile_job(job, root, scratch)
        shutil.copytree(scratch / _KEPT, place, dirs_exist_ok=True)
        return answer

    vars(flydsl_compile).update(compile_kernel=kept, compile_job=done)
    return flydsl_compile.main([request, answers])


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
