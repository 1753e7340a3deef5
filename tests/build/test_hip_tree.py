"""HIP sources of a source tree with the real compiler: untouched, one compile for all kernels, Composable Kernel refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import trees

from build_tools.compile.backends import hip_tree
from build_tools.compile.compile import compile_jobs
from build_tools.compile.store import Store
from build_tools.files.run import Outcome, run
from build_tools.judge import audit
from build_tools.objects import codeobject
from build_tools.records import CompileJob, KernelArg, TargetFacts
from build_tools.tools.toolchain import Toolchain

from .conftest import ROOT

#: Everything that AITER's sources take of others, in a few lines: a dispatch over torch's types, a launch, small vectors, a view
#: with bounds, a block's reduction.
SOURCE = """
#include <ATen/hip/HIPContext.h>
#include <torch/all.h>
#include <hipcub/hipcub.hpp>
#include "ck_tile/core.hpp"
#include "mine.h"

template <typename T, int N>
__global__ void largest(float* out, const T* x, int n) {
  auto view = ck_tile::make_buffer_view<ck_tile::address_space_enum::global>(x, n);
  view.init_raw();
  auto some = view.template get<vec<T, N>>(threadIdx.x * N, 0, true);
  float found = 0.0f;
  for (int i = 0; i < N; ++i) found = max(found, ck_tile::type_convert<float>(some[i]));
  using Reduce = hipcub::BlockReduce<float, 256>;
  __shared__ typename Reduce::TempStorage storage;
  found = Reduce(storage).Reduce(found, hipcub::Max());
  if (threadIdx.x == 0) out[blockIdx.x] = found;
}

void run(torch::Tensor& out, torch::Tensor& x) {
  TORCH_CHECK(x.is_contiguous(), "no");
  const hipStream_t stream = at::hip::getCurrentHIPStream();
  AT_DISPATCH_SWITCH(x.scalar_type(), "run", AT_DISPATCH_CASE(at::ScalarType::Float, [&] {
    largest<scalar_t, 4><<<x.size(0), 256, 0, stream>>>(out.data_ptr<float>(), x.data_ptr<scalar_t>(), x.numel());
  }) AT_DISPATCH_CASE(at::ScalarType::BFloat16, [&] {
    largest<__bf16, 8><<<x.size(0), 256, 0, stream>>>(out.data_ptr<float>(), reinterpret_cast<__bf16*>(x.data_ptr()), x.numel());
  }));
}
"""
HEADER = b"template <typename T, int N>\nusing vec = ck_tile::thread_buffer<T, N>;\n"
ARGS = (KernelArg("ptr", "out", 0, 8), KernelArg("ptr", "x", 8, 8), KernelArg("i32", "n", 16, 4))
NAME = "thing:csrc/kernels/k.cu"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return repository(tmp_path / "repository", tmp_path / "checkout", monkeypatch, {})


def repository(root: Path, checkout: Path, monkeypatch: pytest.MonkeyPatch, more: Mapping[str, str]) -> Path:
    """A repository with our headers, and a checkout of a tree with one source."""
    trees.repository(root, root.parent / "shelf", {"meta/csrc/kernels/k.cu": b""})
    shutil.copytree(ROOT / hip_tree.STAND_IN, root / hip_tree.STAND_IN)
    files = {"csrc/kernels/k.cu": SOURCE, "csrc/include/mine.h": HEADER.decode(), **more}
    for name, text in files.items():
        path = checkout / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setenv("THING_DIR", str(checkout))
    return root


def job(root: Path, target: TargetFacts, symbol: str) -> CompileJob:
    inputs = hip_tree.expand(NAME, root)
    return CompileJob(
        f"{target.name}-{symbol}", target, "hip", NAME, symbol, (), ARGS, 20, (256, 1, 1), inputs
    )


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_kernels_of_one_file_share_a_compile(
    target: str,
    place: Path,
    targets: dict[str, TargetFacts],
    toolchain: Toolchain,
    store: Store,
    tmp_path: Path,
) -> None:
    first = job(place, targets[target], "largest<f32, 4>")
    (one,) = compile_jobs([first], toolchain, store, root=place)
    assert one.ok and one.path is not None and one.symbol == "_Z7largestIfLi4EEvPfPKT_i", one.log
    # the second kernel is found in the object that is there: the compiler could not be started
    broken = replace(toolchain, clang=replace(toolchain.clang, driver=("/nowhere",)))
    (two,) = compile_jobs([replace(first, id="two", symbol="largest<bf16, 8>")], broken, store, root=place)
    assert two.ok and two.path == one.path and not two.cached, two.log
    report = audit.judge(two, codeobject.read(one.path.read_bytes()), ("ck_tile", "composable_kernel"))
    assert report.problems == ()
    assert str(tmp_path).encode() not in one.path.read_bytes()
    read = json.loads(two.extra["read"])
    assert {NAME, "thing:csrc/include/mine.h", "csrc/stand_in/tile.hpp", "csrc/stand_in/torch/all.h"} <= set(
        read
    )
    assert set(read) <= set(first.inputs)


def test_a_name_that_is_not_there_fails_its_job_alone(
    place: Path, targets: dict[str, TargetFacts], toolchain: Toolchain, store: Store
) -> None:
    jobs = [job(place, targets["gfx942"], name) for name in ("largest<f32, 5>", "largest<f32, 4>")]
    wrong, right = compile_jobs(jobs, toolchain, store, root=place)
    assert right.ok and not wrong.ok
    assert "2 kernels, and none has that name; near: largest<f32, 4>; largest<bf16, 8>" in wrong.log


@pytest.mark.parametrize(
    "how", ["<ck_tile/extra.hpp>", '"../../3rdparty/composable_kernel/include/ck/ck.hpp"']
)
def test_composable_kernel_is_refused_by_what_the_compiler_read(
    how: str, tmp_path: Path, targets: dict[str, TargetFacts], toolchain: Toolchain, store: Store,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Found beside the toolchain's headers, as where ROCm is installed, or by a path out of the tree."""
    elsewhere = tmp_path / "rocm/include"
    (elsewhere / "ck_tile").mkdir(parents=True)
    (elsewhere / "ck_tile/extra.hpp").write_text("")
    more = {
        "csrc/include/mine.h": f"#include {how}\n{HEADER.decode()}",
        "3rdparty/composable_kernel/include/ck/ck.hpp": "",
    }
    root = repository(tmp_path / "repository", tmp_path / "checkout", monkeypatch, more)
    flags = (*toolchain.clang.hip_flags, "-isystem", str(elsewhere))
    installed = replace(toolchain, clang=replace(toolchain.clang, hip_flags=flags))
    (result,) = compile_jobs([job(root, targets["gfx942"], "largest<f32, 4>")], installed, store, root=root)
    assert not result.ok and "without Composable Kernel" in result.log and "the compiler read" in result.log


def test_a_file_that_does_not_compile_fails_all_its_jobs_at_once(
    tmp_path: Path,
    targets: dict[str, TargetFacts],
    toolchain: Toolchain,
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root = repository(
        tmp_path / "repository", tmp_path / "checkout", monkeypatch, {"csrc/include/mine.h": "#error newer"}
    )
    commands = []

    def counted(argv: Sequence[str | Path], **settings: Any) -> Outcome:
        commands.append(argv)
        return run(argv, **settings)

    monkeypatch.setattr(hip_tree, "run", counted)
    jobs = [job(root, targets["gfx942"], name) for name in ("largest<f32, 4>", "largest<bf16, 8>")]
    results = compile_jobs(jobs, toolchain, store, root=root)
    assert [result.ok for result in results] == [False, False] and len(commands) == 1
    assert all("error: newer" in result.log for result in results)
