"""The bridge without AITER: what is covered by what, what the machine says, which modules the finder takes, what strict means."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import aiter_prebuilt
import aiter_prebuilt_bridge_hook as hook
from aiter_prebuilt import errors
from aiter_prebuilt.devices import device
from aiter_prebuilt.errors import UnsupportedError
from aiter_prebuilt_bridge import core, lookup_log, machine, probe_overrides, public, serving, stubs
from aiter_prebuilt_bridge.errors import CompileRefusedError, MachineError
from aiter_prebuilt_bridge.signature_check import Omitted, compare
from aiter_prebuilt_bridge_hook import VARIABLE

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test has its own record, machine and setting."""
    monkeypatch.delenv(VARIABLE, raising=False)
    for kept in (lookup_log.NAMES, lookup_log.ANSWERED, lookup_log._LOGGED):
        kept.clear()
    gpus, ours = machine.gpus, serving.ours
    gpus.cache_clear()
    ours.cache_clear()
    yield
    gpus.cache_clear()
    ours.cache_clear()


def signature(text: str) -> inspect.Signature:
    names: dict[str, Any] = {}
    exec(f"def f({text}): ...", names)
    return inspect.signature(names["f"])


@pytest.mark.parametrize(
    ("theirs", "ours", "why"),
    [
        ("x, y=1", "x, y=1, z=None", ""),
        ("x, y", "x, y=1", ""),
        ("x, *, y=1", "x, y=1", ""),
        ("x, y=(1, 2)", "x, y=(1, 2)", ""),
        ("x, w", "x, y", "ours has no parameter w, which has y in that place"),
        ("x, y, w=1", "x, y", "ours has no parameter w"),
        ("x, y, z", "x, z, y", "y is parameter 2 of AITER's, and not of ours"),
        ("x, y", "x, *, y", "y is parameter 2 of AITER's, and not of ours"),
        ("x", "x, y", "ours needs y, which AITER's has not"),
        ("*args, **kwargs", "x", "it takes *args, which says nothing of its parameters"),
    ],
)
def test_ours_covers_theirs_only_if_every_call_means_the_same(theirs: str, ours: str, why: str) -> None:
    cover = compare(signature(theirs), signature(ours))
    assert cover.why == why and not cover.omitted


@pytest.mark.parametrize(
    ("theirs", "ours", "omitted"),
    [
        ("x, y=1", "x, y=None", Omitted(1, "y", 1)),
        ("x, y=1", "x, y", Omitted(1, "y", 1)),
        ("x, y=True", "x, y=1", Omitted(1, "y", True)),
        ("x, y=(-1, -1)", "x, y=(-1, -1, 0)", Omitted(1, "y", (-1, -1))),
    ],
)
def test_what_is_left_out_means_what_it_means_in_aiters(theirs: str, ours: str, omitted: Omitted) -> None:
    cover = compare(signature(theirs), signature(ours))
    assert not cover.why and cover.omitted == (omitted,)
    seen: list[Any] = []

    def function(x: Any, y: Any = None) -> None:
        seen.append((x, y))

    made: Any = serving.through(function, lambda *_: pytest.fail("theirs"), "aiter.ops.x", cover.omitted)
    made(0)
    made(0, 5)
    made(0, y=None)
    made(x=0)
    assert seen == [(0, omitted.value), (0, 5), (0, None), (0, omitted.value)]


def test_a_replacement_looks_like_the_function_that_it_calls() -> None:
    made: Any = serving.through(aiter_prebuilt.rms_norm, print, "aiter.ops.rmsnorm")
    assert made.__signature__ == inspect.signature(aiter_prebuilt.rms_norm)
    assert (made.__name__, made.__module__) == ("rms_norm", "aiter.ops.rmsnorm")
    assert made.__doc__ == aiter_prebuilt.rms_norm.__doc__ and serving.is_replacement(made)
    ours: Any = aiter_prebuilt.rms_norm
    assert made._torchdynamo_inline is ours._torchdynamo_inline


def test_a_refused_call_goes_to_aiters_function_once_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def silu_and_mul(x: int) -> str:
        if x < 0:
            raise UnsupportedError("silu_and_mul(x=-1)", "no prebuilt kernel covers it", "use x=1")
        return "ours"

    made = serving.through(silu_and_mul, lambda x: f"theirs {x}", "aiter.ops.activation")
    assert [made(each) for each in (1, -1, -1)] == ["ours", "theirs -1", "theirs -1"]
    (line,) = caplog.messages
    assert line.startswith("silu_and_mul: a call goes to AITER's own function: silu_and_mul(x=-1)")
    monkeypatch.setenv(VARIABLE, "strict")
    assert made(-1) == "theirs -1", "nothing was compiled"


def test_under_strict_a_refused_call_is_our_error_where_aiters_would_compile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def ours(x: int) -> str:
        raise UnsupportedError("ours(x)", "no prebuilt kernel covers it", "do not")

    def theirs(x: int) -> str:
        lookup_log.compiling("module_x")
        return "compiled"

    made = serving.through(ours, theirs, "aiter.ops.activation")
    assert made(1) == "compiled"
    monkeypatch.setenv(VARIABLE, "strict")
    with pytest.raises(UnsupportedError, match="no prebuilt kernel covers it"):
        made(1)


SAYS = "x must be [*M, {dim}], got [2, 8]: dim 1 must be 576"


@pytest.mark.parametrize(
    ("error", "form"),
    [
        (UnsupportedError, True), (errors.NoKernelError, True), (errors.NoBundleError, True), (errors.ArgumentDTypeError, True),
        (errors.ArgumentStrideError, True), (errors.ArgumentAlignmentError, True), (errors.ArgumentKindError, False),
        (errors.ArgumentCountError, False), (errors.ArgumentDeviceError, False), (errors.ArgumentShapeError, False),
    ],
)  # fmt: skip
def test_a_form_may_be_aiters_and_a_wrong_call_is_not(
    error: type[errors.AiterPrebuiltError], form: bool
) -> None:
    assert serving.is_form(error("f(x)", "K is 4 already, not 5", "do not")) is form


@pytest.mark.parametrize(
    ("found", "form"),
    [
        ("x must be [M, N], got [8] (1 dims)", True),
        (SAYS.format(dim="576"), True), (SAYS.format(dim="2 * I"), False), (SAYS.format(dim="N // 576"), False),
        ("x must be [M, N], got [2, 8]: N is 4 in the arguments before it, not 8", False),
    ],
)  # fmt: skip
def test_a_shape_that_is_none_of_ours_by_itself_is_a_form(found: str, form: bool) -> None:
    """As the native call says it: ``csrc/runtime/choice/bind.cpp``."""
    assert serving.is_form(errors.ArgumentShapeError("f(x)", found, "Reshape it")) is form


def test_a_weight_may_have_more_columns_than_the_rows() -> None:
    """So AITER's bpreshuffle of August 2026 pads them."""
    error = errors.ArgumentShapeError("f(x)", "K is 4 already, not 8", "Pass tensors whose sizes agree")
    assert serving.is_form(error, "gemm_a8w8_bpreshuffle") and not serving.is_form(error, "gemm_a8w8")
    assert not serving.is_form(
        errors.ArgumentKindError("f(x)", "no tensor", "do not"), "gemm_a8w8_bpreshuffle"
    )


def test_a_wrong_call_starts_no_compile(caplog: pytest.LogCaptureFixture) -> None:
    """AITER's own function is asked, and what is wrong is said where it would compile, around other functions of ours, too."""
    wrong = errors.ArgumentShapeError("pair(a, b)", "K is 4 already, not 5", "Pass tensors whose sizes agree")

    def pair(compiled: bool) -> None:
        raise wrong

    def theirs(compiled: bool) -> str:
        if not compiled:
            lookup_log.compiling("module_pair")
        return "theirs"

    made = serving.through(pair, theirs, "aiter.ops.pair")
    assert made(True) == "theirs"
    for _ in range(2):
        with pytest.raises(errors.ArgumentShapeError) as raised:
            made(False)
        assert raised.value is wrong
    lookup_log.compiling("module_other")
    told = f"module_pair: AITER does not compile it for a call that is wrong; {VARIABLE}=0 leaves the call to AITER"
    assert caplog.messages.count(told) == 1
    assert [line for line in caplog.messages if "compiles" in line] == [
        "a function of AITER: AITER compiles module_other, because it is not served from prebuilt kernels"
    ]


def test_a_form_inside_of_a_wrong_call_starts_no_compile() -> None:
    wrong = errors.ArgumentShapeError("outer(x)", "M is 4 already, not 5", "Pass tensors whose sizes agree")
    with (
        lookup_log.asking("outer", wrong),
        lookup_log.asking("inner", None),
        pytest.raises(errors.ArgumentShapeError),
    ):
        lookup_log.compiling("module_inner")


def test_what_hands_on_a_number_of_ours_is_never_aiters() -> None:
    """AITER's would take it for an address."""

    def qr_all_reduce() -> None:
        raise UnsupportedError("qr_all_reduce(quant_level=9)", "no such level", "use 0 to 4")

    assert qr_all_reduce.__name__ in serving.TOGETHER
    with pytest.raises(UnsupportedError):
        serving.through(qr_all_reduce, lambda: pytest.fail("theirs"), "aiter.ops.quick_all_reduce")()


def test_functions_that_share_a_state_are_all_ours_or_none() -> None:
    module = ModuleType("aiter.ops.quick_all_reduce")
    names = {
        "init_custom_qr": "rank: int, world_size: int, qr_max_size=None",
        "qr_destroy": "fa: int",
        "qr_get_handle": "fa, to",
    }
    for name, takes in names.items():
        exec(f"def {name}({takes}): return 'theirs'", module.__dict__)
    public.replace(module)
    found: Any = module
    assert not any(serving.is_replacement(getattr(found, name)) for name in names)
    assert found.qr_destroy(1) == "theirs"
    row = lookup_log.NAMES[module.__name__, "qr_destroy"]
    assert row.why == "qr_get_handle stays AITER's, and they share a state"
    exec("def qr_get_handle(fa, out_ptr): ...", module.__dict__)
    exec(
        "def init_custom_qr(rank, world_size, qr_max_size=None): ...\ndef qr_destroy(fa): ...",
        module.__dict__,
    )
    public.replace(module)
    assert all(serving.is_replacement(getattr(found, name)) for name in names)


def test_an_error_of_ours_is_no_refusal() -> None:
    def broken() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        serving.through(broken, lambda: pytest.fail("theirs"), "aiter")()


NODE = "cpu_cores_count 0\nsimd_count {simds}\nsimd_per_cu 4\ngfx_target_version {version}\n"


def nodes(place: Path, *rows: tuple[int, int]) -> Path:
    for number, (version, simds) in enumerate(rows):
        (place / str(number)).mkdir(parents=True)
        (place / str(number) / "properties").write_text(NODE.format(version=version, simds=simds))
    return place


def test_the_kernels_list_names_targets_and_counts_units(tmp_path: Path) -> None:
    """As amdgpu writes it: the processor first, versions in decimal, the last part in hexadecimal."""
    rows = [(0, 0), (90402, 1216), (90500, 1024), (90010, 416)]
    found = machine.from_nodes(nodes(tmp_path, *rows))
    assert found == (machine.Gpu("gfx942", 304), machine.Gpu("gfx950", 256), machine.Gpu("gfx90a", 104))


def test_what_cannot_be_read_of_the_list_is_no_gpu_of_ours(tmp_path: Path) -> None:
    nodes(tmp_path, (90402, 1216), (90402, 1216))
    (tmp_path / "0" / "properties").write_text("")
    assert machine.from_nodes(tmp_path) == (machine.Gpu("gfx942", 304),)
    assert machine.from_nodes(tmp_path / "none") == ()


@pytest.fixture
def two_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GPU_ARCHS", "CU_NUM"):
        monkeypatch.delenv(name, raising=False)
    gpus = (machine.Gpu("gfx942", 304), machine.Gpu("gfx942", 80))
    monkeypatch.setattr(machine, "gpus", lambda: gpus)


@pytest.mark.usefixtures("two_kinds")
def test_settings_of_aiter_count(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = {"gfx942": 5, "gfx950": 8}
    assert machine.chosen(numbers) == 5
    with pytest.raises(MachineError, match=r"the GPUs have 80 and 304\. Set CU_NUM"):
        machine.compute_units()
    monkeypatch.setenv("CU_NUM", "304")
    monkeypatch.setenv("GPU_ARCHS", "gfx942;gfx950")
    assert (machine.compute_units(), machine.chosen(numbers)) == (304, 8)
    monkeypatch.setenv("GPU_ARCHS", "gfx1")
    with pytest.raises(KeyError, match="AITER knows no GPU gfx1; it knows gfx942, gfx950"):
        machine.chosen(numbers)


def test_without_a_gpu_the_error_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "gpus", lambda: ())
    monkeypatch.delenv("GPU_ARCHS", raising=False)
    with pytest.raises(MachineError, match="no AMD GPU is here") as refused:
        machine.architecture()
    # The remedy works as printed.
    for word in refused.value.fix.partition("export ")[2].split():
        monkeypatch.setenv(*word.split("="))
    assert (machine.architecture(), machine.compute_units()) == ("gfx942", 304)


def test_hip_says_its_version_as_hipconfig_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr(device, "probe", lambda _: device.DriverFacts("amd", version=70_253_211))
    assert machine.hip_version() == "7.2.53211"
    torch: Any = ModuleType("torch")
    torch.version = ModuleType("torch.version")
    torch.version.hip = "6.4.43484-123eb5128"
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert machine.hip_version() == "6.4.43484-123eb5128"


def test_a_folder_that_cannot_be_written_is_never_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AITER_JIT_DIR", raising=False)
    assert machine.jit_folder(str(tmp_path)) == str(tmp_path)
    monkeypatch.setattr(os, "access", lambda *_: False)
    own = Path(machine.jit_folder(str(tmp_path)))
    assert (own / "build").is_dir() and own.is_relative_to(ROOT / "src" / "aiter_prebuilt_bridge")
    assert machine.unwritten(tmp_path / "no" / "where") == str(own)
    assert machine.unwritten(tmp_path) == ""
    named = tmp_path / "jit"
    monkeypatch.setenv("AITER_JIT_DIR", str(named))
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert machine.jit_folder("elsewhere") == str(named) == sys.path[0] and named.is_dir()


def test_numa_balancing_is_read_and_not_asked_for(tmp_path: Path) -> None:
    setting = tmp_path / "numa_balancing"
    assert machine.balances_numa(setting) is False
    for text, on in (("1\n", True), ("0\n", False)):
        setting.write_text(text)
        assert machine.balances_numa(setting) is on
    asks = "import os; os.popen('cat /proc/sys/kernel/numa_balancing').read()"
    code = f"def check_numa_custom_op() -> None:\n {asks}\n raise ValueError"
    names: dict[str, Any] = {"logger": lookup_log.LOGGER}
    exec(
        probe_overrides.answered(compile(code, "core.py", "exec"), probe_overrides.of("aiter.jit.core")),
        names,
    )
    names["check_numa_custom_op"]()
    assert {*lookup_log.ANSWERED} == {"check_numa_custom_op"}


TOOL = """
from functools import lru_cache

def executable_path(name):
    raise AssertionError(name)

@lru_cache(maxsize=1)
def _detect_native() -> list:
    executable_path("rocminfo")

def get_cu_num_custom_op(of_what) -> int:
    return "rocminfo" in of_what

def get_gfx_custom_op_core() -> int:
    return 7
"""


@pytest.mark.usefixtures("two_kinds")
def test_only_functions_that_start_a_program_are_answered() -> None:
    """One takes an argument, and one starts none: both keep their code. Decorators stay."""
    names: dict[str, Any] = {}
    code = compile(TOOL, "chip_info.py", "exec")
    exec(probe_overrides.answered(code, probe_overrides.of("chip_info")), names)
    assert names["_detect_native"]() == ["gfx942"] and names["_detect_native"].cache_info().maxsize == 1
    assert names["get_cu_num_custom_op"](["rocminfo"]) is True and names["get_gfx_custom_op_core"]() == 7
    assert {"_detect_native"} == lookup_log.ANSWERED


@pytest.mark.usefixtures("two_kinds")
def test_flydsl_asks_no_program_for_its_target() -> None:
    code = (
        "import functools\n"
        "def run(words): raise AssertionError(words)\n"
        "def _arch_from_rocm_agent_enumerator(): return run(['rocm_agent_enumerator', '-name', '-t', 'GPU'])\n"
        "@functools.lru_cache(maxsize=None)\n"
        "def get_rocm_device_count(): return run(['rocm_agent_enumerator', '-name'])\n"
    )
    names: dict[str, Any] = {}
    exec(
        probe_overrides.answered(
            compile(code, "device.py", "exec"), probe_overrides.of("flydsl.runtime.device")
        ),
        names,
    )
    assert names["_arch_from_rocm_agent_enumerator"]() == "gfx942" and names["get_rocm_device_count"]() == 2


def test_strict_refuses_a_compile_by_name(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lookup_log.keep(lookup_log.Name("aiter.ops.norm", "layer_norm", "pybind", "there is none", "module_norm"))
    with lookup_log.asking("layer_norm"):
        lookup_log.compiling("module_norm")
        lookup_log.compiling("module_norm")
        assert caplog.messages == ["layer_norm: AITER compiles module_norm, because there is none"]
        monkeypatch.setenv(VARIABLE, "strict")
        with pytest.raises(
            CompileRefusedError,
            match="call layer_norm: AITER would compile module_norm now, because there is none",
        ):
            lookup_log.compiling("module_norm")
    with pytest.raises(CompileRefusedError, match="call a function of AITER"):
        lookup_log.compiling("module_norm")


def test_a_template_is_named_by_who_asks_and_by_what_would_be_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its first argument is its source, which is no name; who calls the template itself is named by it."""
    utils: Any = ModuleType("csrc.cpp_itfs.utils")
    compiled: list[str] = []
    vars(utils)["compiled"] = compiled
    exec(
        "def compile_lib(src_file, folder, includes=None): compiled.append(folder)\n"
        "def compile_template_op(src_template, md_name, includes=None): compile_lib(src_template, md_name + '_0f')\n",
        vars(utils),
    )
    stubs.wrap_templates(utils)
    monkeypatch.setenv(VARIABLE, "strict")
    with pytest.raises(CompileRefusedError) as refused:
        utils.compile_template_op("#include <hip.h>", md_name="pa_ragged")
    assert refused.value.asked == "call pa_ragged"
    assert refused.value.found.startswith("AITER would compile pa_ragged_0f now")
    refusal = pytest.raises(CompileRefusedError, match="call paged_attention: AITER would compile pa_0f")
    with refusal, lookup_log.asking("paged_attention"):
        utils.compile_template_op("#include <hip.h>", "pa")
    assert compiled == []
    monkeypatch.setenv(VARIABLE, "")
    utils.compile_template_op("#include <hip.h>", "pa")
    assert compiled == ["pa_0f"]


def test_kernels_that_a_template_compiles_by_triton_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    tools: Any = ModuleType("csrc.cpp_itfs.gluon_aot_tools.compile")
    tools.compile_kernel = lambda args: "compiled"
    stubs.wrap_ahead(tools)
    assert tools.compile_kernel(SimpleNamespace(kernel_name="reduce")) == "compiled"
    monkeypatch.setenv(VARIABLE, "strict")
    with pytest.raises(CompileRefusedError, match="AITER would compile reduce now"):
        tools.compile_kernel(args=SimpleNamespace(kernel_name="reduce"))


def test_what_a_template_registers_with_torch_is_ours_under_aiters_signature(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept: dict[str, Any] = {}
    utils: Any = ModuleType("csrc.cpp_itfs.torch_utils")
    utils.direct_register_custom_op = lambda op_name, op_func, mutates_args: kept.update({op_name: op_func})
    stubs.wrap_register(utils)

    def paged(out: int, scale: float = 1.0) -> str:
        return f"theirs {out}"

    def mine(out: Any, scale: float = 1.0, more: Any = None) -> str:
        if scale < 0:
            raise UnsupportedError("paged", "no", "no")
        return f"ours {out}"

    monkeypatch.setattr(
        serving, "ours", lambda name: (mine, "") if name == "paged" else (None, "none of ours")
    )
    utils.direct_register_custom_op("paged", paged, ["out"])
    utils.direct_register_custom_op("other", paged, mutates_args=[])
    assert inspect.signature(kept["paged"]) == inspect.signature(paged)
    assert kept["paged"](3) == "ours 3" and kept["paged"](3, scale=-1.0) == "theirs 3"
    assert kept["other"](3) == "theirs 3"
    assert [(row.name, row.why) for row in lookup_log.NAMES.values()] == [
        ("paged", ""),
        ("other", "none of ours"),
    ]


def test_the_core_module_has_aiters_numbers_and_tells_enumerations() -> None:
    names: dict[str, Any] = {}
    core.fill(names)
    assert names["ActivationType"].Swiglu.value == 2 and names["QuantType"].per_1x128 == 4
    assert names["MlaVersion"].V40.value == 1 and names["ActivationType"](0).name == "Silu"
    for name in ("ActivationType", "QuantType", "MlaVersion", "MxScaleRoundMode", "MxDtype"):
        assert names[name].__doc__.startswith("Members:"), name
    tensor = names["aiter_tensor_t"](4096, 6, 2, [2, 3], [3, 1], 3, 1)
    assert (tensor.data_ptr(), tensor.numel(), tensor.shape, tensor.stride()) == (4096, 6, (2, 3), (3, 1))
    assert (tensor.dtype, tensor.device.type, tensor.device.index) == ("bfloat16", "cuda", 1)


def test_public_names_become_ours_only_where_they_are_defined() -> None:
    module: Any = ModuleType("aiter.ops.rmsnorm")
    exec(
        "def rms_norm(input, weight, epsilon): return 'theirs'\n"
        "def rmsnorm2d_fwd(other): return 'theirs'\n"
        "def helper(): return 'theirs'\n",
        vars(module),
    )
    module.silu_and_mul = print
    public.replace(module)
    assert serving.is_replacement(module.rms_norm) and module.silu_and_mul is print
    assert module.helper() == module.rmsnorm2d_fwd(0) == "theirs"
    rows = {row.name: row for row in lookup_log.NAMES.values()}
    assert rows["rms_norm"].replaced and rows["rms_norm"].ours == "rms_norm"
    assert rows["rmsnorm2d_fwd"].why == "ours has no parameter other, which has input in that place"
    assert {*rows} == {"rms_norm", "rmsnorm2d_fwd"}


def test_what_a_circle_of_imports_copied_is_replaced_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("aiter.ops.rmsnorm")
    exec("def rms_norm(input, weight, epsilon): return 'theirs'", vars(module))
    package: Any = ModuleType("aiter")
    package.rms_norm = module.rms_norm
    monkeypatch.setitem(sys.modules, "aiter", package)
    monkeypatch.setitem(sys.modules, "aiter.ops.rmsnorm", module)
    public.replace(module)
    public.finish(package)
    assert package.rms_norm is module.rms_norm and serving.is_replacement(package.rms_norm)


@pytest.mark.parametrize(("setting", "active"), [("", True), ("strict", True), ("0", False)])
def test_the_hook_imports_nothing_and_obeys_the_variable(setting: str, active: bool) -> None:
    code = (
        "import sys; before = {*sys.modules}; import aiter_prebuilt_bridge_hook as hook; "
        "print(hook.install(), hook.install(), sum(type(f).__name__ == 'Finder' for f in sys.meta_path), "
        "sorted({*sys.modules} - before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(ROOT / "src"), VARIABLE: setting},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    own = "['aiter_prebuilt_bridge_hook']"
    assert done.stdout.strip() == f"{active} {active} {int(active)} {own}"


def test_the_finder_leaves_other_packages_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runtime's own name begins as AITER's does."""
    finder = hook.Finder()
    asked: list[str] = []

    def spec_of(*words: Any) -> None:
        asked.append(words[1])

    import aiter_prebuilt_bridge.loader as loader

    monkeypatch.setattr(loader, "spec_of", spec_of)
    for name in (
        "aiter_prebuilt",
        "json",
        "aiter",
        "aiter.ops.x",
        "module_aiter_core",
        "chip_info",
        "aiterx",
    ):
        finder.find_spec(name)
    assert asked == ["aiter", "aiter.ops.x", "module_aiter_core", "chip_info"]


def test_a_tool_of_another_package_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "chip_info.py").write_text("_detect_native = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = hook.Finder().find_spec("chip_info")
    assert found is not None and type(found.loader).__name__ == "SourceFileLoader"


def test_a_module_keeps_its_own_loader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What reads sources through it (Triton does) sees the file as it is."""
    place = tmp_path / "aiter" / "jit" / "utils"
    place.mkdir(parents=True)
    (place / "chip_info.py").write_text(TOOL)
    monkeypatch.syspath_prepend(str(place))
    monkeypatch.setattr(sys, "meta_path", [hook.Finder(), *sys.meta_path])
    monkeypatch.delitem(sys.modules, "chip_info", raising=False)
    import importlib
    import importlib.util

    spec: Any = importlib.util.find_spec("chip_info")
    assert spec.loader.get_source("chip_info") == TOOL  # before it is executed, too
    made = importlib.import_module("chip_info")
    del sys.modules["chip_info"]
    assert made.__spec__ is not None and type(made.__spec__.loader).__name__ == "Executed"
    assert type(made.__loader__).__name__ == "SourceFileLoader" and {"_detect_native"} == lookup_log.ANSWERED
