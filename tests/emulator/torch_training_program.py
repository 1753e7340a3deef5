"""A child of ``test_torch_bridge.py``, written for a GPU: what training scripts do besides kernels."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

DEVICE = "cuda"


@pytest.mark.parametrize("name", ["Adam", "AdamW", "RMSprop", "Adagrad", "SGD"])
def test_an_optimizer(name: str) -> None:
    weights = []
    for device in ("cpu", DEVICE):
        weight = torch.nn.Parameter(torch.tensor([1.0, -2.0, 3.0], device=device))
        optimizer: Any = getattr(torch.optim, name)([weight], lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            weight.square().sum().backward()
            optimizer.step()
        weights.append(weight)
    assert weights[1].is_cuda and torch.equal(weights[0], weights[1].cpu())
    assert not torch.cuda.current_stream().is_capturing() and not torch.cuda.Stream().is_capturing()


def test_a_stream_says_that_it_captures() -> None:
    stream = torch.cuda.Stream()
    with torch.cuda.graph(torch.cuda.CUDAGraph(), stream=stream):
        assert stream.is_capturing() and torch.cuda.is_current_stream_capturing()
    assert not stream.is_capturing()


def test_the_default_device() -> None:
    makers: list[Any] = [
        lambda: torch.zeros(3), lambda: torch.empty(3), lambda: torch.ones(3), lambda: torch.randn(3), lambda: torch.arange(3),
        lambda: torch.empty_strided((2,), (1,)), lambda: torch.tensor([1.0]), lambda: torch.nn.Linear(2, 2).weight,
        lambda: torch.as_tensor([1, 2]), lambda: torch.full((2,), 3),
    ]  # fmt: skip
    for device in (torch.device("cuda", 0), torch.device("cuda", 1)):
        torch.set_default_device(device)
        try:
            assert [each().device for each in makers] == [device] * len(makers)
            assert torch.get_default_device() == device
            assert not torch.zeros(3, device="cpu").is_cuda and repr(torch.ones(2))
            with torch.device("cpu"):
                assert not torch.zeros(3).is_cuda and torch.get_default_device() == torch.device("cpu")
        finally:
            torch.set_default_device(None)
        assert not any(each().is_cuda for each in makers)
        assert torch.get_default_device() == torch.device("cpu")


@triton.jit
def late_kernel(flag, out) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
    while tl.atomic_add(flag, 0) == 0:
        pass
    tl.store(out, 7)


def test_memory_that_another_stream_uses() -> None:
    """It is there until that stream is done, which the default stream does not wait for."""
    stream, flag = torch.cuda.Stream(), torch.zeros(1, dtype=torch.int32, device=DEVICE)
    before = torch.cuda.mem_get_info()[0]
    out = torch.zeros(1 << 20, device=DEVICE)
    with torch.cuda.stream(stream):
        late_kernel[(1,)](flag, out)
    out.record_stream(stream)
    del out
    assert torch.cuda.mem_get_info()[0] <= before - (4 << 20)
    torch.ones(3, device=DEVICE).sum()
    assert not stream.query()
    flag.fill_(1)
    stream.synchronize()
    torch.cuda.synchronize()
    assert torch.cuda.mem_get_info()[0] > before - (1 << 20)  # the kernel's code is there, too


def test_tensors_that_grow() -> None:
    x = torch.arange(5.0, device=DEVICE)
    address = x.data_ptr()
    assert x.resize_(3) is x and x.data_ptr() == address and x.tolist() == [0, 1, 2]
    assert x.resize_(20, 30) is x and x.is_cuda and x.shape == (20, 30) and x.data_ptr() != address
    assert x.untyped_storage().nbytes() >= 4 * 600 and x.view(-1)[:5].tolist() == [0, 1, 2, 3, 4]
    assert x[1:].resize_([40, 30]).shape == (40, 30)
    like = torch.randn(2, 3, 40, 50, device=DEVICE).to(memory_format=torch.channels_last)
    y = torch.zeros(1, device=DEVICE).resize_as_(like, memory_format=torch.preserve_format)
    assert y.stride() == like.stride() and y.is_cuda and torch.equal(y.copy_(like), like)
    assert torch.zeros(1, device=DEVICE).resize_as_(like).is_contiguous()
    leaf = torch.zeros(2, device=DEVICE, requires_grad=True)
    with pytest.raises(RuntimeError, match="require grad"):
        leaf.resize_(9)
    assert leaf.shape == (2,)


def test_outputs_that_grow() -> None:
    x = torch.randn(50, 7, device=DEVICE)
    out = torch.empty(0, device=DEVICE)
    assert torch.add(x, 1, out=out) is out and out.is_cuda and torch.equal(out, x + 1)
    address = out.data_ptr()
    assert torch.mul(x, 2, out=out).data_ptr() == address and torch.equal(out, x * 2)
    values, places = torch.empty(0, device=DEVICE), torch.empty(0, dtype=torch.int64, device=DEVICE)
    found = torch.max(x, 1, out=(values, places))
    assert found.values is values and found.indices is places and values.is_cuda and places.is_cuda
    assert torch.equal(values, x.max(1).values) and torch.equal(places, x.max(1).indices)
    with pytest.raises(RuntimeError):
        torch.mm(x, x, out=values)
    assert values.shape == (50,)


def saved(value: Any, **form: Any) -> Any:
    file = io.BytesIO()
    torch.save(value, file, **form)
    return file.getvalue()


@pytest.mark.parametrize("zipped", [True, False])
def test_saved_tensors_come_back_where_they_were(zipped: bool) -> None:
    kinds = [torch.float32, torch.float16, torch.int64, torch.uint8, torch.complex64]
    made = [torch.arange(count, device=DEVICE).to(kind) for kind in kinds for count in (0, 1, 3, 70)]
    state = {
        "all": made,
        "other": torch.ones(3, device="cuda:1"),
        "host": torch.ones(3),
        "view": made[3][2:5],
    }
    file = saved(state, _use_new_zipfile_serialization=zipped)
    back = torch.load(io.BytesIO(file))
    for each, same in zip(made, back["all"], strict=True):
        assert same.device == each.device and same.dtype == each.dtype and torch.equal(each, same)
    assert back["other"].device == torch.device("cuda", 1) and not back["host"].is_cuda
    assert back["view"].tolist() == [2, 3, 4]
    back["view"].zero_()
    assert back["all"][3].sum().item() == made[3].sum().item() - 9
    there = torch.load(io.BytesIO(file), map_location="cpu")
    assert not any(each.is_cuda for each in [*there["all"], there["other"]])
    moved = torch.load(io.BytesIO(file), map_location="cuda:1")
    assert {each.device for each in [*moved["all"], moved["host"]]} == {torch.device("cuda", 1)}
    assert torch.equal(moved["all"][3].cpu(), made[3].cpu())
    with pytest.raises(RuntimeError, match="device_count"):
        torch.load(io.BytesIO(file), map_location="cuda:2")


@pytest.mark.parametrize("count", [0, 3, 5])
def test_a_storage_is_of_the_size_asked_for(count: int) -> None:
    """Though its memory ends with a dword; and it ends with its last tensor."""
    before = torch.cuda.mem_get_info()[0]
    x = torch.ones(count, dtype=torch.uint8, device=DEVICE)
    view = x[1:]
    assert x.untyped_storage().nbytes() == count and view.is_cuda
    del x
    assert torch.cuda.mem_get_info()[0] < before and view.tolist() == [1] * max(count - 1, 0)
    del view
    assert torch.cuda.mem_get_info()[0] == before


def test_pickled_tensors_and_modules() -> None:
    for each in (torch.randn(7, device=DEVICE), torch.zeros(0, device=DEVICE, dtype=torch.int64)):
        back = pickle.loads(pickle.dumps(each))
        assert back.device == each.device and torch.equal(back, each)
        copied = copy.deepcopy(each)
        assert copied.device == each.device and torch.equal(copied, each)
    model = torch.nn.Linear(3, 2).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 3, device=DEVICE)).sum().backward()
    optimizer.step()
    states = torch.load(io.BytesIO(saved([model.state_dict(), optimizer.state_dict()])))
    assert states[0]["weight"].is_cuda and torch.equal(states[0]["weight"], model.weight)
    assert states[1]["state"][0]["exp_avg"].is_cuda
    whole = torch.load(io.BytesIO(saved(model)), weights_only=False)
    assert isinstance(whole.weight, torch.nn.Parameter) and whole.weight.is_cuda


def test_hooks_see_gradients_on_the_device() -> None:
    seen: list[Any] = []

    def hook(gradient: torch.Tensor) -> torch.Tensor:
        seen.append((gradient.device, torch.zeros(2, device=DEVICE).device))
        return gradient * 3

    x = torch.ones(3, device=DEVICE, requires_grad=True)
    y = x * 2
    handle = y.register_hook(hook)
    x.register_post_accumulate_grad_hook(lambda leaf: seen.append((leaf.device, leaf.grad.device)))
    y.sum().backward()
    assert seen == [(x.device, x.device)] * 2 and x.grad is not None and x.grad.tolist() == [6] * 3
    handle.remove()
    seen.clear()
    plain = torch.ones(3, requires_grad=True)
    plain.register_hook(lambda gradient: seen.append(gradient.device))
    plain.sum().backward()
    assert seen == [torch.device("cpu")]


def test_hooks_of_a_module_do() -> None:
    model: Any = torch.nn.Linear(3, 2).to(DEVICE)
    seen: list[torch.device] = []

    def after(_: Any, ins: Any, outs: Any) -> None:
        seen.extend([ins[0].device, outs[0].device])

    def before(_: Any, outs: Any) -> None:
        seen.append(outs[0].device)

    model.register_full_backward_hook(after)
    model.register_full_backward_pre_hook(before)
    x = torch.ones(4, 3, device=DEVICE, requires_grad=True)
    model(x).square().sum().backward()
    assert seen == [x.device] * 3 and x.grad is not None and x.grad.is_cuda


def test_names_of_kinds_and_of_memory() -> None:
    x, host = torch.ones(3, device=DEVICE), torch.ones(3)
    assert (x.type(), host.type(), x.long().type()) == (
        "torch.cuda.FloatTensor", "torch.FloatTensor", "torch.cuda.LongTensor",
    )  # fmt: skip
    moved = host.type("torch.cuda.HalfTensor")
    assert moved.is_cuda and moved.dtype == torch.float16 and moved.tolist() == [1] * 3
    back = x.type("torch.IntTensor")
    assert not back.is_cuda and back.dtype == torch.int32
    assert x.type(torch.float64).is_cuda and x.type(torch.float64).dtype == torch.float64
    assert x.type("torch.cuda.FloatTensor") is x
    assert "bytes in use" in torch.cuda.memory_summary()
    assert len(torch.cuda.default_generators) == 2
