"""``build_tools/locks``: every package of every environment, with the hashes of its files.

One file per dependency group of ``pyproject.toml``, which has what is asked for; a lock adds what that needs. ``uv`` resolves all
groups together, so that a package has one version in every file, then each by itself. pip installs from them with
``--require-hashes --no-deps``: a package that an index serves with other bytes is refused. One that nobody locked is not
installed.

torch is in no lock, only what it needs: its CPU build comes from an index of its own, and PyPI's brings gigabytes of CUDA.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from build_tools.errors import FetchError, ManifestError, StaleFilesError, ToolchainError
from build_tools.files.reproducible import write_atomic
from build_tools.files.run import run

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER: Final = Path("build_tools/locks")
#: What is built serves Python 3.10; what builds needs a later one (Triton has no wheel for it).
OLDEST: Final = "3.11"
#: PyPI's torch needs these on Linux, its CPU build none of them.
_CUDA: Final = re.compile(r"torch|triton|nvidia-.*|cuda-.*")
_ENTRY: Final = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)")
_HASH: Final = re.compile(r"--hash=sha256:([0-9a-f]{64})(?=\s|$)")
_HEAD: Final = """\
# Written from pyproject.toml's group {group} by `python -m build_tools update-pins`. Install with
#     pip install --no-deps --require-hashes -r {path}
"""
_TIMEOUT: Final = 600.0


def groups(root: Path) -> tuple[str, ...]:
    """Return the names of the dependency groups of ``pyproject.toml``, in its order."""
    return tuple(_table(root))


def path_of(group: str) -> Path:
    """Return the lock of a group, below the repository's root."""
    return FOLDER / f"{group}.txt"


def read(root: Path, group: str) -> str:
    """Return the text of a group's lock.

    Raises:
        ManifestError: it cannot be read.
    """
    try:
        return (root / path_of(group)).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ManifestError([f"{path_of(group)}: {error}"]) from error


def entries(text: str) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return name, version and the SHA-256 of each allowed file for every package of a lock.

    Raises:
        ManifestError: a package has no hash, so that pip would refuse the file.
    """
    found = []
    for entry in re.split(r"\n(?=[A-Za-z0-9])", "\n" + text):
        match = _ENTRY.match(entry)
        if match is None:
            continue
        digests = tuple(_HASH.findall(entry))
        if not digests:
            raise ManifestError([f"{FOLDER}: {match[1]}=={match[2]} has no sha256"])
        found.append((normal(match[1]), match[2], digests))
    return found


def pins_of(text: str) -> dict[str, str]:
    """Return name and version of each package of a lock. Of one that differs by Python, all versions, with ``,`` between.

    Raises:
        ManifestError: a package has no hash.
    """
    found: dict[str, list[str]] = {}
    for name, version, _ in entries(text):
        found.setdefault(name, []).append(version)
    return {name: ",".join(versions) for name, versions in found.items()}


def normal(name: str) -> str:
    """Return a package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def problems(root: Path) -> list[str]:
    """Return what is wrong with the locks, without a network: one that is missing, or of other versions or hashes.

    Raises:
        ManifestError: a lock has a package without a hash.
    """
    told = []
    versions: dict[str, tuple[str, str]] = {}
    hashes: dict[tuple[str, str], tuple[set[str], str]] = {}
    wanted = {path_of(group).name: group for group in groups(root)}
    told += [
        f"{FOLDER / name}: is of no dependency group of pyproject.toml"
        for name in sorted({path.name for path in (root / FOLDER).glob("*.txt")} - wanted.keys())
    ]
    for name, group in wanted.items():
        path = root / FOLDER / name
        if not path.is_file():
            told.append(f"{FOLDER / name}: is missing")
            continue
        text = path.read_text(encoding="utf-8")
        locked = pins_of(text)
        for package, version in asked_for(root, group).items():
            if package == "torch":
                continue
            if version not in locked.get(package, "").split(","):
                told.append(
                    f"{FOLDER / name}: {package} is {locked.get(package)}, pyproject.toml has {version}"
                )
        for package, version in locked.items():
            first = versions.setdefault(package, (version, name))
            if first[0] != version:
                told.append(f"{FOLDER / name}: {package} is {version}, in {first[1]} {first[0]}")
        for package, version, digests in entries(text):
            known = hashes.setdefault((package, version), ({*digests}, name))
            if known[0] != {*digests}:
                told.append(f"{FOLDER / name}: {package} {version} has other hashes than in {known[1]}")
    return told


def asked_for(root: Path, group: str) -> dict[str, str]:
    """Return name and version of what a group asks for, those that it includes with it.

    Raises:
        ManifestError: a requirement is not pinned by ``==``.
    """
    found = {}
    for each in _requirements(_table(root), group):
        match = re.match(r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^\s;]+)", each)
        if match is None:
            raise ManifestError([f"pyproject.toml: group {group}: {each!r} is not pinned by =="])
        found[normal(match[1])] = match[2]
    return found


def compile_all(root: Path) -> dict[Path, str]:
    """Resolve every group by ``uv`` and the indexes that its environment names. Returns each lock's path and text.

    Raises:
        ToolchainError: uv is not installed. FetchError: it finds no versions that fit together.
    """
    texts = {}
    with tempfile.TemporaryDirectory() as folder:
        together = Path(folder) / "together.txt"
        names = groups(root)
        _compile(root, names, together, hashes=False)
        for name in names:
            made = Path(folder) / f"{name}.txt"
            _compile(root, [name], made, "--constraints", str(together))
            head = _HEAD.format(group=name, path=path_of(name).as_posix())
            texts[path_of(name)] = head + _without_cuda(made.read_text(encoding="utf-8"))
    return texts


def uv() -> str:
    """Find the program ``uv``, beside this Python first.

    Raises:
        ToolchainError: it is not installed.
    """
    places = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    found = shutil.which("uv", path=places)
    if found is None:
        raise ToolchainError(
            "ask for the versions of packages",
            "uv is not installed",
            f"Run pip install --no-deps --require-hashes -r {path_of('lock').as_posix()}",
        )
    return found


def write(root: Path, texts: Mapping[Path, str]) -> list[Path]:
    """Write the locks that differ, and remove those of groups that are gone. Returns what changed."""
    changed = []
    for path, text in texts.items():
        place = root / path
        if not place.is_file() or place.read_text(encoding="utf-8") != text:
            place.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(place, text.encode())
            changed.append(path)
    for path in sorted((root / FOLDER).glob("*.txt")):
        if path.relative_to(root) not in texts:
            path.unlink()
            changed.append(path.relative_to(root))
    return changed


def check(root: Path) -> None:
    """Compare the locks with ``pyproject.toml``. Asks no index.

    Raises:
        StaleFilesError: they differ.
    """
    found = problems(root)
    if found:
        raise StaleFilesError(
            "compare the locks with pyproject.toml", "\n".join(found), "Run python -m build_tools update-pins"
        )


def _compile(root: Path, names: Iterable[str], output: Path, *more: str, hashes: bool = True) -> None:
    words = [
        uv(),
        "pip",
        "compile",
        "--quiet",
        "--universal",
        "--python-version",
        OLDEST,
        "--no-header",
        "--no-annotate",
    ]
    words += ["--output-file", str(output), *more]
    words += ["--generate-hashes"] if hashes else []
    words += [word for name in names for word in ("--group", f"{root / 'pyproject.toml'}:{name}")]
    # The whole environment: indexes, proxies, certificates and logins are in it.
    outcome = run(words, env=dict(os.environ), timeout=_TIMEOUT)
    if not outcome.ok:
        raise FetchError(
            f"lock {', '.join(names)}",
            f"uv: {outcome.describe()}\n{outcome.output.strip()}",
            "Check the versions in pyproject.toml, the network, and UV_DEFAULT_INDEX where pip's own index is another",
        )


def _without_cuda(text: str) -> str:
    rows = re.split(r"\n(?=[A-Za-z0-9])", text)
    return "\n".join(each for each in rows if not _CUDA.fullmatch(each.split("==")[0])).rstrip("\n") + "\n"


def _table(root: Path) -> dict[str, list[Any]]:
    table = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    groups: dict[str, list[Any]] = table["dependency-groups"]
    return groups


def _requirements(table: Mapping[str, list[Any]], group: str) -> list[str]:
    found: list[str] = []
    for each in table[group]:
        found += [each] if isinstance(each, str) else _requirements(table, each["include-group"])
    return found
