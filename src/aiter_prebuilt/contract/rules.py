"""The rules of an operator block beyond its bytes: numbers in range, bytecode well formed, nothing above a limit.

``csrc/runtime/bundle/operator_block.cpp`` has the same rules with the same words; one test breaks each of them for both.
"""

from __future__ import annotations

import re
from operator import le
from typing import Final

from aiter_prebuilt.contract import bytecode, dtype, real
from aiter_prebuilt.contract.header import FormatError
from aiter_prebuilt.contract.records import (
    ARG_FLOAT,
    ARG_INT,
    ARG_REAL,
    ARG_TENSOR,
    ARG_WORKSPACE,
    ATTRIBUTE_KINDS,
    BACKENDS,
    DIM_BIND,
    DIM_EXPRESSION,
    NO_TEXT,
    NONE8,
    PROFILES,
    ROLES,
    Arg,
    Attribute,
    Operator,
    Recipe,
    Step,
    Tensor,
)

#: Bytes of the arrays and the text that a region names, each counted as often as it is named: arrays may be shared and overlap,
#: so this and not the region's size bounds what a reader walks. Real blocks have less than a thousandth of it.
MAX_WALK: Final = 16 * 1024 * 1024

#: Limits that let a call live on the stack; ``csrc/runtime/bundle/operator_block.h`` has them.
MAX_TENSORS: Final = 48
MAX_ATTRIBUTES: Final = 48
MAX_SLOTS: Final = 512
MAX_FLOATS: Final = 16
MAX_TYPE_VARIABLES: Final = 16
MAX_RANK: Final = 16
MAX_STEPS: Final = 16
MAX_KERNARG: Final = 4096
MAX_THREADS: Final = 1024

_INT, _BOOL, _FLOAT, _ENUM, _TEXT = range(len(ATTRIBUTE_KINDS))
_IN, _OUT, _INOUT = range(len(ROLES))
_DECIMAL: Final = re.compile(r"[-+.0-9eE]+\Z")


def check_operator(operator: Operator, code_objects: int) -> None:
    """Check all rules; ``code_objects``: how many the bundle has.

    Raises:
        FormatError: naming the record and the rule.
    """
    try:
        _check_signature(operator)
        for entry in operator.entries:
            known = entry.code_object < code_objects
            _require(known, f"entry {entry.name} names code object {entry.code_object}")
        for recipe in operator.recipes:
            _check_recipe(operator, recipe)
        _check_tuned(operator)
    except bytecode.ExpressionError as error:
        raise FormatError(str(error)) from None


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise FormatError(problem)


def _check_signature(operator: Operator) -> None:
    counts = (len(operator.tensors), len(operator.attributes), len(operator.slots), len(operator.floats))
    limits = (MAX_TENSORS, MAX_ATTRIBUTES, MAX_SLOTS, MAX_FLOATS)
    _require(
        all(count <= limit for count, limit in zip(counts, limits, strict=True)),
        "more than {} tensors, {} attributes, {} slots or {} floats".format(*limits),
    )
    _require(operator.return_count <= len(operator.tensors), "more returns than tensors")
    few = len(operator.type_variables) <= MAX_TYPE_VARIABLES
    _require(few, f"more than {MAX_TYPE_VARIABLES} type variables")
    for variable in operator.type_variables:
        for number in variable.allowed:
            _require(number < len(dtype.DTYPES), f"type variable {variable.name} allows type {number}")
    for tensor in operator.tensors:
        _check_tensor(operator, tensor)
    for kernel in operator.kernels:
        known = kernel.backend < len(BACKENDS) and kernel.profile < len(PROFILES)
        _require(known, f"kernel {kernel.name} has an unknown backend or profile")
    _check_attributes(operator)


def _check_tensor(operator: Operator, tensor: Tensor) -> None:
    def require(holds: bool, rule: str) -> None:
        _require(holds, f"tensor {tensor.name} has {rule}")

    slots = len(operator.slots)
    known = tensor.type_var == NONE8 or tensor.type_var < len(operator.type_variables)
    require(known, "an unknown type variable")
    known = tensor.dtype < len(dtype.DTYPES) and tensor.role < len(ROLES)
    require(known, "an unknown type or role")
    require(max(tensor.address_slot, tensor.given_slot) < slots, "a slot out of range")
    place = tensor.in_place == 0 or (tensor.in_place <= len(operator.tensors) and tensor.role == _OUT)
    require(place, "memory of a tensor that it cannot be in place of")
    require(tensor.align & (tensor.align - 1) == 0, "an alignment that is no power of two")
    require(len(tensor.dims) <= MAX_RANK, "too many dims")
    require(not tensor.star or len(tensor.dims) > 0, "a star and no dim")
    strides = 0 if tensor.contiguous else len(tensor.dims)
    require(len(tensor.strides) == strides, "not one stride per dim")
    for dim in (*tensor.dims, *tensor.strides):
        require(dim.kind <= DIM_EXPRESSION, "a dim of unknown kind")
        require(dim.kind != DIM_BIND or dim.slot < slots, "a dim with a slot out of range")
        require(dim.kind != DIM_EXPRESSION or dim.code != b"", "a dim without its expression")
        _check_code(dim.code, slots)


def _check_attributes(operator: Operator) -> None:
    optional = False
    for attribute in operator.attributes:
        name = f"attribute {attribute.name}"
        _require(attribute.kind < len(ATTRIBUTE_KINDS), f"{name} has an unknown kind")
        slots = operator.floats if attribute.kind == _FLOAT else operator.slots
        _require(attribute.slot < len(slots), f"{name} has a slot out of range")
        given = attribute.default != ""
        _require(given or not optional, f"{name} has no default and stands behind one that has")
        _require(not given or default_fits(attribute), f"{name} has a default of another kind")
        optional = given


def default_fits(attribute: Attribute) -> bool:
    """Is the text of the default one of the attribute's kind? Decimal numbers with a dot, in every locale."""
    text = attribute.default
    if attribute.kind == _ENUM:
        return text in attribute.values
    if attribute.kind == _TEXT:
        return text == NO_TEXT
    if attribute.kind == _BOOL:
        return text in ("true", "false")
    if _DECIMAL.match(text) is None:
        return False
    try:
        if attribute.kind == _FLOAT:
            float(text)
            return True
        return not text.startswith("+") and bytecode.INT64_MIN <= int(text) <= bytecode.INT64_MAX
    except ValueError:
        return False


def _check_recipe(operator: Operator, recipe: Recipe) -> None:
    slots = len(operator.slots)
    _require(recipe.kernel < len(operator.kernels), f"a recipe names kernel {recipe.kernel}")
    _require(len(recipe.types) == len(operator.type_variables), "a recipe leaves a type variable open")
    for number in recipe.types:
        _require(number < len(dtype.DTYPES), f"a recipe names type {number}")
    for condition in recipe.conditions:
        _require(condition.code != b"", "a condition has no program")
        _check_code(condition.code, slots)
    _check_code(recipe.cost, slots)
    _check_code(recipe.workspace, slots)
    _require(len(recipe.steps) <= MAX_STEPS, f"a recipe has {len(recipe.steps)} steps")
    for step in recipe.steps:
        _check_step(operator, step)


def _check_step(operator: Operator, step: Step) -> None:
    slots = len(operator.slots)
    _require(step.entry < len(operator.entries), f"a step names entry {step.entry}")
    _require(step.kernarg_size <= MAX_KERNARG, f"a kernarg buffer of {step.kernarg_size} bytes")
    threads = step.block_x * step.block_y * step.block_z
    _require(0 < threads <= MAX_THREADS, f"a block of no threads or more than {MAX_THREADS}")
    for code in (step.grid_x, step.grid_y, step.grid_z, step.lds):
        _check_code(code, slots)
    for arg in step.args:
        _check_arg(operator, step, arg)


def _check_arg(operator: Operator, step: Step, arg: Arg) -> None:
    _require(arg.kind <= ARG_REAL, "a kernel argument of unknown kind")
    pointer = arg.kind in (ARG_TENSOR, ARG_WORKSPACE)
    known = arg.size == 8 or (arg.size == 4 and not pointer) or (arg.size == 1 and arg.kind == ARG_INT)
    _require(known, f"a kernel argument of {arg.size} bytes")
    _require(arg.offset + arg.size <= step.kernarg_size, "a kernel argument leaves the kernarg buffer")
    named = arg.kind != ARG_TENSOR or arg.operand < len(operator.tensors)
    _require(named, "a kernel argument names no tensor")
    floats = {attribute.slot for attribute in operator.attributes if attribute.kind == _FLOAT}
    _require(arg.kind != ARG_FLOAT or arg.operand in floats, "a kernel argument names no float attribute")
    _require(arg.kind != ARG_INT or arg.code != b"", "an integer argument has no program")
    if arg.kind == ARG_REAL:
        real.check(arg.code, len(operator.slots), floats)
    else:
        _check_code(arg.code, len(operator.slots))


def _check_tuned(operator: Operator) -> None:
    for slot in operator.tuned_slots:
        _require(slot < len(operator.slots), "a tuned slot is out of range")
    before: tuple[int, tuple[int, ...]] | None = None
    for row in operator.tuned:
        _require(row.recipe < len(operator.recipes), f"a tuned row names recipe {row.recipe}")
        same = len(row.values) == len(operator.tuned_slots)
        _require(same, "a tuned row has another number of values")
        _require(len(row.last) in (0, len(row.values)), "a tuned row ends with another number of values")
        _require(all(map(le, row.values, row.last)), "a tuned row ends before it begins")
        key = (row.cus, row.values)
        _require(before is None or before <= key, "tuned rows are not sorted")
        before = key


def _check_code(code: bytes, slots: int) -> None:
    if code:
        bytecode.check(code, slots)
