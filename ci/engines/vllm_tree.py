"""vLLM's Python files, without the modules that its wheel holds compiled for NVIDIA cards."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path
from typing import Final

from engines.errors import EngineError

#: What stands where a compiled module was: vLLM imports it for the operators that it registers.
_IMPORT: Final = """\
import engines.vllm_operators  # noqa: F401
import engines.vllm_warmups

engines.vllm_warmups.install()
"""


def unpacked(folder: Path) -> Path:
    """Unpack the wheel of vLLM that lies in ``folder``, once.

    Returns:
        The folder for ``PYTHONPATH``.

    Raises:
        EngineError: there is no wheel, or several.
    """
    wheels = sorted(folder.glob("vllm-*.whl"))
    if len(wheels) != 1:
        found = ", ".join(path.name for path in wheels) or "none"
        raise EngineError(
            f"One wheel of vLLM is needed in {folder}, and there is {found}. Run: nox -s engines"
        )
    wheel = wheels[0]
    place = folder / "-".join(wheel.name.split("-")[:2])
    mark = place / "vllm" / "_C.py"
    if mark.is_file():
        return place
    shutil.rmtree(place, ignore_errors=True)
    try:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(place, [name for name in archive.namelist() if not name.endswith(".so")])
    except (OSError, zipfile.BadZipFile) as error:
        raise EngineError(
            f"{wheel} cannot be unpacked: {error}. Remove it and run: nox -s engines"
        ) from error
    mark.write_text(_IMPORT, encoding="utf-8")
    return place
