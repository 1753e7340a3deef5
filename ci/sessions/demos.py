"""Install the wheels in clean environments and run them on the emulator."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import nox

from sessions.environment import (
    BUILD,
    DIST,
    EXTRAS,
    ROOT,
    TORCH,
    build_tools,
    install_torch,
    locks,
    shared,
)

#: One device of each target, for the demo.
EMULATED = "gfx942,gfx950"
#: The driver's own device file: only then does the demo execute what it built for an NVIDIA card.
NVIDIA = Path("/dev/nvidiactl")


@shared
def demo(session: nox.Session) -> None:
    """Build all wheels, install them in a clean environment, and execute every operator on the emulator.

    Both AMD targets are installed. It needs no GPU, driver, compiler or framework. Where a real GPU is, calls run on it too.
    """
    missing = install_torch(
        session, needed=False
    )  # calls AITER's functions, for the data wheels of the bridge
    shutil.rmtree(BUILD / "bundles", ignore_errors=True)  # of another time, of targets that are not shown
    build_tools(session, "build", "--host", "--ck", "sample")
    build_tools(session, "wheels", "--output", str(DIST))
    clean = BUILD / "demo"
    session.run(
        sys.executable, "-m", "virtualenv", "-q", "--clear", "--no-periodic-update", str(clean), external=True
    )
    python = clean / "bin" / "python"
    pip = (str(python), "-m", "pip", "install", "-q", "--no-index", "--find-links", str(DIST))
    session.run(*pip, f"aiter-prebuilt[{EXTRAS}]", external=True)
    if NVIDIA.exists():
        session.run(*pip, "aiter-prebuilt[sm90]", external=True)
    command = str(clean / "bin" / "aiter-prebuilt")
    emulated = (str(clean / "bin" / "aiter-prebuilt-emulator"), "run", "--devices", EMULATED, "--", command)
    alone = {"PYTHONPATH": "", "COLUMNS": "200"}
    with tempfile.TemporaryDirectory() as elsewhere, session.chdir(elsewhere):
        for words in (("doctor",), ("list",), ("verify", "--execute")):
            # 3 where there is no GPU: then nothing is executed here
            codes = [0] if words == ("list",) else [0, 3]
            session.run(command, *words, external=True, success_codes=codes, env=alone, silent=True)
        session.run(*emulated, "doctor", external=True, env=alone, silent=True)
        shown = str(session.run(*emulated, "verify", "--execute", external=True, silent=True, env=alone))
        if "frameworks and compilers in this process: none" not in shown:
            session.error("a framework or a compiler was loaded: the wheels must need none")
    from demo_summary import lines

    sys.stdout.write("\n".join([*lines(DIST, shown, missing), ""]))


@shared
def examples(session: nox.Session) -> None:
    """``examples`` alone in an empty folder with installed wheels and torch: every model on both targets, and its coverage."""
    install_torch(session)
    chosen = [word for name in EMULATED.split(",") for word in ("--target", name)]
    build_tools(session, "build", "--host", "--ck", "sample", *chosen)
    build_tools(session, "wheels", "--output", str(DIST))
    clean = BUILD / "examples"
    session.run(
        sys.executable, "-m", "virtualenv", "-q", "--clear", "--no-periodic-update", str(clean), external=True
    )
    python = str(clean / "bin" / "python")
    pip = (python, "-m", "pip", "install", "-q")
    session.run(*pip, "--no-index", "--find-links", str(DIST), f"aiter-prebuilt[{EXTRAS}]", external=True)
    session.run(*pip, *locks("torch"), external=True)
    session.run(*pip, "--no-deps", TORCH, external=True)
    with tempfile.TemporaryDirectory() as elsewhere, session.chdir(elsewhere):
        shutil.copytree(ROOT / "examples", "examples", ignore=shutil.ignore_patterns("__pycache__"))
        for model in sorted(
            path.stem for path in Path("examples/exact").glob("*.py") if path.stem != "parts"
        ):
            command = (str(clean / "bin" / "aiter-prebuilt"), "coverage", "--model", model)
            session.run(*command, external=True, env={"PYTHONPATH": ""})
            for target in EMULATED.split(","):
                layer = (python, "examples/decoder_layer.py", model, "--target", target)
                session.run(*layer, external=True, env={"PYTHONPATH": ""})
