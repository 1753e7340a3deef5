"""Brings a headless Chromium, and axe-core's checks of accessibility, into FOLDER: `python ci/browser.py build/browser`.

Both are files in packages of npm's, so that no system package and no root is needed. What is unpacked is compared with the
hashes below.
"""

from __future__ import annotations

import hashlib
import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

import brotli

#: npm's name -> SHA-256 of its package.
PACKAGES: Final = {
    "@sparticuz/chromium@147.0.0": "18fe5404ce845594cd7d592fc07f37a19514079ba4d9c27192ad8b908743f16b",
    "axe-core@4.14.1": "e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745",
}
CHROMIUM: Final = "chromium"
AXE: Final = "axe.min.js"


def package(name: str, folder: Path) -> tarfile.TarFile:
    """Npm's package ``name``, as it was when its hash was written down."""
    npm = shutil.which("npm")
    if npm is None:
        sys.exit("npm is not here: it brings the browser; or name one with AITER_PREBUILT_BROWSER")
    done = subprocess.run(
        [npm, "pack", "--silent", name], cwd=folder, check=True, capture_output=True, text=True
    )
    path = folder / done.stdout.strip().splitlines()[-1]
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != PACKAGES[name]:
        sys.exit(f"{name}: its SHA-256 is {found}, {PACKAGES[name]} is pinned here")
    return tarfile.open(path)


def member(archive: tarfile.TarFile, name: str) -> bytes:
    """Read one file of a package."""
    file = archive.extractfile(f"package/{name}")
    assert file is not None, name
    return file.read()


def bring(folder: Path) -> None:
    """Put the browser with the libraries that it needs, and axe-core, into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    chromium, axe = PACKAGES
    with tempfile.TemporaryDirectory() as place:
        with package(chromium, Path(place)) as archive:
            libraries = brotli.decompress(member(archive, "bin/al2023.tar.br"))
            with tarfile.open(fileobj=io.BytesIO(libraries)) as inner:
                inner.extractall(folder, filter="data")
            (folder / CHROMIUM).write_bytes(brotli.decompress(member(archive, "bin/chromium.br")))
        (folder / CHROMIUM).chmod(0o755)
        with package(axe, Path(place)) as archive:
            (folder / AXE).write_bytes(member(archive, "axe.min.js"))


if __name__ == "__main__":
    target = Path(sys.argv[1])
    if not all((target / name).is_file() for name in (CHROMIUM, AXE)):
        bring(target)
    print(target)
