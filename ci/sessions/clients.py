"""Run inference engines and AITER itself on our operators."""

from __future__ import annotations

import os
import sys

import nox

from sessions.environment import (
    BUILD,
    DIST,
    EXTRAS,
    ROOT,
    TORCH,
    build_tools,
    install,
    install_torch,
    locks,
    run,
    shared,
)


@shared
def servers(session: nox.Session) -> None:
    """Stock AITER through the bridge under wrappers of vLLM and SGLang, on a checkout, too (``AITER_DIR``); 370 MB of wheels."""
    install(session, *locks("test", "aiter"))
    install_torch(session)
    build_tools(session, "build", "--ck", "sample")
    build_tools(session, "develop")
    wheels = str(BUILD / "clients")
    from client_names import CLIENTS

    for name, version in CLIENTS.items():
        run(session, "python", "-m", "pip", "download", "-q", "--no-deps", "-d", wheels, f"{name}=={version}")
    words = (
        "-m",
        "pytest",
        "-q",
        "tests/emulator/test_vllm.py",
        "tests/emulator/test_sglang.py",
        *session.posargs,
    )
    environment = {"CLIENT_WHEELS": wheels, "AITER_PREBUILT_RAN": str(BUILD / "ran-servers.json")}
    run(session, "python", *words, env=environment)


@shared
def engines(session: nox.Session) -> None:
    """Stock vLLM on the emulator, with the wheels in ``dist``: its answers beside float64, or its server (``-- serve llama``).
    It downloads 1 GB; AITER_DIR names a checkout of AITER, in place of the pinned package.
    """
    wheels = sorted(DIST.glob("aiter_prebuilt_emulator-*.whl"))
    if not wheels:
        session.error(f"there are no wheels in {DIST}: run nox -s demo first")
    install_torch(session)
    folder = BUILD / "engines"
    python = str(folder / "env" / "bin" / "python")
    session.run(
        sys.executable, "-m", "virtualenv", "-q", "--no-periodic-update", str(folder / "env"), external=True
    )
    pip = (python, "-m", "pip", "install", "-q", "--no-compile")
    session.run(*pip, *locks("engines", "torch"), external=True)
    session.run(*pip, "--no-deps", TORCH, external=True)
    from engines import packages

    toolchains = nox.project.load_toml("manifests/toolchains.toml")
    session.run(*pip, *packages.pinned(ROOT, toolchains, folder), external=True)
    ours = f"aiter-prebuilt[{EXTRAS},bridge]"
    session.run(*pip, "--force-reinstall", "--no-index", "--find-links", str(DIST), ours, external=True)
    session.run(python, "-m", "pip", "download", "-q", *packages.vllm(folder), external=True)
    checkout = ("--aiter", os.environ["AITER_DIR"]) if os.environ.get("AITER_DIR") else ()
    words = ("-m", "engines", "--folder", str(folder), *checkout, *(session.posargs or ("run",)))
    session.run(python, *words, external=True, env={"PYTHONPATH": str(ROOT / "ci")})


@shared
def peers(session: nox.Session) -> None:
    """Run AITER's own ``op_tests`` under the bridge on the emulator, from the checkout AITER_DIR; takes hours.

    ``-- ROW ...`` runs some rows, ``-- --record`` keeps the results. Kernel tests of vLLM and Triton run, too, where VLLM_DIR and
    TRITON_DIR name their checkouts (``docs/peers.md``). It fails where a row of ``tests/data/peers.json`` has fewer right cases
    than before.
    """
    install(session, *locks("test", "aiter"))
    install_torch(session)
    build_tools(session, "build", "--ck", "sample")
    build_tools(session, "develop")
    run(session, "python", "ci/peers.py", *session.posargs)
