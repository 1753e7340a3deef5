"""A tree from an empty folder to a wheel beside the product: a new operator, and a candidate to one that the product has."""

from __future__ import annotations

import json
import zipfile
from email import message_from_bytes
from pathlib import Path
from typing import Any

import pytest
from support.emulator import library_path
from support.installed import data_wheel, make_environment, write_bundle
from support.own_trees import CASES, REFERENCE, SCALE, SCALES, emulated, run, unpacked

pytest.importorskip("ziglang")

GEMM = """\
#include "csrc/kernels/hip/common.hpp"
namespace ap {
using element = T;
}
AP_KERNEL(64)
void own_gemm(ap::element* out, const ap::element* a, const ap::element* b, const ap::element* bias, ap::i32 n,
              ap::i32 k, ap::i64 lda, ap::i64 ldb) {
  const ap::i64 row = ap::block_x();
  for (ap::i32 column = ap::thread_x(); column < n; column += 64) {
    float sum = 0;
    for (ap::i32 i = 0; i < k; ++i) {
      sum += static_cast<float>(a[row * lda + i]) * static_cast<float>(b[column * ldb + i]);
    }
    if (bias != nullptr) sum += static_cast<float>(bias[column]);
    out[row * n + column] = static_cast<ap::element>(sum);
  }
}
"""
KERNEL = """
[kernels.own_gemm]
backend = "hip"
targets = ["gfx942"]
source = "gemm.hip"
symbol = "own_gemm"
when = ["M <= 8", "N < 2147483584 and K < 2147483647"]
cost = "M * N * K"
grid = ["M"]
block = [64]
args = ["ptr out", "ptr A", "ptr B", "ptr bias", "i32 N", "i32 K", "i64 lda", "i64 ldb"]
"""
GEMM_CASES = """\
[gemm_a16w16]
default = "bias=none"
golden = "M=2 N=48 K=80 bias~normal"
calls = ["M=1 N=64 K=128 bias~normal", "M=4 N=50 K=37 lda=40 ldb=41", "M=(2,2) N=5 K=1"]
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of a tree ``acme``, built and proved."""
    library_path()
    tree = tmp_path_factory.mktemp("trees") / "acme"
    run("new-tree", tree, "--extend", "gemm_a16w16")
    (tree / "LICENSE").write_text("All rights are acme's.\n")
    (tree / "tree.toml").write_text('name = "acme"\nversion = "1.2"\nlicence = "LicenseRef-Acme"\n')
    (tree / "scale.hip").write_text(SCALE)
    (tree / "gemm.hip").write_text(GEMM)
    own, gemm = tree / "manifests" / "own", tree / "manifests" / "gemm"
    own.mkdir()
    for name, text in (("operators.toml", SCALES), ("reference.py", REFERENCE), ("cases.toml", CASES)):
        (own / name).write_text(text)
    text = (gemm / "operators.toml").read_text()
    (gemm / "operators.toml").write_text(text.replace("kernels = []", 'kernels = ["own_gemm"]') + KERNEL)
    (gemm / "cases.toml").write_text(GEMM_CASES)
    run("build", "--root", tree, "--store", tree.parent / "store")
    run("prove", "--root", tree)
    run("build", "--root", tree, "--store", tree.parent / "store")
    run("wheels", "--root", tree)
    (made,) = (tree / "dist").glob("*.whl")
    return made


def test_the_wheel_has_bundle_functions_licence_and_receipts(wheel: Path) -> None:
    assert wheel.name == "acme-1.2-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        facts = message_from_bytes(archive.read("acme-1.2.dist-info/METADATA"))
        init = archive.read("acme/__init__.py").decode()
    assert {f"aiter_prebuilt_bundles/gfx942-ck-free.acme.{end}" for end in ("apb", "calls")} <= names
    assert {"acme/own.py", "acme/gemm.py", "acme-1.2.dist-info/licenses/LICENSE"} <= names
    assert facts["License-Expression"].startswith("LicenseRef-Acme AND ")
    assert facts.get_all("Requires-Dist") == ["aiter-prebuilt>=0.1.0"]
    # Of what the product has, its own function stays the one to call.
    assert "from acme.own import own_scale" in init and "import gemm_a16w16" not in init


def test_its_golden_calls_are_executed_with_its_own_functions(wheel: Path, tmp_path: Path) -> None:
    done = emulated(
        unpacked(wheel, tmp_path / "site"),
        tmp_path / "cache",
        "-m",
        "aiter_prebuilt",
        "verify",
        "--execute",
        "--json",
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    told: dict[str, Any] = json.loads(done.stdout)
    assert {(run["operator"], run["kernel"]) for run in told["executions"]} == {
        ("own_scale", "scale"),
        ("gemm_a16w16", "own_gemm"),
    }
    assert all(bundle["executed"] == bundle["entries"] for bundle in told["bundles"])


def test_uninstalling_it_leaves_the_product_as_it_was(wheel: Path, tmp_path: Path) -> None:
    product = data_wheel(write_bundle(tmp_path, "gfx942", "ck-free"), tmp_path)
    made = make_environment(tmp_path / "environment")
    assert made.pip("install", "--no-index", "--no-deps", str(product)).returncode == 0

    def files() -> dict[str, bytes]:
        return {
            path.relative_to(made.site).as_posix(): path.read_bytes()
            for path in made.site.rglob("*")
            if path.is_file() and path.suffix != ".pyc"
        }

    before = files()
    assert made.pip("install", "--no-index", "--no-deps", str(wheel)).returncode == 0
    assert before.items() < files().items()
    assert (made.site / "aiter_prebuilt_bundles" / "gfx942-ck-free.acme.apb").is_file()
    assert made.pip("uninstall", "-y", "acme").returncode == 0
    assert files() == before


def test_a_tree_whose_kernel_faults_in_its_golden_call_is_refused_from_then_on(tmp_path: Path) -> None:
    tree = tmp_path / "faulty"
    run("new-tree", tree)
    own = tree / "manifests" / "own"
    own.mkdir()
    (tree / "scale.hip").write_text(SCALE.replace("out[row * columns", "out[(1ll << 40) + row * columns"))
    for name, text in (("operators.toml", SCALES), ("reference.py", REFERENCE), ("cases.toml", CASES)):
        (own / name).write_text(text)
    run("build", "--root", tree, "--store", tmp_path / "store", "--target", "gfx942")
    run("wheels", "--root", tree, "--unproved", "gfx942")
    (made,) = (tree / "dist").glob("*.whl")
    site, cache = unpacked(made, tmp_path / "site"), tmp_path / "cache"
    write_bundle(site / "aiter_prebuilt_bundles", "gfx942", "ck-free")
    show = "from aiter_prebuilt.launch import dispatch; print(*[b.path for b in dispatch.bundles_of('gfx942', 'it')])"
    before = emulated(site, cache, "-c", show)
    assert "gfx942-ck-free.faulty.apb" in before.stdout, before.stderr
    (site / "aiter_prebuilt_bundles" / "gfx942-ck-free.apb").rename(tmp_path / "product.apb")
    done = emulated(site, cache, "-m", "aiter_prebuilt", "verify", "--execute")
    assert done.returncode not in (0, 2), done.stdout
    (tmp_path / "product.apb").rename(site / "aiter_prebuilt_bundles" / "gfx942-ck-free.apb")
    after = emulated(site, cache, "-c", show)
    assert after.returncode == 0 and after.stdout.split() == [
        str(site / "aiter_prebuilt_bundles" / "gfx942-ck-free.apb")
    ]
    assert "OwnBundleWarning" in after.stderr and "gfx942-ck-free.faulty.apb is not used" in after.stderr
    report = json.loads(emulated(site, cache, "-m", "aiter_prebuilt", "doctor", "--json").stdout)
    assert [each["tree"] for each in report["refused"]] == ["faulty"]
    assert "golden call" in report["refused"][0]["reason"]
