"""AITER's own Triton kernels in a process of its own, launched by Triton's own AMD driver on the embedded device, from the
bridge's data wheel: test_bridge_seeds.py makes the surroundings, and reads the line of JSON that this prints.

    python seeded_program.py TREE SITE TARGET ready               let Triton's driver compile its host part, and no more
    python seeded_program.py TREE SITE TARGET call NAME...        calls of these functions below, judged
"""

from __future__ import annotations

import importlib
import json
import os
import site
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from emulator.bridge_program import obey_permissions

#: Where a compile of Triton's is told, in the place of one of the forbidden programs.
TOLD = "SEEDED_TOLD"


def use_tritons_driver(device: Any) -> None:
    """Triton's driver, with what it would ask torch; tensors on the processor are told to HIP as they are launched."""
    triton: Any = importlib.import_module("triton")
    torch: Any = importlib.import_module("torch")
    amd: Any = importlib.import_module("triton.backends.amd.driver")
    driver = amd.HIPDriver()
    driver.get_current_device = lambda: 0
    driver.set_current_device = lambda ordinal: None
    driver.get_current_stream = lambda ordinal: 0
    driver.get_active_torch_device = lambda: torch.device("cpu")
    own = driver.launcher_cls

    def launcher(*words: Any) -> Callable[..., None]:
        made = own(*words)

        def launch(*given: Any) -> None:
            for each in given:
                if isinstance(each, torch.Tensor):
                    storage = each.untyped_storage()
                    device._tell(storage.data_ptr(), storage.nbytes())
            made(*given)
            device._checked("hipDeviceSynchronize")

        return launch

    driver.launcher_cls = launcher
    triton.runtime.driver.set_active(driver)
    facts: Any = importlib.import_module("aiter_prebuilt.devices.device").facts("amd", 0)
    torch.cuda.get_device_properties = lambda *_: SimpleNamespace(multi_processor_count=facts.compute_units)
    torch.cuda.current_device = lambda: 0


def forbid_compiles() -> None:
    """A compile of Triton's is told, and ends."""
    compiler: Any = importlib.import_module("triton.compiler.compiler")

    def make_ir(source: Any, *_: Any, **__: Any) -> Any:
        with Path(os.environ[TOLD]).open("a") as file:
            file.write(f"triton {source.fn.__qualname__}\n")
        raise RuntimeError(f"Triton compiles {source.fn.__qualname__}")

    compiler.ASTSource.make_ir = make_ir


def function_of(name: str, *modules: str) -> Any:
    """AITER's function, wherever this tree has it."""
    for place in modules:
        try:
            return getattr(importlib.import_module(place), name)
        except ModuleNotFoundError as error:
            if not str(error.name).startswith("aiter."):
                raise
    raise LookupError(name)


def _difference(found: Any, wanted: Any, bound: float) -> list[str]:
    """What is wrong with bf16 results; ``bound`` times what they are."""
    away = (found.double() - wanted).abs()
    worst = float((away - bound * wanted.abs()).max())
    return [] if worst <= bound else [f"off by {float(away.max())}"]


def _angles(torch: Any, positions: int, half: int) -> tuple[Any, Any]:
    angles = torch.outer(
        torch.arange(positions).double(), 1.0 / 10000 ** (torch.arange(half).double() / half)
    )
    return angles.cos().bfloat16(), angles.sin().bfloat16()


def rope_cat() -> list[str]:
    """Queries and keys of a latent cache: pairs of neighbours are rotated, and put behind the rest."""
    torch: Any = importlib.import_module("torch")
    rows, heads, nope, rope = 8, 16, 512, 64
    function = function_of(
        "fused_qk_rope_cat", "aiter.ops.triton.fusions.fused_qk_concat", "aiter.ops.triton.fused_qk_concat"
    )
    cos, sin = _angles(torch, 64, rope // 2)
    q = torch.randn(heads, rows, nope).bfloat16().transpose(0, 1)
    q_pe = torch.randn(rows, heads, 128 + rope).bfloat16()[..., 128:]
    k, k_pe = (
        torch.randn(rows, 1, nope).bfloat16(),
        torch.randn(rows, 1, 1536 + nope + rope).bfloat16()[..., -rope:],
    )
    at = torch.randint(0, 64, (rows,))
    shown = [each.view(64, 1, 1, rope // 2) for each in (cos, sin)]
    found = function(q, q_pe, k, k_pe, at, *shown, False)
    problems = []
    for out, plain, turned in zip(found, (q, k), (q_pe, k_pe), strict=True):
        even, odd = turned.double()[..., ::2], turned.double()[..., 1::2]
        c, s = (each.double()[at].view(rows, 1, -1) for each in (cos, sin))
        pairs = torch.stack((even * c - odd * s, odd * c + even * s), -1).flatten(-2)
        problems += _difference(out, torch.cat((plain.double(), pairs), -1), 2**-6)
    return problems


def rope_in_place() -> list[str]:
    """Queries and keys as parts of one row: halves are rotated."""
    torch: Any = importlib.import_module("torch")
    rows, heads, kv_heads, size = 8, 4, 1, 128
    function = function_of(
        "rope_cached_thd_positions_offsets_2c_fwd_inplace",
        "aiter.ops.triton.rope.rope",
        "aiter.ops.triton.rope",
    )
    cache = torch.cat(_angles(torch, 64, size // 2), -1)
    cos, sin = cache.chunk(2, dim=-1)
    whole = torch.randn(rows, (heads + 2 * kv_heads) * size).bfloat16()
    before = whole.double().clone()
    q = whole[:, : heads * size].view(rows, heads, size)
    k = whole[:, heads * size : (heads + kv_heads) * size].view(rows, kv_heads, size)
    at = torch.randint(0, 64, (rows,))
    function(q, k, cos, sin, at, None, 0, reuse_freqs_front_part=True, nope_first=False)
    turned = before[:, : (heads + kv_heads) * size].view(rows, heads + kv_heads, size)
    first, second = turned[..., : size // 2], turned[..., size // 2 :]
    c, s = (each.double()[at].view(rows, 1, -1) for each in (cos, sin))
    wanted = torch.cat((first * c - second * s, second * c + first * s), -1).flatten(1)
    rest = before[:, (heads + kv_heads) * size :]
    return _difference(whole, torch.cat((wanted, rest), -1), 2**-6)


def decode() -> list[str]:
    """One token of each of eight sequences, over pages of a cache, in parts that a second kernel joins."""
    torch: Any = importlib.import_module("torch")
    rows, heads, size, page, pages = 8, 8, 128, 16, 32
    function = function_of("unified_attention", "aiter.ops.triton.unified_attention")
    q = torch.randn(rows, (heads + 2) * size).bfloat16()[:, : heads * size].view(rows, heads, size)
    k, v = (torch.randn(pages, page, 1, size).bfloat16() for _ in range(2))
    lengths = torch.randint(1, 60, (rows,), dtype=torch.int32)
    table = torch.stack([torch.randperm(pages)[:8] for _ in range(rows)]).int()
    wide = torch.zeros(rows, 8192, dtype=torch.int32)
    wide[:, :8] = table
    out, scale = torch.full((rows, heads, size), float("nan")).bfloat16(), size**-0.5
    starts = torch.arange(rows + 1, dtype=torch.int32)
    function(
        q=q, k=k, v=v, out=out, cu_seqlens_q=starts, max_seqlen_q=1, seqused_k=lengths, max_seqlen_k=4096,
        softmax_scale=scale, causal=True, alibi_slopes=None, window_size=(-1, -1), block_table=wide, softcap=0.0,
        q_descale=None, k_descale=None, v_descale=None, sinks=None, output_scale=None,
    )  # fmt: skip
    wanted = []
    for row in range(rows):
        keys, values = (
            each[table[row].long()].double().view(-1, size)[: int(lengths[row])] for each in (k, v)
        )
        wanted.append(torch.softmax(q[row].double() @ keys.T * scale, -1) @ values)
    return _difference(out, torch.stack(wanted), 2**-6)


CALLS = {"rope_cat": rope_cat, "rope_in_place": rope_in_place, "decode": decode}


def main() -> None:
    tree, place, target, what, *words = sys.argv[1:]
    obey_permissions()
    site.addsitedir(place)
    sys.path.insert(0, tree)
    from embedded import EmbeddedDevice

    device = EmbeddedDevice(target)
    os.environ["TRITON_LIBHIP_PATH"] = os.environ["AITER_PREBUILT_HIP"]
    use_tritons_driver(device)
    if what == "ready":
        print(json.dumps({"report": True}))
        return
    forbid_compiles()
    sys.modules["flydsl"] = None  # type: ignore[assignment]  # AITER knows how to do without
    aiter: Any = importlib.import_module("aiter")
    assert str(aiter.__file__).startswith(tree)
    report: dict[str, Any] = {"calls": {}}
    for name in words:
        try:
            report["calls"][name] = CALLS[name]()
        except Exception as error:  # noqa: BLE001  # whatever it is, it is told
            report["calls"][name] = [f"{type(error).__name__}: {error}"[:2000]]
    from aiter_prebuilt_bridge import triton_cache

    print(json.dumps({"report": report | triton_cache.report()}))


if __name__ == "__main__":
    try:
        main()
        status = 0
    except BaseException:  # noqa: BLE001  # it is printed
        traceback.print_exc()
        status = 1
    # See bridge_program.py.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
