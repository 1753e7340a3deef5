"""FlyDSL kernels inside AITER in a process of its own, through the bridge: test_bridge_flydsl.py makes the environment and
reads the line of JSON that this prints.

    python flydsl_program.py TREE SITE TARGET scores TOKENS KEYS     AITER's flydsl_fp8_mqa_logits, compared with float64
    python flydsl_program.py TREE SITE TARGET softmax SOURCE COLUMNS our softmax as if it were AITER's, compared with float64
    python flydsl_program.py TREE SITE TARGET fill SOURCE FOLDER     that, compiled ahead of time into a data wheel's folder
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import json
import os
import site
import sys
import traceback
from pathlib import Path
from types import SimpleNamespace
from typing import Any


def scores(tokens: int, keys: int) -> str:
    """Scores of an index of a sparse attention: 64 heads of 128, each row with a window of its own."""
    torch: Any = importlib.import_module("torch")
    function = importlib.import_module("aiter.ops.flydsl").flydsl_fp8_mqa_logits
    stream = importlib.import_module("flydsl.expr").Stream(0)
    torch.cuda.device = lambda *_: _Nothing()
    torch.cuda.get_device_properties = lambda *_: SimpleNamespace(multi_processor_count=304)
    torch.cuda.current_device = lambda: 0
    kind = torch.float8_e4m3fnuz if sys.argv[3] == "gfx942" else torch.float8_e4m3fn
    q = (torch.randn(tokens, 64, 128) / 4).to(kind)
    kv, scales = torch.randn(keys, 128).to(kind), torch.rand(keys) + 0.5
    weights, starts = torch.randn(tokens, 64), torch.randint(0, keys // 2, (tokens,), dtype=torch.int32)
    ends = starts + torch.randint(1, keys // 2, (tokens,), dtype=torch.int32)
    known: list[Any] = []
    full = torch.full

    def kept(*args: Any, **words: Any) -> Any:
        return known_to_hip(full(*args, **words), known)

    torch.full = kept
    found = function(
        *(known_to_hip(each, known) for each in (q, kv, scales, weights, starts, ends)), stream=stream
    )
    torch.full = full
    assert ctypes.CDLL("libamdhip64.so.7").hipDeviceSynchronize() == 0
    products = torch.einsum("thd,kd->thk", q.double(), kv.double()) * scales.double()
    want = (torch.relu(products) * weights.double()[..., None]).sum(1)
    columns = torch.arange(keys)
    inside = (columns >= starts[:, None]) & (columns < ends[:, None])
    assert torch.isinf(found[~inside]).all() and inside.any()
    bound = (products.abs() * weights.double().abs()[..., None]).sum(1)
    wrong = ((found.double() - want).abs() / (bound + 1e-9))[inside].max().item()
    return "right" if wrong < 1e-5 else f"off by {wrong}"


class _Nothing:
    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


def known_to_hip(tensor: Any, known: list[Any]) -> Any:
    """A tensor of the processor, whose memory is the device's too."""
    hip = ctypes.CDLL("libamdhip64.so.7")
    storage = tensor.untyped_storage()
    start, size = ctypes.c_void_p(storage.data_ptr()), ctypes.c_size_t(max(storage.nbytes(), 1))
    assert hip.hipHostRegister(start, size, 0) == 0
    known.append(tensor)
    return tensor


def fill(source: str, folder: str) -> str:
    """What the build does with AITER's own functions: the launch is made without a device, and what it compiled is kept."""
    from aiter_prebuilt_bridge import flydsl_cache
    from build_tools.compile.backends.flydsl_compile import write_linker
    from build_tools.compile.store import Store
    from build_tools.pack.cache_wheel import contents
    from build_tools.seed import flydsl, flydsl_seed

    place, target = Path(folder), sys.argv[3]
    write_linker(place / "rocm", [sys.executable, "-m", "ziglang", "ld.lld"])
    os.environ |= {"COMPILE_ONLY": "1", "ROCM_PATH": str(place / "rocm"), "ARCH": target}
    store = Store(place / "store")
    kept = flydsl_seed.Kept(store, "tests")
    jit: Any = importlib.import_module(flydsl_cache.MODULE)
    jit.JitCacheManager = flydsl_seed.collecting(jit, kept)
    launched(source, 0, 0, 8)
    seeds = flydsl.seeds_of(flydsl_seed.answer_of(kept, jit, []), target, store, "tests")
    for name, data in contents(target, [seeds]).items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(data)
    return f"kept {len(seeds.seeds)}"


def softmax(source: str, columns: int) -> str:
    """One row of a FlyDSL kernel in a module of AITER's name."""
    torch: Any = importlib.import_module("torch")
    known: list[Any] = []
    row = known_to_hip(torch.randn(columns), known)
    out = known_to_hip(torch.full((columns,), float("nan")), known)
    launched(source, out.data_ptr(), row.data_ptr(), columns)
    assert ctypes.CDLL("libamdhip64.so.7").hipDeviceSynchronize() == 0
    want = torch.softmax(row.double(), 0)
    wrong = (out.double() / want - 1).abs().max().item()
    return "right" if wrong < 1e-5 else f"off by {wrong}"


def launched(source: str, out: int, row: int, columns: int) -> None:
    """The launch, with addresses."""
    flyc: Any = importlib.import_module("flydsl.compiler")
    fx: Any = importlib.import_module("flydsl.expr")
    name = "aiter.ops.softmax_of_tests"
    spec = importlib.util.spec_from_file_location(name, source)
    assert spec is not None and spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    launch, _ = module.softmax_rows({"T": "f32", "BLOCK": 256, "WIDE": 0, "TILES": 4, "CACHED": 1})
    pointers = [flyc.from_c_void_p(fx.Float32, each, assumed_align=4) for each in (out, row)]
    launch(*pointers, fx.Int32(columns), fx.Int64(columns), fx.Int64(columns))


def main() -> dict[str, Any]:
    tree, place, target, what, *words = sys.argv[1:]
    program: Any = importlib.import_module("bridge_program")  # beside this file
    program.obey_permissions()
    site.addsitedir(place)  # with the .pth of the bridge's wheel
    sys.path.insert(0, tree)
    from embedded import EmbeddedDevice

    EmbeddedDevice(target)
    program.active_triton(target)
    importlib.import_module("aiter")
    if what == "scores":
        said = scores(int(words[0]), int(words[1]))
    else:
        said = fill(*words) if what == "fill" else softmax(words[0], int(words[1]))
    from aiter_prebuilt_bridge import flydsl_cache

    return {"said": said, **flydsl_cache.report()}


if __name__ == "__main__":
    try:
        told: dict[str, Any] = main()
    except Exception as error:  # noqa: BLE001  # it is told
        traceback.print_exc()
        told = {"said": f"{type(error).__name__}: {error}", "hits": {}, "misses": {}}
    print(json.dumps(told))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
