"""Stock AITER in a process of its own, as its clients use it: test_bridge.py makes the tree and the environment, and reads the
line of JSON that this prints.

    python bridge_program.py TREE SITE TARGET names NAMES.json       resolve what clients take from AITER
    python bridge_program.py TREE SITE TARGET calls public|torch     golden calls through AITER's functions, judged
    python bridge_program.py TREE SITE TARGET calls typed            those of AITER's Triton products, with torch's tensors
    python bridge_program.py TREE SITE TARGET words above|half       calls in AITER's words (``bridge_calls``)
    python bridge_program.py TREE SITE TARGET calls folder           those of modules in AITER_JIT_DIR, through AITER's stubs
    python bridge_program.py TREE SITE TARGET status                 what the bridge says
    python bridge_program.py TREE SITE TARGET left NAME              call a stub that stays AITER's
    python bridge_program.py TREE SITE TARGET refused                call every stub and template that stays AITER's
    python bridge_program.py TREE SITE TARGET model MODEL ...        what it says of the calls of models' steps
    python bridge_program.py TREE SITE TARGET templates              what AITER compiles from templates, through torch.ops.aiter
    python bridge_program.py TREE SITE TARGET sglang FOLDER          SGLang's layers, of its Python files in FOLDER
    python bridge_program.py TREE SITE TARGET vllm FOLDER [NAME ...] vLLM's wrappers, of its Python files in FOLDER
    python bridge_program.py TREE SITE TARGET ONE + OTHER [+ ...]    several of these: a list of reports
"""

from __future__ import annotations

import ctypes
import importlib
import inspect
import itertools
import json
import os
import site
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

from emulator import bridge_calls

_CAPABILITIES = 0x20080522


def obey_permissions() -> None:
    """Root writes where nobody may: give up what lets it, so that a tree without write permission is one."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES, 0)
    nothing = (ctypes.c_uint32 * 6)()
    ctypes.CDLL(None).capset(header, nothing)


def active_triton(target: str) -> None:
    """What Triton has where torch has a GPU: a driver that knows its target. AITER asks for it when it is imported."""
    triton: Any = importlib.import_module("triton")
    compiler: Any = importlib.import_module("triton.backends.compiler")
    torch: Any = importlib.import_module("torch")

    class Driver:
        def is_active(self) -> bool:
            return True

        def get_current_target(self) -> Any:
            return compiler.GPUTarget("hip", target, 64)

        def get_active_torch_device(self) -> Any:
            return torch.device("cpu")

        def get_current_device(self) -> int:
            return 0

        def get_current_stream(self, device: int) -> int:
            return device

    triton.runtime.driver.set_active(Driver())


def operators_of_gpus() -> None:
    """AITER registers some operators for tensors of a GPU alone: those of this process are the processor's."""
    library: Any = importlib.import_module("torch").library.Library
    registered = library.impl

    def impl(self: Any, name: Any, function: Any, dispatch_key: str = "", *rest: Any, **keywords: Any) -> Any:
        here = "CPU" if "direct_register_custom_op" in getattr(function, "__qualname__", "") else dispatch_key
        return registered(self, name, function, here, *rest, **keywords)

    library.impl = impl


def gpu_of_torch(target: str) -> None:
    """Where AITER asks torch, while a module is imported, how many compute units its GPU has."""
    torch: Any = importlib.import_module("torch")
    properties: Any = importlib.import_module("types").SimpleNamespace
    units = 256 if target == "gfx950" else 304
    torch.cuda.current_device = lambda: 0
    torch.cuda.get_device_properties = lambda device: properties(multi_processor_count=units, device=device)


def names(file: str) -> dict[str, Any]:
    """Client -> which of its names AITER has, and which of those are ours."""
    from aiter_prebuilt_bridge import lookup_log, serving

    torch: Any = importlib.import_module("torch")
    registered = {row.name for row in lookup_log.NAMES.values() if row.replaced and row.way != "public"}
    found: dict[str, Any] = {}
    for client, rows in json.loads(Path(file).read_text(encoding="utf-8")).items():
        resolved, ours, missing, theirs = 0, 0, {}, {}
        for module, name in rows:
            try:
                if module == "torch.ops.aiter":
                    getattr(torch.ops.aiter, name)
                    ours += name in registered
                else:
                    value = _resolved(module, name)
                    mine = serving.is_replacement(value)
                    ours += mine
                    if not mine and callable(value):
                        row = lookup_log.NAMES.get((value.__module__, name))
                        theirs[f"{module}.{name}"] = row.why if row else "no function of ours has this name"
                resolved += 1
            except Exception as error:  # noqa: BLE001  # whatever it is, it is told
                missing[f"{module}.{name}"] = f"{type(error).__name__}: {error}"[:200]
        found[client] = {
            "names": len(rows),
            "resolved": resolved,
            "ours": ours,
            "theirs": theirs,
            "missing": missing,
        }
    return found


def _resolved(module: str, name: str) -> Any:
    if not name:
        return importlib.import_module(module)
    try:
        return getattr(importlib.import_module(module), name)
    except AttributeError:
        return importlib.import_module(f"{module}.{name}")


def calls(way: str) -> list[dict[str, Any]]:
    """Each golden call of a name that is replaced, through what AITER's clients would call: what is wrong with it."""
    from aiter_prebuilt.bundles import locate
    from aiter_prebuilt.devices import device
    from aiter_prebuilt.execute import golden
    from aiter_prebuilt.launch import dispatch

    facts = device.facts("amd", 0)
    path = device.probe("amd").path
    serving = locate.for_target(facts.arch, locate.installed(), str(facts))
    known, problem = golden._read(serving)
    assert known and not problem, problem
    assert dispatch.bundles_of(facts.arch, str(facts))
    _import_triton()
    return [row for call in known for row in _one(call, way, facts, path)]


def _import_triton() -> None:
    """Modules with names that ours reads in other words: AITER imports them when somebody asks."""
    from aiter_prebuilt_bridge import signature_map

    placed = {place for places, _, _ in signature_map.rows() for place in places}
    for place in {place for place in placed if ".triton." in place} | {
        "aiter.utility.fp4_utils",
        "aiter.ops.sampling",
    }:
        try:
            importlib.import_module(place)
        except ModuleNotFoundError as error:  # the other tree has it in another place
            if not str(error.name).startswith("aiter."):
                raise
        except (
            AssertionError,
            ValueError,
        ):  # August 2026: it asks for a torch with GPUs, and for a later Triton
            if not place.endswith("unified_attention"):
                raise


def _one(call: Any, way: str, facts: Any, path: str) -> list[dict[str, Any]]:
    done = []
    for row in _rows(way):
        if call.operator not in (row.ours, _AROUND.get(row.ours)) or (way == "torch" and row.way == "public"):
            continue
        if way != "torch" and _is_typed(row) != (way == "typed"):
            continue
        started = time.perf_counter()
        problems: list[str] | None
        try:
            problems = (
                _public(call, row, facts, path)
                if way == "public"
                else _typed(call, row)
                if way == "typed"
                else _torch(call, row)
            )
        except Exception as error:  # noqa: BLE001  # whatever it is, it is told
            problems = [f"{type(error).__name__}: {error}"[:600]]
        seconds = time.perf_counter() - started
        if problems is None:
            continue
        done.append(
            {"operator": call.operator, "module": row.module, "way": row.way, "label": call.label,
             "problems": problems, "seconds": seconds}
        )  # fmt: skip
    return done


@cache
def _rows(way: str) -> list[Any]:
    """The names that are asked: those that the bridge replaced, or the stubs of modules in a folder."""
    from aiter_prebuilt_bridge import lookup_log, sources

    if way != "folder":
        return list(lookup_log.NAMES.values())
    written = {path.stem for path in Path(os.environ["AITER_JIT_DIR"]).glob("*.py")}
    return [
        lookup_log.Name("aiter", stub.name, "pybind", "", name, stub.name)
        for name, stubs in sources.by_module(Path(sys.argv[1]) / "aiter").items()
        for stub in stubs
        if name in written
    ]


def _public(call: Any, row: Any, facts: Any, path: str) -> list[str] | None:
    """Through AITER's public function, with tensors of no framework: memory behind their ends is looked at, too."""
    from aiter_prebuilt.devices.device_memory import DeviceMemory
    from aiter_prebuilt.execute.run import judged, uploaded

    function = getattr(sys.modules[row.module], row.name)
    memory = DeviceMemory(facts, path)
    try:
        arguments = {name: uploaded(value, memory) for name, value in call.arguments.items()}
        worded = _worded(arguments, row)
        if worded is None:
            return None
        result = function(**worded)
        memory.synchronize()
        return judged(call, arguments, result)[1]
    finally:
        memory.close()


def _torch(call: Any, row: Any) -> list[str] | None:
    """Through ``torch.ops.aiter``, as the schema that AITER registered says; None: that has no such call."""
    torch: Any = importlib.import_module("torch")
    operator = getattr(torch.ops.aiter, row.name)
    arguments = _as_schema(operator.default._schema, call, row)
    if arguments is None:
        return None
    result = operator(**arguments)
    return _judged(call, row, arguments, result)


#: Functions of ours around an operator -> that, whose golden calls are theirs, too.
_AROUND: dict[str, str] = {
    **{name: f"{name}_impl" for name in (
        "rope_fwd", "rope_thd_fwd", "rope_cached_fwd", "rope_cached_positions_fwd", "rope_cached_positions_offsets_fwd",
        "rope_bwd", "rope_thd_bwd", "rope_cached_bwd",
    )},
    **{f"{name}_inplace": f"{name}_impl" for name in (
        "rope_fwd", "rope_thd_fwd", "rope_cached_fwd", "rope_cached_positions_fwd", "rope_cached_positions_offsets_fwd",
    )},
    "rope_cached_thd_positions_offsets_2c_fwd_inplace": "rope_cached_positions_offsets_2c_fwd_impl",
    "rope_cached_positions_back": "rope_cached_positions_fwd_impl",
    "paged_attention_common": "pa_fwd_asm",
}  # fmt: skip


def _is_typed(row: Any) -> bool:
    """Is it called with torch's tensors: one of AITER's Triton functions, or one of ours that makes tensors of its own?"""
    words = row.words is not None and bool(row.words.differs or row.words.returns)
    return words or row.ours in _AROUND or (row.way != "torch" and _is_adapted(row))


def _typed(call: Any, row: Any) -> list[str] | None:
    """As Triton's products are called: by place as far as that goes, the result's type as torch's; None: no such call."""
    function = getattr(sys.modules[row.module], row.name)
    given = {name: _tensor(value) for name, value in call.arguments.items()}
    arguments = (
        bridge_calls.WAYS[row.ours](given, row) if row.ours in bridge_calls.WAYS else _worded(given, row)
    )
    if arguments is None:
        return None
    torch: Any = importlib.import_module("torch")
    from aiter_prebuilt.contract.dtype import BY_NAME

    order = [*inspect.signature(function).parameters]
    if "dtype" in order and "dtype" not in arguments:
        arguments["dtype"] = getattr(torch, BY_NAME[call.wants[0].dtype].torch)
    places = [arguments[name] for name in itertools.takewhile(arguments.__contains__, order)]
    named = {name: value for name, value in arguments.items() if name not in order[: len(places)]}
    result = function(*places, **named)
    if row.ours in bridge_calls.WAYS:
        given |= bridge_calls.results(result, arguments, call.wants)
        result = None
    return _judged(call, row, given | arguments, result)


def _judged(call: Any, row: Any, arguments: dict[str, Any], result: Any) -> list[str]:
    """What is wrong with what a call with torch's tensors gave."""
    from aiter_prebuilt.execute import judge

    torch: Any = importlib.import_module("torch")
    arguments |= {
        ours: arguments[name] for name, ours in (row.words.names if row.words else ()) if name in arguments
    }
    if "work_info" in arguments:
        arguments["work_info_set"] = arguments["work_info"]
    given = {each.data_ptr() for each in arguments.values() if isinstance(each, torch.Tensor)}
    listed = [] if result is None else [*result] if isinstance(result, (tuple, list)) else [result]
    returned = iter(
        [each for each in listed if each is not None and each.numel() and each.data_ptr() not in given]
    )
    problems = []
    for want in call.wants:
        found = next(returned) if want.returned else arguments[want.name]
        if list(found.shape) != list(want.shape):
            problems.append(f"{want.name}: {list(found.shape)} instead of {list(want.shape)}")
            continue
        data = found.contiguous().view(torch.uint8).numpy().tobytes()
        problems += judge.values(want, data)[1]
    return problems


#: Parameters of ours that change nothing but speed.
_HINTS = {("mla_reduce_v1", "max_seqlen_q")}


def _worded(arguments: dict[str, Any], row: Any) -> dict[str, Any] | None:
    """Arguments of ours under AITER's names, with the options that ours lack where AITER's default is not what ours does. None:
    AITER's has no such call.
    """
    from aiter_prebuilt_bridge.signature_check import among

    if row.words is None:
        return bridge_calls.metadata(arguments, row) if _is_adapted(row) else arguments
    theirs = {ours: name for name, ours in row.words.names}
    asked = {each.name: each.values[0] for each in row.words.limits if not among(each.default, each.values)}
    named = {theirs.get(name, name): value for name, value in arguments.items()}
    takes = row.words.theirs.parameters
    needs = {name for name, each in takes.items() if each.default is each.empty}
    given = {name: value for name, value in named.items() if value is not None or name in needs} | asked
    for name, value in row.words.fixed:
        if given.pop(name, value) != value and (row.ours, name) not in _HINTS:
            return None
    return given if given.keys() <= takes.keys() else None


def _is_adapted(row: Any) -> bool:
    """Is ours called as an older AITER's function is?"""
    names = inspect.signature(getattr(sys.modules[row.module], row.name)).parameters
    return row.ours == "get_mla_metadata_v1" and "work_info" in names


def _as_schema(schema: Any, call: Any, row: Any) -> dict[str, Any] | None:
    """A call's arguments under the names of a schema; None where it has others, or a generator's state for a generator."""
    torch: Any = importlib.import_module("torch")
    takes = {each.name: each for each in schema.arguments}
    arguments = {name: _tensor(value) for name, value in call.arguments.items() if value is not None}
    worded = _worded(arguments, row)
    if worded is None:
        return None
    arguments = worded
    if "dummy" in takes:
        arguments["dummy"] = torch.empty(1)
    needs = {name for name, each in takes.items() if not each.has_default_value()}
    if "workspace_buffer" in needs:
        arguments.setdefault("workspace_buffer", torch.empty(1))  # ours needs none
    for name in needs - arguments.keys():
        if str(takes[name].type).startswith("Optional"):
            arguments[name] = None
    tensors = (name for name in needs & arguments.keys() if str(takes[name].type) == "Tensor")
    fits = arguments.keys() <= takes.keys() and needs <= arguments.keys()
    fits = fits and all(isinstance(arguments[name], torch.Tensor) for name in tensors)
    return arguments if fits and not isinstance(arguments.get("generator"), list) else None


def _tensor(value: Any) -> Any:
    """An argument of a call as torch has it."""
    from aiter_prebuilt.contract.calls import Array, ElementType
    from aiter_prebuilt.contract.dtype import BY_NAME

    torch: Any = importlib.import_module("torch")
    if isinstance(value, ElementType):
        return getattr(torch, BY_NAME[value.name].torch)
    if not isinstance(value, Array):
        return value
    kind = BY_NAME[value.dtype]
    size = max(1, value.span) * kind.itemsize
    data = bytearray(value.data) if value.data else bytearray(b"\x5a" * size)
    flat = torch.frombuffer(data, dtype=torch.uint8).clone().view(getattr(torch, kind.torch))
    return torch.as_strided(flat, value.shape, value.strides, value.offset)


def left(name: str) -> str:
    """Call a stub that no function of ours covers, with anything of the right kinds: what it says."""
    aiter: Any = importlib.import_module("aiter")
    torch: Any = importlib.import_module("torch")
    kinds = {
        "Tensor": torch.zeros(4, 8, dtype=torch.bfloat16),
        "int": 1,
        "SymInt": 1,
        "float": 1.0,
        "str": "",
        "bool": False,
    }
    kinds |= {"List[Tensor]": [], "List[int]": [1], "List[SymInt]": [1], "Device": torch.device("cpu")}
    schema = getattr(torch.ops.aiter, name).default._schema
    needs = [each for each in schema.arguments if not each.has_default_value()]
    try:
        # AITER makes the tensor of such a stub on a GPU.
        public = None if "dummy" in {each.name for each in schema.arguments} else getattr(aiter, name, None)
        function = public or getattr(torch.ops.aiter, name)
        function(*(kinds.get(str(each.type)) for each in needs))
    except BaseException as error:  # noqa: BLE001  # AITER's JIT ends the process
        return f"{type(error).__name__}: {error}"
    return "no error"


def refused() -> dict[str, str]:
    """Each stub of the JIT that stays AITER's, and each template that is compiled: what a call of it says."""
    from aiter_prebuilt_bridge import lookup_log

    torch: Any = importlib.import_module("torch")
    empty = torch.empty

    def on_the_processor(*args: Any, device: Any = None, **words: Any) -> Any:
        """AITER makes a tensor on a GPU for operators that take none."""
        del device
        return empty(*args, **words)

    torch.empty = on_the_processor
    said = {
        row.name: left(row.name)
        for row in list(lookup_log.NAMES.values())
        if row.why and row.compiles and hasattr(torch.ops.aiter, row.name)
    }
    utils: Any = importlib.import_module("csrc.cpp_itfs.utils")
    template: Any = importlib.import_module("jinja2").Template("{{func_name}}")
    for name in ("pa", "pa_ragged", "asm_mla_decode_fwd", "top_k_renorm_probs"):
        try:
            utils.compile_template_op(template, name, [], size=64)
            said[name] = "no error"
        except Exception as error:  # noqa: BLE001  # whatever it is, it is told
            said[name] = f"{type(error).__name__}: {error}"
    return said


def answer(target: str, what: str, *words: str) -> Any:
    """The report of one of the commands above."""
    if what == "names":
        return names(*words)
    if what == "calls":
        return calls(*words)
    if what == "refused":
        return refused()
    if what == "words":
        _import_triton()
        return bridge_calls.words(*words)
    if what == "left":
        return left(*words)
    if what == "model":
        gpu_of_torch(target)
        of_model = importlib.import_module("aiter_prebuilt_bridge.status").of_model
        return {model: of_model(model, None) for model in words}
    if what == "templates":
        tools = importlib.import_module("emulator.client_tools").Tools(target)
        made = importlib.import_module("emulator.template_calls").templates(tools)
        return {name: call(None) for name, call in made.items()}
    if what == "sglang":
        return importlib.import_module("emulator.sglang_program").report(words[0], target)
    if what == "vllm":
        return importlib.import_module("emulator.vllm_program").report(words[0], target, tuple(words[1:]))
    from aiter_prebuilt_bridge import status

    return status.examine()


def main() -> None:
    tree, place, target, what, *words = sys.argv[1:]
    obey_permissions()
    site.addsitedir(place)  # with the .pth of the bridge's wheel, as an environment's site-packages are read
    sys.path[:0] = [tree, str(Path(__file__).resolve().parents[1])]
    from embedded import EmbeddedDevice

    EmbeddedDevice(target)
    active_triton(target)
    operators_of_gpus()
    if "WITHOUT_FLYDSL" in os.environ:
        sys.modules["flydsl"] = None  # type: ignore[assignment]  # AITER knows how to do without; another version breaks its import
    started = time.perf_counter()
    aiter: Any = importlib.import_module("aiter")
    seconds = time.perf_counter() - started
    assert str(aiter.__file__).startswith(tree)
    asked = [list(words) for last, words in itertools.groupby([what, *words], "+".__eq__) if not last]
    reports = [answer(target, *each) for each in asked]
    print(json.dumps({"seconds": seconds, "report": reports[0] if len(asked) == 1 else reports}))


if __name__ == "__main__":
    main()
