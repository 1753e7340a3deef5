"""A child of ``test_torch_bridge.py``, written for a GPU: nothing in it says that there is none."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton.testing import do_bench

DEVICE = "cuda"


@triton.jit
def add_kernel(x, y, out, count, BLOCK: tl.constexpr) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    there = at < count
    tl.store(out + at, tl.load(x + at, mask=there) + tl.load(y + at, mask=there), mask=there)


def added(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    add_kernel[(triton.cdiv(x.numel(), 128),)](x, y, out, x.numel(), BLOCK=128)
    return out


def test_what_the_device_says_of_itself() -> None:
    assert torch.cuda.is_available() and torch.version.hip and torch.version.cuda is None
    properties = torch.cuda.get_device_properties(0)
    assert torch.cuda.device_count() == 2 and torch.cuda.current_device() == 0
    assert properties.gcnArchName.startswith("gfx942") and properties.warp_size == 64
    assert (properties.multi_processor_count, torch.cuda.get_device_capability()) == (304, (9, 4))
    assert torch.cuda.get_device_capability(1) == (9, 5)
    free, total = torch.cuda.mem_get_info()
    kept = torch.empty(1 << 20, device=DEVICE)
    assert total == properties.total_memory and torch.cuda.mem_get_info()[0] <= free - kept.nbytes


def test_where_tensors_are() -> None:
    x = torch.randn(5, 7, device=DEVICE)
    host = torch.randn(5, 7)
    assert x.is_cuda and x.device == torch.device("cuda", 0) and x.get_device() == 0 and "cuda:0" in repr(x)
    made = [
        x + 1, x[1:, ::2], x @ x.T, x.half(), x.T.contiguous(), torch.cat([x, x]), x.sum(), torch.zeros_like(x), x.new_ones(3),
        torch.empty(0, 3, device=DEVICE), host.cuda(), host.to(DEVICE), host.to(x), x.clone().fill_(2), x.max(0).values,
        torch.tensor([1, 2], device=DEVICE), torch.arange(4, device=torch.device("cuda")), torch.where(x > 0, x, -x),
        torch.nn.functional.layer_norm(x, (7,)), x.float().to(torch.bfloat16), host.pin_memory().to(0, non_blocking=True),
    ]  # fmt: skip
    assert [each.device for each in made] == [torch.device("cuda", 0)] * len(made)
    assert not host.is_cuda and x.cpu().device == x.to("cpu").device == torch.device("cpu")
    assert host.pin_memory().is_pinned() and not host.is_pinned()
    torch.testing.assert_close(x.cpu() + 1, made[0].cpu())
    with pytest.raises(TypeError, match=r"Tensor\.cpu"):
        x.numpy()
    copied = torch.zeros(5, 7)
    copied.copy_(x)
    assert not copied.is_cuda and torch.equal(copied, x.cpu())
    with torch.cuda.device(1):
        other = torch.ones(3, device=DEVICE)
    assert other.device.index == 1 and x.to("cuda:1").device.index == 1 and torch.cuda.current_device() == 0


def test_a_copy_is_a_copy() -> None:
    x = torch.zeros(4, device=DEVICE)
    y, same = x.cpu(), x.to(DEVICE)
    x += 1
    assert same is x and y.tolist() == [0] * 4 and x.tolist() == [1] * 4


def test_a_kernel_of_triton() -> None:
    for count in (1, 1000, 4097):
        x, y = torch.randn(count, device=DEVICE), torch.randn(count, device=DEVICE)
        torch.testing.assert_close(added(x, y), x + y, rtol=0, atol=0)
    milliseconds: Any = do_bench(lambda: added(x, y), warmup=1, rep=2)
    assert milliseconds > 0


class Added(torch.autograd.Function):
    """A kernel forward, and one backward."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(y)
        return added(x, y)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        (y,) = ctx.saved_tensors
        assert grads[0].is_cuda and torch.empty_like(grads[0]).is_cuda
        return added(grads[0].contiguous(), torch.zeros_like(y)), None


def test_gradients_through_kernels_and_modules() -> None:
    model = torch.nn.Linear(6, 4).to(DEVICE)
    x = torch.randn(3, 6, device=DEVICE, requires_grad=True)
    assert all(each.is_cuda for each in model.parameters())
    apply: Any = Added.apply
    out = apply(model(x), torch.ones(3, 4, device=DEVICE))
    out.square().sum().backward()
    assert (
        x.grad is not None and x.grad.is_cuda and model.weight.grad is not None and model.weight.grad.is_cuda
    )
    expected = 2 * (model(x) + 1) @ model.weight
    torch.testing.assert_close(x.grad, expected)
    (again,) = torch.autograd.grad((x * x).sum(), x)
    assert again.is_cuda
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    assert model.weight.is_cuda


def test_streams_and_events() -> None:
    stream, first, last = (
        torch.cuda.Stream(),
        torch.cuda.Event(enable_timing=True),
        torch.cuda.Event(enable_timing=True),
    )
    x = torch.ones(300, device=DEVICE)
    with torch.cuda.stream(stream):
        assert torch.cuda.current_stream() == stream
        first.record()
        y = added(x, x)
        last.record()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    assert last.query() and stream.query() and first.elapsed_time(last) > 0 and y.tolist() == [2] * 300
    assert torch.cuda.current_stream() == torch.cuda.default_stream()


@triton.jit
def wait_kernel(flag, out) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
    while tl.atomic_add(flag, 0) == 0:
        pass
    tl.store(out, 7)


def test_a_kernel_that_waits_for_a_later_store() -> None:
    """On another stream; freed memory does not wait for it."""
    stream, flag, out = (
        torch.cuda.Stream(),
        torch.zeros(1, dtype=torch.int32, device=DEVICE),
        torch.zeros(1, device=DEVICE),
    )
    with torch.cuda.stream(stream):
        wait_kernel[(1,)](flag, out)
    assert not stream.query()
    torch.zeros(100, device=DEVICE)
    flag.fill_(1)
    stream.synchronize()
    assert out.item() == 7


def test_a_graph_of_kernels() -> None:
    x, y = torch.ones(300, device=DEVICE), torch.ones(300, device=DEVICE)
    out = torch.zeros(300, device=DEVICE)
    added(x, y)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        add_kernel[(3,)](x, y, out, 300, BLOCK=128)
        with pytest.raises(RuntimeError, match="capture kernels only"):
            x + y
    assert out.tolist() == [0] * 300
    x.fill_(4)
    graph.replay()
    torch.cuda.synchronize()
    assert out.tolist() == [5] * 300


def test_a_graph_keeps_what_was_made_while_it_captured() -> None:
    """And clears it on each replay, where it was made as zeros."""
    x, out = torch.ones(300, device=DEVICE), torch.zeros(300, device=DEVICE)
    added(x, x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        part = torch.empty(300, device=DEVICE)
        total = torch.zeros(300, device=DEVICE)
        add_kernel[(3,)](x, x, part, 300, BLOCK=128)
        add_kernel[(3,)](total, part, total, 300, BLOCK=128)
        add_kernel[(3,)](total, part, out, 300, BLOCK=128)
        address = part.data_ptr()
        del part
    torch.cuda.synchronize()
    assert all(torch.empty(300, device=DEVICE).data_ptr() != address for _ in range(4))
    for value in (3, 5):
        x.fill_(value)
        graph.replay()
        torch.cuda.synchronize()
        assert out.tolist() == [4 * value] * 300 and total.tolist() == [2 * value] * 300


def test_a_generator_of_the_device_has_seed_and_offset() -> None:
    chosen = torch.Generator(device=DEVICE).manual_seed(7)
    assert (chosen.initial_seed(), chosen.get_offset(), chosen.device.type) == (7, 0, "cuda")
    first = torch.rand(6, generator=chosen, device=DEVICE)
    assert chosen.get_offset() > 0 and chosen.get_offset() % 4 == 0
    state = chosen.get_state()
    assert state.shape == (16,) and state.dtype == torch.uint8 and not state.is_cuda
    second = torch.rand(6, generator=chosen, device=DEVICE)
    chosen.set_state(state)
    assert torch.equal(torch.rand(6, generator=chosen, device=DEVICE), second) and not torch.equal(
        first, second
    )
    chosen.set_offset(0)
    assert torch.equal(torch.rand(6, generator=chosen, device=DEVICE), first)
    with pytest.raises(RuntimeError, match="multiple of 4"):
        chosen.set_offset(3)
    with pytest.raises(RuntimeError):
        torch.Generator().get_offset()


def test_default_generators_of_devices_are_their_own() -> None:
    """``torch.manual_seed`` seeds all; what a device draws moves neither the processor's numbers nor another device's."""
    torch.manual_seed(11)
    generators: Any = torch.cuda.default_generators
    mine = generators[0]
    assert len(generators) == 2 and torch.cuda.initial_seed() == 11 and mine.get_offset() == 0
    host = torch.rand(3)
    torch.manual_seed(11)
    x = torch.randn(5, device=DEVICE)
    assert torch.equal(torch.rand(3), host) and mine.get_offset() > 0
    assert generators[1].get_offset() == 0
    saved = torch.cuda.get_rng_state()
    y = torch.empty(5, device=DEVICE).exponential_()
    torch.cuda.set_rng_state(saved)
    assert torch.equal(torch.empty(5, device=DEVICE).exponential_(), y)
    with torch.random.fork_rng(devices=[0]):
        torch.randn(5, device=DEVICE)
        moved = mine.get_offset()
    assert mine.get_offset() != moved
    torch.cuda.manual_seed(11)
    assert torch.equal(torch.randn(5, device=DEVICE), x)


def test_bodies_of_registered_operators_are_program_code() -> None:
    seen: list[torch.device] = []

    @torch.library.custom_op("bridge_program::scaled", mutates_args=())
    def scaled(x: torch.Tensor, by: float) -> torch.Tensor:
        seen.append(x.device)
        out = torch.empty(x.shape, dtype=x.dtype, device="cuda")
        assert out.is_cuda
        return added(x, x) * (by / 2) + out.zero_()

    @scaled.register_fake
    def _(x: torch.Tensor, by: float) -> torch.Tensor:
        return torch.empty_like(x)

    x = torch.ones(200, device=DEVICE)
    for call in (scaled, torch.ops.bridge_program.scaled, torch.ops.bridge_program.scaled.default):
        out = call(x, 3.0)
        assert out.is_cuda and out.tolist() == [3.0] * 200
    assert seen == [torch.device("cuda", 0)] * 3

    @torch.library.custom_op("bridge_program::counted", mutates_args=("x",))
    def counted(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return torch.tensor([x.numel()])

    count = counted(x)
    assert x.tolist() == [2.0] * 200 and not count.is_cuda and count.item() == 200


def test_a_profile_of_the_device_is_quick_and_quiet(capfd: pytest.CaptureFixture[str]) -> None:
    """Of the processor's side: AITER's timers ask for both activities, with a hundred calls in a profile."""
    both = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    assert set(both) <= torch.profiler.supported_activities()
    x = torch.ones(300, device=DEVICE)
    begun = time.monotonic()
    with torch.profiler.profile(activities=both, with_modules=True) as found:
        for _ in range(100):
            x = x + 1
        torch.cuda.synchronize()
    assert time.monotonic() - begun < 30 and x[0].item() == 101
    assert sum(each.name == "aten::add" for each in found.events()) == 100
    assert "Failed to record" not in capfd.readouterr().err
    with torch.autograd.profiler.profile(use_device="cuda") as older:
        x + 1
    assert any(each.name == "aten::add" for each in older.function_events)


def test_operators_of_the_key_cuda_alone() -> None:
    library = torch.library.Library("bridge_program_keys", "FRAGMENT")
    library.define("where(Tensor x) -> Tensor")
    library.define("both(Tensor x) -> Tensor")
    library.define("made(int n, Device device) -> Tensor")
    library.impl("where", lambda x: torch.full((2,), x.device.index, device=x.device), "CUDA")
    library.impl("both", lambda x: x + 1, "CPU")
    library.impl("both", lambda x: x + 2, "CUDA")
    library.impl("made", lambda n, device: torch.ones(n, device=device), "CompositeExplicitAutograd")
    there = torch.zeros(3, device="cuda:1")
    assert torch.ops.bridge_program_keys.where(there).tolist() == [1, 1]
    assert torch.ops.bridge_program_keys.where(there).device == torch.device("cuda", 1)
    assert torch.ops.bridge_program_keys.both(there).tolist() == [2] * 3
    assert torch.ops.bridge_program_keys.both(torch.zeros(3)).tolist() == [1] * 3
    with pytest.raises(NotImplementedError, match="CPU"):
        torch.ops.bridge_program_keys.where(torch.zeros(3))
    made = torch.ops.bridge_program_keys.made(4, torch.device("cuda", 1))
    assert made.device == torch.device("cuda", 1) and made.tolist() == [1] * 4
    assert not torch.ops.bridge_program_keys.made(4, torch.device("cpu")).is_cuda


def test_generators_threads_and_exchange() -> None:
    numbers = [
        torch.randn(4, generator=torch.Generator(device=DEVICE).manual_seed(5), device=DEVICE)
        for _ in range(2)
    ]
    assert torch.equal(*numbers) and numbers[0].is_cuda
    found: list[torch.device] = []
    thread = threading.Thread(target=lambda: found.append((torch.ones(2, device=DEVICE) + 1).device))
    thread.start()
    thread.join()
    assert found == [torch.device("cuda", 0)]
    x = numbers[0]
    assert x.__dlpack_device__() == (10, 0)
    back = torch.utils.dlpack.from_dlpack(x.__dlpack__())
    assert back.data_ptr() == x.data_ptr() and back.is_cuda
    assert torch.from_numpy(np.ones(3)).to(DEVICE).is_cuda


def test_memory_ends_with_its_tensor() -> None:
    before = torch.cuda.mem_get_info()[0]
    x = torch.empty(1 << 22, dtype=torch.uint8, device=DEVICE)
    view = x[5:]
    assert torch.cuda.mem_get_info()[0] <= before - (1 << 22)
    del x
    assert torch.cuda.mem_get_info()[0] <= before - (1 << 22) and view.is_cuda
    del view
    assert torch.cuda.mem_get_info()[0] == before


@triton.jit
def far_kernel(x, BLOCK: tl.constexpr) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
    tl.store(x + (1 << 20) + tl.arange(0, BLOCK), 1)


def test_a_fault_is_an_error_of_this_test() -> None:
    x = torch.zeros(64, dtype=torch.int32, device=DEVICE)
    with pytest.raises((RuntimeError, SystemError)):  # Triton calls Python with the error set
        far_kernel[(1,)](x, BLOCK=64)


def test_and_not_of_the_next_one() -> None:
    assert torch.ones(2, device=DEVICE).sum().item() == 2
