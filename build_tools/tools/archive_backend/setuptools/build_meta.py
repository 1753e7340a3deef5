"""The build backend (PEP 517) that ``fetch`` shows to ``pip download``, so that nothing of an archive is run.

pip takes no source archive without its metadata and asks the archive's backend for it, which would run its ``setup.py``. The
pinned archives name setuptools or scikit-build-core; this answers in their place with the ``PKG-INFO`` that lies in every source
archive.
"""

from __future__ import annotations

import shutil
import sys
from email.parser import HeaderParser
from pathlib import Path


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: object = None) -> str:
    """Copy ``PKG-INFO`` of the archive in the working directory; the name of the folder made.

    pip 23 reads the distribution's name from the folder's, newer ones from the file.
    """
    del config_settings
    facts = HeaderParser().parsestr(Path("PKG-INFO").read_text(encoding="utf-8"), headersonly=True)
    name = str(facts["Name"]).replace("-", "_")
    folder = Path(metadata_directory) / f"{name}-{facts['Version']}.dist-info"
    folder.mkdir()
    shutil.copyfile("PKG-INFO", folder / "METADATA")
    return folder.name


#: What pip names when an archive names no backend.
__legacy__ = sys.modules[__name__]
