"""Check torch's promises on a machine with a GPU.

opcheck, torch.compile, gradients, torch.cuda.graph.

    python ci/gpu_torch.py [--inductor] [--json FILE]        (also: python ci/gpu_check.py --opcheck)

The installed package and the bundle of the GPU's target are what is run; operators that the bundle has not are named and left
out. Exit code 0: everything held; 1: something did not; 2: no GPU with a bundle, nothing was executed. ``--inductor`` also
compiles with torch's own code generator, which needs its compiler (on NVIDIA: Triton); without it nothing here compiles anything.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]

from support import torch_kernels

import aiter_prebuilt
from aiter_prebuilt import errors
from aiter_prebuilt.bundles import locate
from aiter_prebuilt.devices import device
from aiter_prebuilt.launch import dispatch

BF16 = torch.bfloat16
#: What two paths that round each step once may differ by, relative to values of order 1.
STEPS = 2.0**-6


def inputs(rows: int, width: int = 256) -> list[torch.Tensor]:
    """Arguments of :func:`block`."""
    shapes = ((rows, width), (rows, width), (4 * width, width), (width, 2 * width), (width,))
    return [(torch.randn(*shape, device="cuda") / 8).to(BF16) for shape in shapes]


def block(x: Any, residual: Any, up: Any, down: Any, weight: Any) -> Any:
    """Norm, product, gate, product, add and norm; the gate by torch where the bundle has no silu_and_mul."""
    both = aiter_prebuilt.gemm_a16w16(aiter_prebuilt.rms_norm(x, weight, 1e-6), up)
    if STATE["gate"]:
        gated = both.new_empty((both.shape[0], both.shape[1] // 2))
        aiter_prebuilt.silu_and_mul(gated, both)
    else:
        first, second = both.chunk(2, dim=-1)
        gated = torch.nn.functional.silu(first) * second
    added = aiter_prebuilt.gemm_a16w16(gated, down)
    out, residual_out = torch.empty_like(x), torch.empty_like(x)
    aiter_prebuilt.rmsnorm2d_fwd_with_add(out, added, residual, residual_out, weight, 1e-6)
    return out


#: Whether the bundle has the gate; set by :func:`main`.
STATE = {"gate": False}


def opcheck(names: set[str], target: str) -> dict[str, Callable[[], object]]:
    """One check per call of :func:`support.torch_kernels.samples` whose operator the bundle has."""
    import aiter_prebuilt.tracing.library  # noqa: F401  # registers

    def check(name: str, args: tuple[Any, ...]) -> None:
        operator = getattr(torch.ops.aiter_prebuilt, name).default
        try:
            operator(*args)
        except errors.NoKernelError as error:  # a shape that only other targets cover
            print(f"  {name}: no kernel here: {str(error).splitlines()[0][:150]}")
            return
        torch.library.opcheck(operator, args, test_utils=torch_kernels.checks(args))
        torch_kernels.check_written(operator, args)

    found: dict[str, Callable[[], object]] = {}
    for name, label, args in torch_kernels.samples("cuda", target, names):
        found[f"opcheck {name} {label}"] = partial(check, name, args)
    return found


def compiled(backend: str) -> None:
    """No graph break, and the eager calls' values, for two numbers of rows."""
    torch.compiler.reset()
    run = torch.compile(block, fullgraph=True, backend=backend)
    for rows in (16, 40):
        values = inputs(rows)
        assert torch.allclose(run(*values).float(), block(*values).float(), rtol=STEPS, atol=STEPS), rows


def gradients(ragged: bool, backend: str) -> None:
    """Gradients of attention by torch's engine beside float64: of ragged sequences, or of two that are alike."""
    lengths = ((70, 90), (5, 130), (125, 33)) if ragged else ((70, 130), (70, 130))
    columns = [[0, *itertools.accumulate(each)] for each in zip(*lengths, strict=True)]
    starts = [torch.tensor(each, dtype=torch.int32, device="cuda") for each in columns]
    shapes = [(columns[0][-1], 8, 128), *[(columns[1][-1], 2, 128)] * 2]
    leaves = [torch.randn(*shape, device="cuda").to(BF16).requires_grad_() for shape in shapes]
    exact = [each.detach().double().requires_grad_() for each in leaves]

    def run(q: Any, k: Any, v: Any) -> Any:
        if ragged:
            return aiter_prebuilt.flash_attn_varlen_func(q, k, v, starts[0], starts[1], 125, 130, causal=True)
        q, k, v = (each.unflatten(0, (len(lengths), -1)) for each in (q, k, v))
        return aiter_prebuilt.flash_attn_func(q, k, v, causal=True).flatten(0, 1)

    torch.compiler.reset()
    called = torch.compile(run, fullgraph=True, backend=backend) if backend else run
    with torch.enable_grad():
        out = called(*leaves)
        spans = [itertools.pairwise(each) for each in columns]
        wanted = torch.cat(
            [
                _exact(exact[0][a:b], exact[1][c:d], exact[2][c:d])
                for (a, b), (c, d) in zip(*spans, strict=True)
            ]
        )
        dout = torch.randn_like(out)
        found = torch.autograd.grad(out, leaves, dout)
        for name, ours, other in zip(
            "qkv", found, torch.autograd.grad(wanted, exact, dout.double()), strict=True
        ):
            off = (ours.double() - other).abs().max() / other.abs().max()
            assert off < STEPS, (name, float(off))


def _exact(q: Any, k: Any, v: Any) -> Any:
    """Causal attention of one sequence in the type that its tensors have."""
    keys, values = (each.repeat_interleave(4, 1) for each in (k, v))
    last = torch.arange(q.shape[0], device="cuda")[:, None] + k.shape[0] - q.shape[0]
    hidden = torch.arange(k.shape[0], device="cuda")[None] > last
    scores = torch.einsum("ihd,jhd->hij", q, keys) * 128**-0.5
    weights = torch.nan_to_num(scores.masked_fill(hidden, float("-inf")).softmax(-1))
    return torch.einsum("hij,jhd->ihd", weights, values)


def differentiated(names: set[str], backends: tuple[str, ...]) -> dict[str, Callable[[], object]]:
    """:func:`gradients` of the functions whose operators the bundle has."""
    return {
        f"gradients of {name} {backend}".rstrip(): partial(gradients, ragged, backend)
        for name, ragged in (("flash_attn_func", False), ("flash_attn_varlen_func", True))
        if name in names
        for backend in backends
    }


def captured() -> None:
    """torch.cuda.graph after preload: replays give the values of an eager call on new inputs, and load nothing."""
    aiter_prebuilt.preload()
    values = inputs(17)
    block(*values)  # torch's own kernels and allocator are warm
    torch.cuda.synchronize()
    loaded = dispatch.operator("rms_norm").stats()["modules_loaded"]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = block(*values)
    for _ in range(3):
        for old, new in zip(values, inputs(17), strict=True):
            old.copy_(new)
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(out, block(*values))
    assert dispatch.operator("rms_norm").stats()["modules_loaded"] == loaded


def capture_unloaded() -> None:
    """Nothing loaded: CaptureError names the call to make, the capture goes on, and what it has captured replays.

    Runs first: modules stay loaded for the life of the process.
    """
    x, weight = torch.randn(7, 512, device="cuda").to(BF16), torch.ones(512, device="cuda", dtype=BF16)
    doubled = torch.empty_like(x)
    torch.mul(x, 2, out=doubled)
    graph = torch.cuda.CUDAGraph()
    refused = ""
    with torch.cuda.graph(graph):
        torch.mul(x, 2, out=doubled)
        try:
            aiter_prebuilt.rms_norm(x, weight, 1e-6)
        except errors.CaptureError as error:
            refused = str(error)
    assert "preload" in refused, refused or "the capture loaded a module"
    doubled.zero_()
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(doubled, x * 2)


def without_memory() -> None:
    """Tensors of this device without memory: refused, and nothing is launched."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    real = torch.zeros(4, 512, device="cuda", dtype=BF16)
    with FakeTensorMode():
        fake = torch.empty(4, 512, device="cuda", dtype=BF16)
    weight = torch.ones(512, device="cuda", dtype=BF16)
    before = dispatch.operator("rmsnorm2d_fwd_with_add").stats()["launches"]
    for tensor, kind in (
        (fake, errors.ArgumentDeviceError),
        (real.to("meta"), errors.ArgumentDeviceError),
        (real.cpu(), errors.ArgumentDeviceError),
        (real.to(torch.complex64).conj(), errors.ArgumentDTypeError),
        (real[:, ::2], errors.ArgumentShapeError),
        (real.t(), errors.ArgumentShapeError),
        (torch.zeros(4, 1024, device="cuda", dtype=BF16)[:, ::2], errors.ArgumentStrideError),
    ):
        try:
            aiter_prebuilt.rmsnorm2d_fwd_with_add(tensor, real, real, real.clone(), weight, 1e-6)
        except kind:
            continue
        raise AssertionError(f"{tuple(tensor.shape)} {tensor.device} was accepted")
    assert dispatch.operator("rmsnorm2d_fwd_with_add").stats()["launches"] == before


def main(words: list[str] | None = None) -> int:
    """Run everything; one line per check that does not hold."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--inductor", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(words)
    targets = {bundle.target for bundle in locate.installed()}
    facts = [f for vendor in device.VENDORS for f in device.probe(vendor).devices if f.target in targets]
    if not facts or not torch.cuda.is_available():
        print("no GPU with an installed bundle here: nothing was executed")
        return 2
    names = {name for bundle in dispatch.bundles_of(facts[0].target, str(facts[0])) for name in bundle.names}
    STATE["gate"] = "silu_and_mul" in names
    torch.manual_seed(5)
    with torch.no_grad():
        checks: dict[str, Callable[[], object]] = {
            "capture without preload": capture_unloaded,
            "capture and replay": captured,
            "tensors without memory": without_memory,
            **{f"compile {name}": partial(compiled, name) for name in ("eager", "aot_eager")},
            **differentiated(names, ("", "eager", "aot_eager")),
            **opcheck(names, facts[0].target),
        }
        if options.inductor:
            checks["compile inductor"] = lambda: compiled("inductor")
            checks |= differentiated(names, ("inductor",))
        failed = {}
        for label, check in checks.items():
            try:
                check()
            except Exception:  # noqa: BLE001  # a line of the report, and the next check
                failed[label] = traceback.format_exc()
                print(f"{label}: {failed[label].splitlines()[-1][:300]}")
    print(f"{facts[0]}, torch {torch.__version__}: {len(checks) - len(failed)} of {len(checks)} held")
    print(f"not in this bundle: {', '.join(sorted(set(torch_kernels.KERNELS) - names)) or 'nothing'}")
    if options.json:
        options.json.write_text(
            json.dumps({"version": 1, "checks": list(checks), "failed": failed}, indent=1)
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
