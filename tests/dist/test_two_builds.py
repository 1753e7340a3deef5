"""Two builds in two different folders give the same bytes: bundles, data wheels, the runtime's and the emulator's wheel.

One recipe of one operator per backend is built, through the whole pipeline and with cold stores; all else would only take longer.
What is compiled for the host takes minutes: ``nox -s reproduce``.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PARTS = (
    "build_tools",
    "csrc",
    "hsa",
    "manifests",
    "src",
    "CMakeLists.txt",
    "LICENSE",
    "THIRD_PARTY.txt",
    "README.md",
    "pyproject.toml",
    ".gitignore",
)
TARGET = "gfx950"

REDUCED_BUILD = """
import sys
from dataclasses import replace
from pathlib import Path
from build_tools.pipeline import build, planning, settings
from build_tools.pack import wheel
from build_tools.records import Plan, PlannedOperator

root, target = Path.cwd(), sys.argv[1]
complete = planning.make_plan

def first_recipe(planned):
    recipe = planned.operator.recipes[0]
    used = sorted({step.entry for step in recipe.steps})
    steps = tuple(replace(step, entry=used.index(step.entry)) for step in recipe.steps)
    operator = replace(planned.operator, recipes=(replace(recipe, steps=steps),), tuned=())
    return PlannedOperator(operator, tuple(planned.jobs[place] for place in used))

def reduced(*words, **options):
    plan = complete(*words, **options)
    backends, bundles = {job.id: job.backend for job in plan.jobs}, []
    for bundle in plan.bundles:
        kept = {backends[planned.jobs[0]]: first_recipe(planned) for planned in bundle.operators}
        chosen = tuple(sorted(kept.values(), key=lambda planned: planned.operator.name))
        bundles.append(replace(bundle, operators=chosen))
    needed = {job for bundle in bundles for planned in bundle.operators for job in planned.jobs}
    return Plan(tuple(job for job in plan.jobs if job.id in needed), tuple(bundles))

planning.make_plan = reduced
settings = settings.Settings(root, root / 'build/store', root / 'build/bundles', targets=(target,))
outcome = build.build(settings)
assert not any(result.cached for result in outcome.results)
print(' '.join(sorted({result.job.backend for result in outcome.results})))
wheel.write_wheels(root, settings.bundles, root / 'dist', runtime=False, unproved=('all',))
"""

RUNTIME_BUILD = """
from pathlib import Path
from build_tools.pack.runtime_wheel import build_runtime_wheel
build_runtime_wheel(Path.cwd(), Path('dist'))
"""

EMULATOR_BUILD = """
from pathlib import Path
from build_tools.pack.emulator_wheel import build_emulator_wheel
build_emulator_wheel(Path.cwd(), Path('dist'))
"""


def copy_of_the_repository(folder: Path) -> Path:
    """What a build reads, and nothing that an earlier build left."""
    folder.mkdir(parents=True)
    junk = shutil.ignore_patterns("__pycache__", "_native*.so", ".*_cache")
    for name in PARTS:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=junk)
        else:
            shutil.copy2(source, folder / name)
    return folder


def run_in(folder: Path, code: str, *words: str) -> str:
    """Run ``code`` with the pipeline of ``folder``; its output."""
    environment = os.environ | {
        "PYTHONPATH": f"{folder}{os.pathsep}{folder / 'src'}",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, *words] if sys.version_info >= (3, 11) else [sys.executable, "-c", code, *words],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def digests(folder: Path, pattern: str) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.glob(pattern))}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two copies of the repository; their paths differ in length too."""
    first = copy_of_the_repository(tmp_path_factory.mktemp("a") / "repository")
    second = copy_of_the_repository(tmp_path_factory.mktemp("b") / "another folder" / "x")
    return first, second


@pytest.mark.slow
def test_bundles_and_data_wheels_are_the_same_bytes(folders: tuple[Path, Path]) -> None:
    backends = [run_in(folder, REDUCED_BUILD, TARGET).split()[-5:] for folder in folders]
    assert backends == [["asm", "ck", "flydsl", "hip", "triton"]] * 2
    for place, pattern in (("build/bundles", "*.apb"), ("dist", "*.whl")):
        first, second = (digests(folder / place, pattern) for folder in folders)
        assert len(first) == 2
        assert first == second


@pytest.mark.reproduce
@pytest.mark.parametrize(
    ("code", "pattern", "keep"),
    [
        (RUNTIME_BUILD, "aiter_prebuilt-*.whl", "runtime-wheel"),
        (EMULATOR_BUILD, "aiter_prebuilt_emulator-*.whl", "emulator"),
    ],
    ids=["runtime", "emulator"],
)
def test_compiled_wheels_are_the_same_bytes(
    folders: tuple[Path, Path], code: str, pattern: str, keep: str
) -> None:
    """Also where a folder lists its files in another order: one of the copies has the emulator's package written backwards."""
    package = folders[1] / "src" / "aiter_prebuilt_emulator"
    for path in sorted((path for path in package.iterdir() if path.is_file()), reverse=True):
        content = path.read_bytes()
        path.unlink()
        path.write_bytes(content)
    for folder in folders:
        run_in(folder, code)
        made = [path.name.rpartition("-")[0] for path in (folder / "build" / "host").iterdir()]
        assert keep in made, "compiled here, and not taken from elsewhere"
    first, second = (digests(folder / "dist", pattern) for folder in folders)
    assert len(first) == 1
    assert first == second
