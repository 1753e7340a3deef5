"""A folder from which all of this project is built at a site without a network: compilers, packages and sources, as pinned.

pip finds them there (``PIP_NO_INDEX``, ``PIP_FIND_LINKS``), and so do nox, the pipeline's own fetching of sources, and build
backends that pip starts. Everything is for the Python and the machine that make the folder.
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from build_tools.errors import MirrorError
from build_tools.files.reproducible import write_atomic
from build_tools.files.run import run
from build_tools.release.sign import Signer, write_sums
from build_tools.tools import editions, locks, pins
from build_tools.tools.fetch import archive_of, cache_folder, without_login

PACKAGES: Final = "packages"
PAGE: Final = "README.md"
#: What builds; what the tests need beside it, torch's hundreds of megabytes with it, only when asked for.
BUILDS: Final = ("makers", "build", "lint", "release")
TESTS: Final = ("test", "clients", "aiter", "torch")
_TIMEOUT: Final = 3600.0
_TEXT: Final = """# To build aiter-prebuilt without a network

For CPython {python} on {machine}. Check first: `sha256sum -c SHA256SUMS`. Then, in a checkout of the commit that this was made
of, with FOLDER the absolute path of this folder:

    export PIP_NO_INDEX=1 PIP_FIND_LINKS=FOLDER/{packages}
    python{python} -m venv build/nox && build/nox/bin/python -m pip install -r build_tools/locks/nox.txt
    build/nox/bin/python -m nox -s wheels

{tests}
"""
_EDITION: Final = """The edition {name} is here, too. Before `nox -s wheels`:

    export AITER_PREBUILT_SDISTS=FOLDER/{packages} AITER_PREBUILT_EDITIONS={name}
    python -m build_tools fetch --edition {name}

"""
Say = Callable[[str], None]


def fill(root: Path, folder: Path, tests: bool, keys: Sequence[Signer], say: Say) -> int:
    """Put all that a build takes from outside into ``folder``; how many files.

    Raises:
        MirrorError: pip cannot get one of them. FetchError: a source is not to be had. ManifestError: the pins cannot be read.
    """
    packages = folder / PACKAGES
    packages.mkdir(parents=True, exist_ok=True)
    say("the compilers, by the hashes that are pinned")
    _download(packages, "--no-deps", "--require-hashes", "-r", str(root / "build_tools" / "requirements.txt"))
    names = (*BUILDS, *(TESTS if tests else ()))
    say(f"packages of the groups {', '.join(names)}, and what they need, by the hashes of their locks")
    files = [word for name in names for word in ("-r", str(root / locks.path_of(name)))]
    _download(packages, "--no-deps", "--require-hashes", *files)
    if tests:
        (version,) = locks.asked_for(root, "torch").values()
        _download(packages, "--no-deps", f"torch=={version}")
    pinned = pins.load(root)
    for pin in (*pinned.sources.values(), *(tree.archive for tree in pinned.trees.values())):
        say(f"the sources {pin.file}")
        target = packages / pin.file
        if not target.is_file():
            with tempfile.TemporaryDirectory(prefix="mirror-") as found:
                write_atomic(target, archive_of(pin, Path(found)).read_bytes())
    told = _editions(pinned, packages, say) + (
        "Tests can be run, too."
        if tests
        else "What tests need is not in here (`mirror build --tests` brings it)."
    )
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    text = _TEXT.format(python=python, machine=platform.machine(), packages=PACKAGES, tests=told)
    write_atomic(folder / PAGE, text.encode())
    write_sums(folder, keys)
    return sum(1 for _ in packages.iterdir())


def _editions(pinned: pins.Pins, packages: Path, say: Say) -> str:
    """Pack the editions that this build reads; what the page says of them."""
    told = ""
    for pin in editions.requested(pinned.editions.values()):
        say(f"the edition {pin.edition}")
        place = editions.folder_of(pin, cache_folder(), os.environ.get(pin.override, ""))
        editions.pack(pin, place, packages / f"{pin.folder}.zip")
        told += _EDITION.format(name=pin.edition, packages=PACKAGES)
    return told


def aiter(root: Path, folder: Path, say: Say) -> list[Path]:
    """Fetch AITER's pinned wheel, and what its metadata asks for except torch, into ``folder``; the wheels.

    Raises:
        MirrorError: pip cannot get one of them.
        FetchError: AITER's wheel is not to be had.
        ManifestError: the pins cannot be read.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for tree in pins.load(root).trees.values():
        say(f"AITER's wheel {tree.archive.file}")
        target = folder / tree.archive.file
        with tempfile.TemporaryDirectory(prefix="mirror-") as found:
            write_atomic(target, archive_of(tree.archive, Path(found)).read_bytes())
    say("what it asks for, by the hashes of its lock")
    _download(folder, "--no-deps", "--require-hashes", "-r", str(root / locks.path_of("server")))
    return sorted(folder.glob("*.whl"))


def _download(packages: Path, *words: str) -> None:
    """Everything as wheels: the code of an archive would run to say what it needs."""
    command: list[str | Path] = [sys.executable, "-m", "pip", "download", "-q", "-d", packages]
    command += ["--only-binary=:all:", "--no-input", "--progress-bar=off", "--disable-pip-version-check"]
    outcome = run([*command, *words], env=dict(os.environ), timeout=_TIMEOUT)
    if not outcome.ok:
        raise MirrorError(
            f"download into {packages}",
            f"pip download: {outcome.describe()}\n{without_login(outcome.output.strip())}",
            "Check the network and pip's index settings",
        )
