"""Writing wheels so that the same members give the same bytes.

Members are stored, not deflated: the bundle is compressed already, and the bytes that deflate writes differ between
zlib and zlib-ng, hence between two Python builds.
"""

from __future__ import annotations

import stat
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final
from zipfile import ZIP_STORED, ZipInfo

from wheel.wheelfile import WheelFile

from build_tools.errors import WheelError
from build_tools.files.reproducible import epoch

#: The name of the runtime's distribution, which all others begin with.
RUNTIME: Final = "aiter-prebuilt"
#: PyPI's limit per file.
MAX_WHEEL_BYTES: Final = 100_000_000
_UNIX: Final = 3


class PinnedWheel(WheelFile):  # type: ignore[misc]  # the package has no types
    """A wheel writer whose members, RECORD included, have the pinned time and mode and are stored.

    Members keep the order in which they are added; callers add them sorted, ``.dist-info`` last.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, "w", compression=ZIP_STORED)

    def writestr(
        self, zinfo_or_arcname: str | ZipInfo, data: object, compress_type: int | None = None
    ) -> None:
        """Add ``data`` (text or bytes) as a member; of an incoming ``ZipInfo`` only its name and exec bit are kept."""
        del compress_type  # everything is stored
        executable = False
        name = zinfo_or_arcname
        if isinstance(name, ZipInfo):
            executable = bool(name.external_attr >> 16 & stat.S_IXUSR)
            name = name.filename
        info = ZipInfo(name, date_time=time.gmtime(epoch())[:6])
        info.create_system = _UNIX
        info.compress_type = ZIP_STORED
        info.external_attr = (stat.S_IFREG | (0o755 if executable else 0o644)) << 16
        super().writestr(info, data, ZIP_STORED)


def write_members(path: Path, members: Mapping[str, bytes], executables: Iterable[str] = ()) -> None:
    """Write a wheel of ``members`` (name -> bytes), sorted with ``.dist-info`` last; RECORD is added.

    Raises:
        WheelError: the wheel is larger than an index takes; it is removed again.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    runnable = set(executables)
    with PinnedWheel(path) as wheel:
        for name in sorted(members, key=lambda name: (".dist-info/" in name, name)):
            info = ZipInfo(name)
            if name in runnable:
                info.external_attr = stat.S_IXUSR << 16
            wheel.writestr(info, members[name])
    size = path.stat().st_size
    if size > MAX_WHEEL_BYTES:
        path.unlink()
        raise WheelError(
            f"pack {path.name}",
            f"{size} bytes, {MAX_WHEEL_BYTES} is the limit",
            "Split the bundle by profile",
        )
