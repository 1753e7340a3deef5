"""A made-up checkout of AITER: a module of each class, bound in each way that there is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

CSRC = "f'{AITER_CSRC_DIR}/"

CONFIG: dict[str, Any] = {
    "module_one": {"srcs": [f"{CSRC}pybind/one_pybind.cu'", f"{CSRC}kernels/one'"], "blob_gen_cmd": "''"},
    "module_two_asm": {
        "srcs": [f"{CSRC}py_itfs_cu/asm_two.cu'"],
        "blob_gen_cmd": "f'{get_asm_dir()}/two/codegen.py --output_dir {{}}'",
        "third_party": ["'Elsewhere'"],
    },
    "module_three": {
        "srcs": [f"{CSRC}pybind/three_pybind.cu'", f"{CSRC}ck_three/three.cu'"],
        "extra_include": [f"{CSRC}ck_three/include'"],
        "blob_gen_cmd": f"{CSRC}ck_three/gen.py --working_path {{{{}}}} --tune_file {{CONFIGS.X}}'",
        "flags_extra_hip": ["'-a' if torch.version.hip else '-b'"],
    },
    "module_three_tune": {
        "srcs": [f"{CSRC}ck_three/three_tune.cu'"],
        "blob_gen_cmd": f"{CSRC}ck_three/gen.py --working_path {{{{}}}} --tune'",
    },
    "module_tiles": {
        "srcs": [f"{CSRC}py_itfs_ck/tiles.cu'", "f'{CK_DIR}/example/ck_tile/13_tiles/'"],
        "extra_include": ["f'{CK_DIR}/example/ck_tile/13_tiles'"],
    },
    "module_mixed": {
        "srcs": [f"{CSRC}py_itfs_cu/asm_mixed.cu'", f"{CSRC}kernels/one/one.cu'"],
        "blob_gen_cmd": [f"{CSRC}kernels/tiles_generate.py --output_dir {{{{}}}}'"],
    },
    "module_core": {"srcs": [f"{CSRC}pybind/core_pybind.cu'"], "blob_gen_cmd": None},
    "module_blas": {"srcs": ["f'{AITER_GRADLIB_DIR}/csrc/blas.cu'"]},
    "libtiles": {
        "srcs": [],
        "is_python_module": "False",
        "blob_gen_cmd": ["f'{CK_DIR}/example/ck_tile/01_fmha/generate.py -d fwd'"],
    },
    "module_opus": {
        "srcs": [f"{CSRC}opus/opus.cu'"],
        "blob_gen_cmd": f"{CSRC}opus/gen.py --working_path {{{{}}}}'",
    },
}

FILES: dict[str, str] = {
    "csrc/include/rocm_ops.hpp": r"""
#define SET_STREAM_PYBIND m.def("_set_current_hip_stream", [](int64_t s) {});
#define INNER_PYBIND \
    m.def("one_mul", &one_mul, "a // b", py::arg("x"));
#define ONE_PYBIND                  \
    SET_STREAM_PYBIND               \
    INNER_PYBIND                    \
    /* m.def("gone", &gone); */     \
    m.def("one_add",                \
          &one_add,                 \
          py::arg("x"));
#define THREE_PYBIND m.def("three", &three);
#define CORE_PYBIND \
    pybind11::enum_<Kind>(m, "Kind").value("A", Kind::A); \
    pybind11::class_<tensor_t>(m, "tensor_t").def(pybind11::init<>());
""",
    "csrc/pybind/one_pybind.cu": '#include "rocm_ops.hpp"\nPYBIND11_MODULE(X, m)\n{\n    ONE_PYBIND;\n    // THREE_PYBIND;\n}\n',
    "csrc/pybind/three_pybind.cu": "PYBIND11_MODULE(X, m) { THREE_PYBIND; }",
    "csrc/pybind/core_pybind.cu": "PYBIND11_MODULE(X, m) { CORE_PYBIND; }",
    "csrc/kernels/one/one.cu": '#include "one.cuh"\n#include "ck_tile/core.hpp"\n',
    "csrc/kernels/one/one.cuh": "__global__ void one_kernel() {}\n",
    "csrc/kernels/tiles_generate.py": 'TEXT = "using X = ck_tile::Y;"\n',
    "csrc/py_itfs_cu/asm_two.cu": """
AITER_CTYPES_ERROR_DEF
#define OWN extern "C" __attribute__((visibility("default")))
static AiterAsmKernel kernel("x", "y.co");
AITER_CTYPES_DEFINE_ENTRYPOINT_VOID(
    two_asm,
    (int x), (x)) { kernel.launch(); }
AITER_C_ITFS
int two_size(int x) { return x; }
OWN void two_own(float* x) {}
extern "C" __attribute__((visibility("default")))
const char* two_name() { return ""; }
""",
    "csrc/py_itfs_cu/asm_mixed.cu": "AiterAsmKernel kernel;",
    "csrc/ck_three/three.cu": '#include "three_common.cuh"\n',
    "csrc/ck_three/three_tune.cu": '#include "include/three_common.cuh"\nPYBIND11_MODULE(X, m) { m.def("three_tune", &t); }',
    "csrc/ck_three/include/three_common.cuh": '#include "ck/ck.hpp"\n#include "ck_tile/core.hpp"\n',
    "csrc/ck_three/gen.py": "",
    "csrc/py_itfs_ck/tiles.cu": 'PYBIND11_MODULE(X, m) { m.def("tiles", &tiles); }',
    "csrc/opus/opus.cu": "",
    "csrc/opus/gen.py": "",
    "gradlib/csrc/blas.cu": 'PYBIND11_MODULE(X, m) { m.def("blas_mm", &mm); }',
    "hsa/two/codegen.py": "",
    "aiter/__init__.py": "from .ops.one import *\n",
    "aiter/ops/one.py": """
from ..jit.core import compile_ops
MD_NAME = "module_one"
@compile_ops(MD_NAME)
def one_add(x, y, limit=0): ...
@compile_ops(MD_NAME, fc_name="one_mul", develop=True)
def _one_mul(x): ...
def one_mul(x):
    return _one_mul(x)
MD_NAME = "module_two_asm"
@compile_ops(MD_NAME, "two_asm", ffi_type="ctypes")
def two_low(x): ...
@compile_ops(MD_NAME, ffi_type="ctypes")
def two_size(x): ...
@compile_ops(_md_name=MD_NAME, fc_name="two_gone")
def two_gone(x): ...
""",
    "aiter/three.py": """
import aiter
from aiter.ops.one import two_low as low
@aiter.jit.core.compile_ops("module_three", gen_func=lambda: {})
def three(x): ...
def both(x, kind):
    return low(x) if kind else aiter.one_add(x, x)
def outer(x):
    return both(x, three)
class Step:
    @staticmethod
    def forward(x):
        return aiter.one_mul(x)
def stepped(x):
    return Step.forward(x)
def alone(x):
    return x.three() + max(x)
@other("module_three")
def nothing(x): ...
""",
    "aiter/ops/triton/skipped.py": "this is no Python",
}


def checkout(root: Path, config: Any = None, **files: str) -> Path:
    """The files at ``root``; ``files``: more of them, or others."""
    text = json.dumps(CONFIG if config is None else config)
    for name, said in {**FILES, "aiter/jit/optCompilerConfig.json": text, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(said)
    return root
