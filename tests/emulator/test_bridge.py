"""Stock AITER through the bridge: no compiler, no query program, no write, and right. The tree is PyPI's wheel that the
pipeline pins, and the checkout that ``AITER_DIR`` names; hipcc, ninja, gcc, rocminfo and the like are programs that tell when
they start.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from support import bytecode
from support.emulator import bundles, library_path

from aiter_prebuilt.commands.output import JSON_VERSION
from aiter_prebuilt_bridge import semantic_changes
from aiter_prebuilt_bridge_hook import VARIABLE
from build_tools.pack.bridge_wheel import HOOK, PACKAGE
from build_tools.tools import pins
from build_tools.tools.fetch import cache_folder
from build_tools.tools.tree import Tree

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = ROOT / "src" / "aiter_prebuilt" / "schemas" / "bridge.json"
PROGRAM = Path(__file__).with_name("bridge_program.py")
NAMES = ROOT / "tests" / "data" / "client_names.json"
FORBIDDEN = (
    "hipcc", "hipconfig", "rocminfo", "rocm_agent_enumerator", "amdclang", "amdclang++", "clang", "clang++", "gcc", "g++", "cc",
    "c++", "ninja", "make", "cmake", "git",
)  # fmt: skip
#: What of AITER's wheel, and of a checkout, Python reads.
PARTS = (
    "aiter/",
    "aiter_meta/csrc/include/",
    "aiter_meta/csrc/cpp_itfs/",
    "aiter_meta/csrc/kernels/",
    "aiter_meta/hsa/gfx942/i8gemm/",
)
PARTS_OF_CHECKOUT = (
    "aiter",
    "csrc/include",
    "csrc/cpp_itfs",
    "csrc/opus_gemm",
    "csrc/opus_moe",
    "csrc/kernels",
    "hsa/gfx942/i8gemm",
)
#: Names that are ours and AITER's in each tree, those that strict refuses, and of each client's names those that exist, and ours.
#: Pages have the same numbers (`tests/unit/test_bridge_counts.py`).
COUNTS = json.loads((ROOT / "tests" / "data" / "bridge_counts.json").read_text())

#: How scales of MXFP4 are rounded in each.
RULES = {"wheel": "half", "checkout": "above"}

#: What the checkout means otherwise than ours, under a name and a signature of ours.
CHANGED = {"gemm_a8w8_ASM"}

#: Of those whose calls are put to ours in other words, what has golden calls here.
IN_OTHER_WORDS = {
    "fmha_v3_fwd", "fmha_v3_varlen_fwd", "fmoe_int8_g1u0_a16", "fmoe_fp8_blockscale_g1u1", "mixed_sample_outer_exponential",
}  # fmt: skip

#: Names of the wheel that are called by other places than ours, or lack parameters of ours, and have golden calls here.
OLDER = {
    "mla_decode_fwd", "mla_reduce_v1", "mla_decode_stage1_asm_fwd", "gemm_a16w16_asm", "unified_attention",
}  # fmt: skip
ROPE = (
    "fwd",
    "thd_fwd",
    "cached_fwd",
    "cached_positions_fwd",
    "cached_positions_offsets_fwd",
    "bwd",
    "thd_bwd",
    "cached_bwd",
)

pytestmark = pytest.mark.skipif(
    any(find_spec(name) is None for name in ("torch", "triton", "pandas", "einops", "psutil")),
    reason="AITER imports torch, Triton, pandas, einops and psutil: pip install the groups torch and aiter of pyproject.toml",
)


@pytest.fixture(scope="module", params=["wheel", "checkout"])
def tree(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A tree of AITER's that nobody may write."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "wheel":
        pin = pins.load(ROOT).trees["aiter"]
        wheel = Tree(pin, cache_folder(), None).fetched() / pin.file
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(
                folder, [name for name in archive.namelist() if name.startswith((*PARTS, "amd_aiter"))]
            )
    else:
        checkout = os.environ.get("AITER_DIR")
        if not checkout:
            pytest.skip("AITER_DIR names no checkout")
        for name in PARTS_OF_CHECKOUT:
            shutil.copytree(Path(checkout) / name, folder / name)
    _permit(folder, write=False)
    yield folder
    _permit(folder, write=True)


def _permit(folder: Path, *, write: bool) -> None:
    for path in (folder, *folder.rglob("*")):
        mode = path.stat().st_mode
        path.chmod(mode | stat.S_IWUSR if write else mode & ~0o222)


def kind_of(tree: Path) -> str:
    return "wheel" if "wheel" in tree.name else "checkout"


class World:
    """A process's surroundings: forbidden programs first on the path, the bridge's hook in a folder for sites, no home."""

    def __init__(self, folder: Path) -> None:
        self.site, self.told, programs = folder / "site", folder / "told", folder / "bin"
        for made in (self.site, programs):
            made.mkdir()
        (self.site / f"{PACKAGE}.pth").write_text(HOOK)
        for name in FORBIDDEN:
            path = programs / name
            path.write_text(f'#!/bin/sh\necho "{name} $*" >> {self.told}\nexit 97\n')
            path.chmod(0o755)
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("AITER_", "GPU_ARCHS", "CU_NUM"))
        }
        deps = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
        self.environment = bytecode.kept(kept) | {
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(
                [*(str(ROOT / name) for name in ("src", "examples", "tests")), *deps]
            ),
            "HOME": "/proc/none",
            "WITHOUT_FLYDSL": "1",
            "TRITON_CACHE_DIR": str(folder / "triton"),
        }

    def run(self, tree: Path, target: str, *words: str, **more: str) -> tuple[Any, str]:
        """What the program reports, and what it wrote to standard error. Nothing forbidden was started, nothing was written."""
        before = listing(tree)
        told = self.start(tree, target, *words, **more)
        assert not self.told.exists(), self.told.read_text()
        assert "Traceback" not in told[1] or more.get(VARIABLE) == "0", told[1][-2000:]
        assert listing(tree) == before
        return told

    def start(self, tree: Path, target: str, *words: str, **more: str) -> tuple[Any, str]:
        """That, whatever it starts and writes."""
        library_path()
        files = ":".join(str(path) for path in bundles(target, "ck-full"))
        done = subprocess.run(
            [sys.executable, str(PROGRAM), str(tree), str(self.site), target, *words],
            env=self.environment | {"AITER_PREBUILT_BUNDLES": files} | more,
            capture_output=True, text=True, timeout=600,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        return json.loads(done.stdout.splitlines()[-1])["report"], done.stderr


def listing(tree: Path) -> list[str]:
    return sorted(str(path.relative_to(tree)) for path in tree.rglob("*"))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


#: Reports of commands by one child, and its standard error.
Answered = Callable[..., tuple[list[Any], str]]


@pytest.fixture(scope="module")
def answered(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Answered:
    """``answered(target, *commands, **environment)`` starts one child for several commands, and once for all tests that ask for
    the same: importing torch and AITER takes longer than most commands.
    """
    made: dict[tuple[object, ...], tuple[list[Any], str]] = {}

    def answer(target: str, *commands: str, **more: str) -> tuple[list[Any], str]:
        key = (target, commands, *sorted(more.items()))
        if key not in made:
            world = World(tmp_path_factory.mktemp("world"))
            reports, errors = world.run(tree, target, *" + ".join(commands).split(), **more)
            made[key] = (reports if len(commands) > 1 else [reports], errors)
        return made[key]

    return answer


#: Commands whose reports are independent of each other.
CALLED = ("calls public", "calls torch")
STRICT = ("templates", "left pa_fwd_naive", "refused")


def worded(tree: Path) -> tuple[str, ...]:
    """Return the commands of one child: the typed calls, and those in the tree's words."""
    return ("calls typed", f"words {RULES[kind_of(tree)]}")


def test_a_forbidden_program_would_be_noticed(tree: Path, world: World) -> None:
    """Without the bridge AITER asks hipconfig and rocminfo: this is what the tests below would see."""
    with pytest.raises(AssertionError):
        world.start(tree, "gfx942", "status", AITER_PREBUILT_BRIDGE="0")
    assert "hipconfig" in world.told.read_text() or "rocminfo" in world.told.read_text()


def test_the_names_that_clients_take_are_there(tree: Path, world: World) -> None:
    report, _ = world.run(tree, "gfx942", "names", str(NAMES))
    found = {client: [row["names"], row["resolved"], row["ours"]] for client, row in report.items()}
    missing = {client: row["missing"] for client, row in report.items()}
    assert found == COUNTS[kind_of(tree)]["clients"], missing


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
@pytest.mark.parametrize("way", ["public", "torch"])
def test_golden_calls_through_aiters_functions_are_right(
    tree: Path, answered: Answered, way: str, target: str
) -> None:
    report = answered(target, *CALLED)[0][("public", "torch").index(way)]
    wrong = [row for row in report if row["problems"]]
    assert not wrong, wrong[:5]
    operators = {row["operator"] for row in report}
    assert len(operators) > 80, sorted(operators)
    assert {"rms_norm", "silu_and_mul"} & operators
    if kind_of(tree) == "checkout":
        assert operators >= IN_OTHER_WORDS
    elif way == "public":
        assert operators >= OLDER


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_what_a_call_means_is_what_it_means_in_that_tree(tree: Path, answered: Answered, target: str) -> None:
    """Functions around operators, an older tree's spellings, and rules that changed without a change of any signature."""
    (_, report), errors = answered(target, *worded(tree))
    assert not [row for row in report if row["problems"]] and "AITER's own function" not in errors, (
        report,
        errors[-2000:],
    )
    assert {row["operator"] for row in report} >= {
        "scales_written",
        "scales_made",
        "scales_of_torch",
        "as_triton",
        "handles",
        "block_scales",
    }
    if target == "gfx942":  # and the other rule would be noticed
        (rule,) = {*RULES.values()} - {RULES[kind_of(tree)]}
        (other,), _ = answered(target, f"words {rule}")
        wrong = {row["operator"] for row in other if row["problems"]}
        assert wrong >= {"scales_written", "scales_made", "as_triton"}, other


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_golden_calls_through_aiters_triton_products_are_right(
    tree: Path, answered: Answered, target: str
) -> None:
    """By AITER's names and places, which are not ours: no Triton kernel is compiled, which here would be an error."""
    (report, _), errors = answered(target, *worded(tree))
    wrong = [row for row in report if row["problems"]]
    assert not wrong and "AITER's own function" not in errors, (wrong[:5], errors[-2000:])
    asked = {(row["module"].rpartition(".")[2], row["operator"]) for row in report}
    assert asked >= {
        ("gemm_a16w16", "gemm_a16w16"), ("gemm_a8w8", "gemm_a8w8"), ("gemm_a8w8_blockscale", "gemm_a8w8_blockscale"),
        ("batched_gemm_bf16", "batched_gemm_bf16_CK"), ("batched_gemm_a8w8", "batched_gemm_a8w8_CK"),
        *(("rope", f"rope_{kind}_impl") for kind in ROPE),
    }  # fmt: skip
    tokens = {row["operator"] for row in report if row["module"] == "aiter.ops.triton.rope.rope"}
    assert ("rope_cached_positions_offsets_2c_fwd_impl" in tokens) is (kind_of(tree) == "checkout")


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_operators_that_aiter_compiles_from_templates_are_ours(answered: Answered, target: str) -> None:
    """They are registered past the JIT's decorators: vLLM decodes through torch.ops.aiter.paged_attention_v1."""
    commands = STRICT if target == "gfx942" else STRICT[:1]  # the others do not depend on the target
    report = answered(target, *commands, AITER_PREBUILT_BRIDGE="strict")[0][0]
    assert report == {"torch.ops.aiter.paged_attention_v1": [], "torch.ops.aiter.top_k_renorm_probs": []}


#: What AITER asks where the bridge may not answer: a machine with one MI300X.
ANSWERS = {
    "hipconfig": "echo 7.0.0",
    "rocminfo": "echo 'Agent 1'; echo '  Name: gfx942'; echo '  Device Type: GPU'; echo '  Compute Unit: 304'",
}


def test_a_folder_of_modules_serves_where_no_pth_may_run(tree: Path, world: World, tmp_path: Path) -> None:
    """``aiter-prebuilt bridge folder``, then ``AITER_JIT_DIR``: AITER's own stubs call ours, and compile nothing."""
    jit = tmp_path / "modules"
    settings = {"AITER_PREBUILT_HIP": str(library_path()), "AITER_PREBUILT_EMULATOR": "gfx942"}
    done = subprocess.run(
        [sys.executable, "-m", "aiter_prebuilt", "bridge", "folder", str(jit)],
        env=world.environment | settings | {"PYTHONPATH": f"{world.environment['PYTHONPATH']}{os.pathsep}{tree}"},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0 and " ".join(done.stdout.split()).endswith(f"set AITER_JIT_DIR={jit}"), (
        done.stderr
    )
    written = {path.stem for path in jit.glob("*.py")}
    assert "module_activation" in written and f"{jit}/module_activation.py" in done.stdout
    for name, says in ANSWERS.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{says}\n")
    # The other folder is where AITER would compile from templates, which it makes when it is imported.
    off = {"AITER_JIT_DIR": str(jit), "AITER_PREBUILT_BRIDGE": "0", "AITER_ROOT_DIR": str(tmp_path)}
    if kind_of(tree) == "checkout":
        # Its stubs ask torch.cuda for the stream: here it is imported, and no more. It asks git for its commit.
        report, _ = world.start(tree, "gfx942", "status", **off)
        assert report["mode"] == "off"
        return
    report, _ = world.run(tree, "gfx942", "calls", "folder", **off)
    wrong = [row for row in report if row["problems"]]
    assert not wrong, wrong[:5]
    operators = {row["operator"] for row in report}
    assert {"silu_and_mul", "topk_softmax_asm", "wvSpltK"} & operators and len(operators) > 40, operators


def test_status_says_what_became_of_each_name(tree: Path, answered: Answered) -> None:
    (report,), _ = answered("gfx942", "status")
    document = {"version": JSON_VERSION, "verb": "bridge", **report}
    assert document["version"] == JSON_VERSION  # the report has no key of that name
    jsonschema.validate(document, json.loads(SCHEMA.read_text()))
    assert report["mode"] == "on" and report["exit_code"] == 0 and not report["problems"]
    assert {"get_hip_version", "_detect_native", "get_user_jit_dir", "check_numa_custom_op"} <= {
        *report["answered"]
    }
    older = [next(iter(change.rules)) for change in semantic_changes.CHANGES]
    newer = [[*change.rules][-1] for change in semantic_changes.CHANGES]
    assert [*report["rules"].values()] == {"half": older, "above": newer}[RULES[kind_of(tree)]]
    left = {row["name"] for row in report["left"] if row["why"].endswith(", not as ours")}
    assert left == (CHANGED if kind_of(tree) == "checkout" else set())
    names = [(row["module"], row["name"]) for key in ("replaced", "stub", "left") for row in report[key]]
    assert len(names) == len({*names}) > 200
    assert all(row["why"] for row in report["left"])
    assert {row["way"] for row in report["stub"]} >= (
        {"pybind"} if kind_of(tree) == "wheel" else {"pybind", "develop", "ctypes"}
    )
    counted = {"ours": len(report["replaced"]) + len(report["stub"]), "left": len(report["left"])}
    assert counted == {key: COUNTS[kind_of(tree)][key] for key in counted}
    stubs = {row["name"] for row in report["stub"]}
    assert "silu_and_mul" in stubs and "topk_softmax_asm" in stubs


def test_a_process_ends_with_nothing_but_aiters_log(answered: Answered) -> None:
    """torch 2.13 could not clean up what AITER of November 2025 had registered, and said so after everything else."""
    _, errors = answered("gfx942", "status")
    others = [
        line for line in errors.splitlines() if not line.startswith(("[aiter] ", "No ROCm runtime is found"))
    ]
    assert not others


def test_strict_names_the_operator_before_a_compiler_starts(answered: Answered) -> None:
    (_, said, _), _ = answered("gfx942", *STRICT, AITER_PREBUILT_BRIDGE="strict")
    assert said.startswith(
        "CompileRefusedError: Cannot call pa_fwd_naive: AITER would compile module_attention now"
    ), said
    assert "there is no function of ours with this name" in said


def test_strict_refuses_everything_that_stays_aiters_by_its_name(tree: Path, answered: Answered) -> None:
    """Each stub of the JIT, each template: called, and no compiler is started (``run`` looks)."""
    (_, _, said), _ = answered("gfx942", *STRICT, AITER_PREBUILT_BRIDGE="strict")
    wrong = {
        name: text
        for name, text in said.items()
        if not text.startswith(f"CompileRefusedError: Cannot call {name}: ")
    }
    assert not wrong and len(said) == COUNTS[kind_of(tree)]["refused"], (len(said), wrong)
    assert "AITER would compile asm_mla_decode_fwd_" in said["asm_mla_decode_fwd"]


def test_by_default_aiter_goes_its_own_way_and_that_is_logged(tree: Path, world: World) -> None:
    """Its own way ends here: nothing can be compiled. But that is AITER's error, and the log says why it was tried."""
    jit = world.site.with_name("jit")
    said, errors = world.start(tree, "gfx942", "left", "pa_fwd_naive", AITER_JIT_DIR=str(jit))
    assert said != "no error" and "CompileRefusedError" not in said
    assert errors.count("pa_fwd_naive: AITER compiles module_attention, because") == 1
