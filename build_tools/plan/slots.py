"""The integer slots of one operator: which name lives where, and the contract records of its signature."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from aiter_prebuilt.contract import dtype
from aiter_prebuilt.contract.bytecode import ExpressionError
from aiter_prebuilt.contract.expression import Scope, compile_expression
from aiter_prebuilt.contract.records import (
    ATTRIBUTE_KINDS,
    DIM_ANY,
    DIM_BIND,
    DIM_EXPRESSION,
    NONE8,
    ROLES,
    Attribute,
    Dim,
    Tensor,
    TypeVariable,
)
from build_tools.manifest.grammar import (
    AttributeSpec,
    SignatureError,
    TensorSpec,
    is_symbol,
    parse_attribute,
    parse_tensor,
)
from build_tools.manifest.model import Operator as OperatorSpec
from build_tools.manifest.problems import Problems, suggestion
from build_tools.plan import limits

#: Filled in by the runtime for the device of the call.
COMPUTE_UNITS = "CUS"


@dataclass(frozen=True, eq=False)
class Slots:
    """The signature of one operator, ready for expressions: tensors (arguments, then returns), attributes, slots."""

    name: str
    tensors: tuple[TensorSpec, ...]
    return_count: int
    attributes: tuple[AttributeSpec, ...]
    types: dict[str, tuple[str, ...]]
    names: tuple[str, ...]
    floats: tuple[str, ...]

    def scope(
        self, constants: dict[str, int] | None = None, strings: dict[str, str] | None = None,
        words: dict[str, int | str] | None = None,
    ) -> Scope:  # fmt: skip
        """Return the names that an expression of this operator may use.

        ``words``: constants and strings, where they are one already.
        """
        return self._bare.known(constants or {}, strings or {}, words)

    @cached_property
    def _bare(self) -> Scope:
        enums = {spec.name: spec.values for spec in self.attributes if spec.kind == "enum"}
        texts = [spec.name for spec in self.attributes if spec.kind == "text"]
        return Scope({name: slot for slot, name in enumerate(self.names)}, None, enums, None, self, texts)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {spec.name: place for place, spec in enumerate(self.tensors)}

    def tensor_index(self, name: str) -> int | None:
        """Position of tensor ``name`` in the native call."""
        return self._places.get(name)

    def text(self) -> str:
        """Canonical signature: two bundles may add kernels to one operator only when it is equal."""
        types = "".join(f"{name}={'|'.join(allowed)} " for name, allowed in self.types.items())
        tensors = ", ".join(_tensor_text(spec) for spec in self.tensors)
        attributes = "".join(
            f", {spec.name}: {spec.kind}{'(' + ', '.join(spec.values) + ')' if spec.values else ''}"
            + (f" = {spec.default}" if spec.default is not None else "")
            for spec in self.attributes
        )
        return f"{types}{self.name}({tensors}{attributes}) -> {self.return_count}"


def _tensor_text(spec: TensorSpec) -> str:
    dims = ", ".join(("*" if spec.star and place == 0 else "") + dim for place, dim in enumerate(spec.dims))
    strides = "" if spec.strides is None else f" strides [{', '.join(spec.strides)}]"
    align = f" align {spec.align}" if spec.align > 1 else ""
    return (
        f"{spec.name}: {spec.role} {spec.type}[{dims}]{strides}{align}{' optional' if spec.optional else ''}"
    )


def assign_slots(spec: OperatorSpec, problems: Problems) -> Slots:
    """Read the signature of ``spec``; what is wrong goes to ``problems`` (the slots then lack it)."""
    tensors: list[TensorSpec] = []
    for key, table in (("arguments", spec.arguments), ("returns", spec.returns)):
        for name, text in table.items():
            try:
                tensors.append(parse_tensor(name, text, spec.types, returned=key == "returns"))
            except SignatureError as error:
                problems.add(str(error), key, name)
            else:
                limits.check(len(tensors[-1].dims), limits.RANK, "dims", problems, key, name)
    attributes: list[AttributeSpec] = []
    for name, text in spec.attributes.items():
        try:
            attributes.append(parse_attribute(name, text))
        except SignatureError as error:
            problems.add(str(error), "attributes", name)
    _check_in_place(tensors, problems)
    _check_attribute_order(attributes, problems)
    names, floats = _names(tensors, attributes, problems)
    returned = sum(tensor.name in spec.returns for tensor in tensors)
    slots = Slots(
        spec.name, tuple(tensors), returned, tuple(attributes), _types(spec, problems), names, floats
    )
    _check_limits(slots, problems)
    return slots


def _types(spec: OperatorSpec, problems: Problems) -> dict[str, tuple[str, ...]]:
    known = (*dtype.BY_NAME, dtype.TARGET_FP8)
    for name, allowed in spec.types.items():
        for place, text in enumerate(allowed):
            if text not in known:
                problems.add(
                    f"{text!r} is not an element type{suggestion(text, known)}", "types", name, place
                )
    return {name: tuple(text for text in allowed if text in known) for name, allowed in spec.types.items()}


def _check_limits(slots: Slots, problems: Problems) -> None:
    limits.check(len(slots.tensors), limits.TENSORS, "arguments and returns", problems, "arguments")
    limits.check(len(slots.attributes), limits.ATTRIBUTES, "attributes", problems, "attributes")
    limits.check(len(slots.floats), limits.FLOATS, "float attributes", problems, "attributes")
    limits.check(len(slots.types), limits.TYPE_VARIABLES, "type variables", problems, "types")
    limits.check(
        len(slots.names), limits.SLOTS, "dims, strides, attributes and addresses", problems, "arguments"
    )


def _check_in_place(tensors: list[TensorSpec], problems: Problems) -> None:
    """In place of an input of the same type and dims: nothing else can have the same layout."""
    inputs = {spec.name: spec for spec in tensors if spec.role == "in"}
    for spec in tensors:
        if spec.in_place is None:
            continue
        other = inputs.get(spec.in_place)
        if other is None:
            problems.add(
                f"{spec.in_place!r} is no argument that is only read{suggestion(spec.in_place, list(inputs))}",
                "arguments",
                spec.name,
            )
        elif (spec.type, spec.star, spec.dims) != (other.type, other.star, other.dims):
            problems.add(
                f"it cannot be in place of {other.name}: their types and dims are not the same text",
                "arguments",
                spec.name,
            )


def _check_attribute_order(attributes: list[AttributeSpec], problems: Problems) -> None:
    optional = False
    for spec in attributes:
        if optional and spec.default is None:
            problems.add(
                "an attribute without a default stands behind one with a default", "attributes", spec.name
            )
        optional = optional or spec.default is not None


def _names(
    tensors: list[TensorSpec], attributes: list[AttributeSpec], problems: Problems
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    names: list[str] = []
    for tensor in tensors:
        names.extend(symbol for symbol in tensor.symbols() if symbol not in names)
    for attribute in attributes:
        if attribute.kind != "float":
            if attribute.name in names:
                problems.add(f"{attribute.name!r} is a dim or stride already", "attributes", attribute.name)
            names.append(attribute.name)
    names.append(COMPUTE_UNITS)
    for tensor in tensors:
        names += ["&" + tensor.name, "?" + tensor.name]
    return tuple(names), tuple(spec.name for spec in attributes if spec.kind == "float")


def tensor_records(slots: Slots, fp8: str, problems: Problems) -> tuple[Tensor, ...]:
    """Build the tensors' records on targets with this fp8."""
    places = {name: place for place, name in enumerate(slots.names)}
    variables = list(slots.types)
    records = []
    first_return = len(slots.tensors) - slots.return_count
    for place, spec in enumerate(slots.tensors):
        with problems.at("arguments" if place < first_return else "returns", spec.name):
            variable = variables.index(spec.type) if spec.type in slots.types else NONE8
            records.append(
                Tensor(
                    name=spec.name,
                    role=ROLES.index(spec.role),
                    optional=int(spec.optional),
                    star=int(spec.star),
                    contiguous=int(spec.strides is None),
                    type_var=variable,
                    dtype=0 if variable != NONE8 else dtype.resolve(spec.type, fp8).number,
                    align=spec.align,
                    address_slot=places["&" + spec.name],
                    given_slot=places["?" + spec.name],
                    dims=tuple(_dim(text, slots, places, problems) for text in spec.dims),
                    strides=tuple(_dim(text, slots, places, problems) for text in spec.strides or ()),
                    in_place=0 if spec.in_place is None else 1 + (slots.tensor_index(spec.in_place) or 0),
                )
            )
    return tuple(records)


def _dim(text: str, slots: Slots, places: dict[str, int], problems: Problems) -> Dim:
    if text == "_":
        return Dim(DIM_ANY, 0, b"")
    if is_symbol(text):
        return Dim(DIM_BIND, places[text], b"")
    try:
        return Dim(DIM_EXPRESSION, 0, compile_expression(text, slots.scope()))
    except ExpressionError as error:
        problems.add(str(error))
        return Dim(DIM_ANY, 0, b"")


def attribute_records(slots: Slots) -> tuple[Attribute, ...]:
    """Return the contract records of the attributes."""
    places = {name: place for place, name in enumerate(slots.names)}
    return tuple(
        Attribute(
            name=spec.name,
            default=spec.default or "",
            kind=ATTRIBUTE_KINDS.index(spec.kind),
            slot=slots.floats.index(spec.name) if spec.kind == "float" else places[spec.name],
            values=spec.values,
        )
        for spec in slots.attributes
    )


def type_variables(slots: Slots, fp8: str) -> tuple[TypeVariable, ...]:
    """Build the type variables' records on targets with this fp8."""
    return tuple(
        TypeVariable(name, tuple(dtype.resolve(text, fp8).number for text in allowed))
        for name, allowed in slots.types.items()
    )
