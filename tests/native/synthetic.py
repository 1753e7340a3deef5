"""Synthetic operators and bundles: a few lines of signature in, real bundle bytes out. Code objects are made-up bytes
behind an ELF magic, which is all that the stub driver looks at."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

from aiter_prebuilt.contract import dtype, records
from aiter_prebuilt.contract.expression import Scope, compile_expression
from aiter_prebuilt.contract.real import compile_real
from aiter_prebuilt.contract.records import NONE8
from build_tools.pack import writer
from build_tools.pack.writer import as_is

KINDS = {"ptr": 8, "u8": 1, "i32": 4, "i64": 8, "f32": 4, "f64": 8}


@dataclass(frozen=True)
class T:
    """A tensor: ``T("x", "bf16", ["*M", "N"], strides=["row", "1"])``; no strides means contiguous."""

    name: str
    type: str
    dims: list[str]
    strides: list[str] | None = None
    role: str = "in"
    optional: bool = False
    align: int = 1
    in_place: str = ""  # of which tensor


@dataclass(frozen=True)
class A:
    """An attribute: ``A("eps", "float", "1e-6")``, ``A("mode", "enum", "", ("a", "b"))``."""

    name: str
    kind: str
    default: str = ""
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class S:
    """A step: kernel arguments as in a manifest; grid in workgroups."""

    symbol: str = "kernel"
    args: list[str] = field(default_factory=list)
    grid: list[str] = field(default_factory=lambda: ["1"])
    block: tuple[int, int, int] = (256, 1, 1)
    lds: str = ""


@dataclass(frozen=True)
class R:
    """A recipe of ``kernel``; ``constants`` stand in its expressions; ``blob`` names the code object of its steps."""

    kernel: str = "k"
    variant: str = "v"
    types: tuple[str, ...] = ()
    when: list[str] = field(default_factory=list)
    cost: str = ""
    workspace: str = ""
    constants: dict[str, int] = field(default_factory=dict)
    steps: list[S] = field(default_factory=lambda: [S()])
    blob: str = "blob"
    lds_static: int = 0
    max_threads: int = 1024


@dataclass(frozen=True)
class Op:
    """An operator; ``kernels`` in order of rank; ``tuned`` rows are (cus, recipe position, values of
    ``tuned_on``, and the last values where it is for a range).
    """

    name: str
    tensors: list[T]
    attributes: list[A] = field(default_factory=list)
    types: dict[str, list[str]] = field(default_factory=dict)
    recipes: list[R] = field(default_factory=lambda: [R()])
    kernels: list[str] = field(default_factory=lambda: ["k"])
    tuned_on: list[str] = field(default_factory=list)
    tuned: list[tuple[Any, ...]] = field(default_factory=list)
    signature: str = ""
    returns: int = 0
    extra_slots: list[str] = field(default_factory=list)


def code_object(name: str) -> bytes:
    """The bytes of the code object called ``name``."""
    return b"\x7fELF" + hashlib.sha256(name.encode()).digest() * 64


def _slots(op: Op) -> list[str]:
    names: list[str] = []
    for tensor in op.tensors:
        for text in [*tensor.dims, *(tensor.strides or [])]:
            symbol = text.removeprefix("*")
            if symbol.isidentifier() and symbol != "_" and symbol not in names:
                names.append(symbol)
    names += [a.name for a in op.attributes if a.kind != "float" and a.name not in names]
    names += ["CUS", *op.extra_slots]
    for tensor in op.tensors:
        names += ["&" + tensor.name, "?" + tensor.name]
    return names


class _Encoder:
    def __init__(self, op: Op, blobs: list[str]) -> None:
        self.op = op
        self.blobs = blobs
        self.slots = _slots(op)
        self.floats = [a.name for a in op.attributes if a.kind == "float"]
        self.entries: list[records.Entry] = []

    def scope(self, constants: dict[str, int] | None = None) -> Scope:
        enums = {a.name: a.values for a in self.op.attributes if a.kind == "enum"}
        texts = [a.name for a in self.op.attributes if a.kind == "text"]
        return Scope({name: slot for slot, name in enumerate(self.slots)}, constants, enums, texts=texts)

    def dim(self, text: str) -> records.Dim:
        text = text.removeprefix("*")
        if text == "_":
            return records.Dim(records.DIM_ANY, 0, b"")
        if text in self.slots:
            return records.Dim(records.DIM_BIND, self.slots.index(text), b"")
        return records.Dim(records.DIM_EXPRESSION, 0, compile_expression(text, self.scope()))

    def tensor(self, t: T) -> records.Tensor:
        variables = list(self.op.types)
        variable = variables.index(t.type) if t.type in variables else NONE8
        return records.Tensor(
            name=t.name,
            role=records.ROLES.index(t.role),
            optional=int(t.optional),
            star=int(bool(t.dims) and t.dims[0].startswith("*")),
            contiguous=int(t.strides is None),
            type_var=variable,
            dtype=0 if variable != NONE8 else dtype.BY_NAME[t.type].number,
            align=t.align,
            address_slot=self.slots.index("&" + t.name),
            given_slot=self.slots.index("?" + t.name),
            dims=tuple(self.dim(d) for d in t.dims),
            strides=tuple(self.dim(d) for d in t.strides or ()),
            in_place=1 + [o.name for o in self.op.tensors].index(t.in_place) if t.in_place else 0,
        )

    def attribute(self, a: A) -> records.Attribute:
        slot = self.floats.index(a.name) if a.kind == "float" else self.slots.index(a.name)
        return records.Attribute(a.name, a.default, records.ATTRIBUTE_KINDS.index(a.kind), slot, a.values)

    def arg(self, text: str, offset: int, scope: Scope) -> records.Arg:
        kind, rest = text.split(" ", 1)
        size = KINDS[kind]
        if kind in ("f32", "f64"):
            if rest not in self.floats:
                slots = {name: slot for slot, name in enumerate(self.slots) if name[0] not in "&?"}
                program = compile_real(rest, slots, self.floats, scope.constants)
                return records.Arg(records.ARG_REAL, size, offset, 0, program)
            return records.Arg(records.ARG_FLOAT, size, offset, self.floats.index(rest), b"")
        if kind != "ptr":
            return records.Arg(records.ARG_INT, size, offset, 0, compile_expression(rest, scope))
        if rest == "null":
            return records.Arg(records.ARG_NULL, size, offset, 0, b"")
        if rest.startswith("workspace"):
            tail = rest.removeprefix("workspace").strip().removeprefix("+").strip()
            return records.Arg(
                records.ARG_WORKSPACE, size, offset, 0, compile_expression(tail, scope) if tail else b""
            )
        index = [t.name for t in self.op.tensors].index(rest)
        return records.Arg(records.ARG_TENSOR, size, offset, index, b"")

    def step(self, s: S, r: R) -> records.Step:
        scope = self.scope(r.constants)
        args, end = [], 0
        for text in s.args:
            size = KINDS[text.split(" ", 1)[0]]
            end += -end % size
            args.append(self.arg(text, end, scope))
            end += size
        blob = self.blobs.index(r.blob)
        digest = hashlib.sha256(code_object(r.blob)).digest()
        self.entries.append(
            records.Entry(
                f"{self.op.name}-{r.kernel}-{r.variant}-{s.symbol}",
                s.symbol,
                "job",
                '{"executed": false}',
                blob,
                end,
                8,
                r.lds_static,
                r.max_threads,
                32,
                64,
                0,
                0,
                0,
                digest,
            )
        )
        code = [compile_expression(g, scope) for g in s.grid] + [b""] * (3 - len(s.grid))
        lds = compile_expression(s.lds, scope) if s.lds else b""
        return records.Step(len(self.entries) - 1, end, *s.block, code[0], code[1], code[2], lds, tuple(args))

    def recipe(self, r: R) -> records.Recipe:
        scope = self.scope(r.constants)
        return records.Recipe(
            kernel=self.op.kernels.index(r.kernel),
            variant=r.variant,
            types=tuple(dtype.BY_NAME[name].number for name in r.types),
            conditions=tuple(records.Condition(text, compile_expression(text, scope)) for text in r.when),
            cost=compile_expression(r.cost, scope) if r.cost else b"",
            workspace=compile_expression(r.workspace, scope) if r.workspace else b"",
            steps=tuple(self.step(s, r) for s in r.steps),
        )

    def build(self) -> records.Operator:
        op = self.op
        recipes = tuple(self.recipe(r) for r in op.recipes)
        return records.Operator(
            name=op.name,
            summary="synthetic",
            signature=op.signature or f"{op.name}({', '.join(t.name for t in op.tensors)})",
            return_count=op.returns,
            type_variables=tuple(
                records.TypeVariable(name, tuple(dtype.BY_NAME[kind].number for kind in kinds))
                for name, kinds in op.types.items()
            ),
            tensors=tuple(self.tensor(t) for t in op.tensors),
            attributes=tuple(self.attribute(a) for a in op.attributes),
            slots=tuple(self.slots),
            floats=tuple(self.floats),
            kernels=tuple(records.Kernel(name, 1, 0, rank) for rank, name in enumerate(op.kernels)),
            recipes=recipes,
            entries=tuple(self.entries),
            tuned_slots=tuple(self.slots.index(name) for name in op.tuned_on),
            tuned=tuple(
                sorted(
                    (records.TunedRow(cus, r, tuple(v), *map(tuple, last)) for cus, r, v, *last in op.tuned),
                    key=lambda row: (row.cus, row.values),
                )
            ),
        )


def encode_operator(op: Op, blobs: list[str]) -> records.Operator:
    """The contract record of ``op``; ``blobs`` are the code objects of its bundle, by position."""
    return _Encoder(op, blobs).build()


def root(**facts: Any) -> records.Root:
    """A root for gfx942; ``facts`` replace fields."""
    fields: dict[str, Any] = {
        "target": "gfx942", "profile": "ck-free", "distribution": "aiter-prebuilt-gfx942", "version": "0.1.0", "provenance": "{}",
        "vendor": 0, "wave": 64, "lds_bytes": 65536, "fp8": dtype.BY_NAME["e4m3fnuz"].number,
    }  # fmt: skip
    return records.Root(**{**fields, **facts})


def bundle_bytes(ops: list[Op], *, encoding: str = "raw", **facts: Any) -> bytes:
    """A whole bundle with ``ops``; ``encoding`` "zstd" compresses everything, and all blobs share one dictionary."""
    blobs = sorted({r.blob for op in ops for r in op.recipes})
    images = [code_object(name) for name in blobs]
    operators = tuple(encode_operator(op, blobs) for op in ops)
    if encoding == "raw":
        return writer.encode(root(**facts), operators, as_is(images).frames)
    shared = b"".join(images[:2])
    frames = tuple(zstd_frame(image, shared) for image in images)
    return writer.encode(root(**facts), operators, frames, (zstd_frame(shared),), zstd_regions)


def zstd_frame(data: bytes, dictionary: bytes = b"") -> writer.Frame:
    """``data`` as a zstd frame, against dictionary 0 when there is one."""
    import zstandard

    raw = zstandard.DICT_TYPE_RAWCONTENT
    known = zstandard.ZstdCompressionDict(dictionary, dict_type=raw) if dictionary else None
    packed = zstandard.ZstdCompressor(level=19, dict_data=known, write_dict_id=False).compress(data)
    return writer.Frame(packed, len(data), hashlib.sha256(data).digest(), "zstd", 0 if dictionary else None)


def zstd_regions(regions: list[bytes]) -> writer.Packed:
    """Operator blocks against the first of them; a lone region by itself."""
    if len(regions) == 1:
        return writer.Packed((zstd_frame(regions[0]),))
    frames = tuple(zstd_frame(region, regions[0]) for region in regions)
    return writer.Packed(frames, (zstd_frame(regions[0]),))
