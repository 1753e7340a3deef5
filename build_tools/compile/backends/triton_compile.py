"""Child process of the Triton backend: ``python -m build_tools.compile.backends.triton_compile REQUEST.json ANSWERS.jsonl``.

The request is a list of jobs; one line of JSON is appended to the answers as each is done, so that a crash loses one job only.
No GPU and no torch are needed. This is the one file that imports triton.

LLVM's Reassociate orders operands by their addresses, so that a kernel's bytes depend on what its process allocated before it and
where: the same kernel compiled as the eleventh of a batch had an addition the other way round, and no receipt. So each job is
compiled apart from the others (``child.py``), in a process that has imported Triton and the kernel's file and has compiled
nothing, and whose heap begins at a fixed address (``triton_heap.c``).
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from build_tools.compile.backends.child import answer_each

#: Options of Triton's compiler; a constant of such a name is one, unless the kernel has a parameter of that name.
OPTIONS: Final = {
    "num_warps", "num_stages", "num_ctas", "waves_per_eu", "matrix_instr_nonkdim", "kpack", "maxnreg", "schedule_hint",
    "enable_fp_fusion", "llvm_fn_attrs",
}  # fmt: skip

#: Element type of a pointer in Triton's words. e4m3fnuz is MI300's own fp8, e4m3fn the OCP one.
POINTEES: Final = {
    "bf16": "bf16", "f16": "fp16", "f32": "fp32", "f64": "fp64", "i8": "i8", "u8": "u8", "i16": "i16", "u16": "u16", "i32": "i32",
    "u32": "u32", "i64": "i64", "u64": "u64", "bool": "i1", "e4m3fn": "fp8e4nv", "e4m3fnuz": "fp8e4b8", "e5m2": "fp8e5",
    "e5m2fnuz": "fp8e5b16", "e8m0": "u8", "fp4x2": "u8", "": "i8",
}  # fmt: skip
SCALARS: Final = {"i32": "i32", "i64": "i64", "f32": "fp32"}


class RequestError(Exception):
    """A job that does not fit its kernel; the message is all there is to say."""


#: LLVM cannot see through some intrinsics (loads straight to LDS, for one) and then lets a kernel ask for everything HIP
#: can pass: a hostcall buffer, a device heap, queues. HIP would allocate them at the first launch. No kernel here uses them
#: (the LLVM IR is searched below), so the compiler is told.
UNUSED_HIDDEN: Final = tuple(
    f"amdgpu-no-{name}"
    for name in (
        "completion-action",
        "default-queue",
        "heap-ptr",
        "hostcall-ptr",
        "multigrid-sync-arg",
        "queue-ptr",
        "implicitarg-ptr",
    )
)


def triton_type(arg: dict[str, Any]) -> str:
    """Write the type of one argument in Triton's words.

    Raises:
        RequestError: an element type Triton has no word for.
    """
    if arg["kind"] != "ptr":
        return SCALARS[arg["kind"]]
    if arg["dtype"] not in POINTEES:
        raise RequestError(f"argument {arg['name']!r}: Triton has no element type {arg['dtype']!r}")
    return "*" + POINTEES[arg["dtype"]]


def match(
    parameters: list[str], constexprs: set[str], args: list[dict[str, Any]], constants: dict[str, Any]
) -> tuple[dict[str, str], dict[str, Any], dict[str, Any], list[int]]:
    """(signature, constexpr values, options, indices of divisible parameters) for a kernel with these ``parameters``.

    Raises:
        RequestError: naming every difference between the kernel's parameters and what the manifest gives.
    """
    plain = [name for name in parameters if name not in constexprs]
    problems = []
    if len(plain) != len(args):
        problems.append(
            f"the kernel has {len(plain)} arguments ({', '.join(plain)}), the manifest {len(args)} ({_names(args)})"
        )
    else:
        right = {name for name, arg in zip(plain, args, strict=True) if arg["name"] == name}
        for name, arg in zip(plain, args, strict=True):
            # The manifest may say an expression, or one dim for two parameters (the row stride of a contiguous output is N).
            # But where it says the name of a parameter that does not get its own, two were swapped.
            if arg["name"] != name and arg["name"] in set(plain) - right:
                problems.append(f"the kernel's argument {name!r} would get the manifest's {arg['name']!r}")
    missing = sorted(constexprs - constants.keys())
    unknown = sorted(constants.keys() - constexprs - OPTIONS - _informative(constants))
    problems += [f"the kernel's constexpr {name!r} has no value" for name in missing]
    problems += [
        f"constant {name!r} is neither a constexpr of the kernel nor a compile option" for name in unknown
    ]
    if problems:
        raise RequestError("; ".join(problems))
    types = dict(zip(plain, map(triton_type, args), strict=True))
    signature = {name: "constexpr" if name in constexprs else types[name] for name in parameters}
    values = {name: constants[name] for name in parameters if name in constexprs}
    options = {
        name: value for name, value in sorted(constants.items()) if name in OPTIONS and name not in constexprs
    }
    divisible = [parameters.index(name) for name, arg in zip(plain, args, strict=True) if arg["divisible"]]
    return signature, values, options, divisible


def _names(args: list[dict[str, Any]]) -> str:
    return ", ".join(arg["name"] for arg in args)


def _informative(constants: dict[str, Any]) -> set[str]:
    """Type variables: constants whose value is an element type name. Pointers carry them, so a kernel need not take them."""
    return {name for name, value in constants.items() if isinstance(value, str) and value in POINTEES}


def load(path: Path) -> ModuleType:
    """Import a kernel file by its path; files beside it can be imported by name."""
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.append(folder)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise RequestError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def compile_job(job: dict[str, Any], modules: dict[str, ModuleType]) -> dict[str, Any]:
    """Compile one job and write its code object; the facts of the launch that only the compiler knows."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    module = modules[job["source"]] if job["source"] in modules else load(Path(job["source"]).resolve())
    kernel = getattr(module, job["symbol"], None)
    if not isinstance(kernel, triton.JITFunction):
        raise RequestError(f"{job['source']} has no @triton.jit function {job['symbol']!r}")
    constexprs = {parameter.name for parameter in kernel.params if parameter.is_constexpr}
    signature, values, options, divisible = match(
        list(kernel.arg_names), constexprs, job["args"], job["constants"]
    )
    attributes = {(index,): [["tt.divisibility", 16]] for index in divisible}
    amd = job["vendor"] == "amd"
    target = (
        GPUTarget("hip", job["target"], 64)
        if amd
        else GPUTarget("cuda", int(job["target"].removeprefix("sm_")), 32)
    )
    if not amd:
        options = {
            name: value
            for name, value in options.items()
            if name in ("num_warps", "num_stages", "num_ctas", "maxnreg", "enable_fp_fusion")
        }
    else:
        extra = str(options.get("llvm_fn_attrs", ""))
        options["llvm_fn_attrs"] = ",".join(filter(None, (extra, *UNUSED_HIDDEN)))
    result = triton.compile(ASTSource(kernel, signature, values, attributes), target=target, options=options)
    if amd and any(word in result.asm["llir"] for word in ("@llvm.amdgcn.implicitarg", "@__ockl_")):
        raise RequestError(
            "the kernel prints, asserts or allocates on the device, which no kernel that ships may do"
        )
    facts = result.metadata
    if facts.global_scratch_size or facts.profile_scratch_size:
        raise RequestError("the kernel needs a global scratch buffer, which no recipe here provides")
    if facts.num_ctas != 1 or facts.launch_cooperative_grid:
        raise RequestError(
            "the kernel needs a cluster or a cooperative launch, which no recipe here provides"
        )
    Path(job["output"]).write_bytes(result.asm["hsaco" if amd else "cubin"])
    return {
        "output": job["output"],
        "symbol": facts.name,
        "lds": facts.shared,
        "warps": facts.num_warps,
        "threads": facts.num_warps * job["wave"],
    }


def main(argv: list[str]) -> int:
    """Do every job of the request; 0 also when some failed, since each answer says so."""
    from triton.runtime import cache

    # Triton keys its cache with a hash of all that is installed of it, 400 MB, which takes longer than a kernel does. This
    # child has a cache of its own, and what is built is keyed by the pins.
    cache.triton_key = lambda: ""
    # What each job would import by itself.
    importlib.import_module("triton.compiler.code_generator")
    request, answers = argv
    modules: dict[str, ModuleType] = {}
    jobs = json.loads(Path(request).read_text(encoding="utf-8"))
    for source in {job["source"] for job in jobs}:
        with suppress(Exception):  # the job says it
            modules[source] = load(Path(source).resolve())
    answer_each(jobs, Path(answers), lambda job: compile_job(job, modules), RequestError, apart=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
