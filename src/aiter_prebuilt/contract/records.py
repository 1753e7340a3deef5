"""The frozen records of a bundle's index, and the bytes of each.

``LAYOUT`` is the single description: the Python encoder and decoder walk it, and
``csrc/runtime/bundle_layout.h`` is generated from it (a test compares the two). Little endian, every
field at its natural alignment, padding spelled out. Formats:

    u8 u16 u32 u64 i64    integers                      pad4      zero bytes
    str, code             (u32 offset, u32 length) of UTF-8 text or bytecode
    sha                   32 bytes
    X                     the record X itself, in place
    [X]                   (u32 offset, u32 count) of an array of X, starting at a multiple of 8

Offsets count from the start of the region that holds the record (the root or one operator block).
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Final

NONE8: Final = 0xFF
NONE32: Final = 0xFFFFFFFF

VENDORS: Final = ("amd", "nvidia")
BACKENDS: Final = ("asm", "hip", "ck", "triton", "flydsl")
PROFILES: Final = ("ck-free", "ck-full")
#: Added to the rank of a kernel of an own bundle that stands behind the product's kernels; without it, it stands before them.
AFTER_PRODUCT: Final = 1 << 31
ROLES: Final = ("in", "out", "inout")
ATTRIBUTE_KINDS: Final = ("int", "bool", "float", "enum", "text")
#: The default of a text: none was given, which is the same as an empty one.
NO_TEXT: Final = "none"
ENCODINGS: Final = ("raw", "zstd")

DIM_ANY, DIM_BIND, DIM_EXPRESSION = 0, 1, 2
ARG_TENSOR, ARG_NULL, ARG_WORKSPACE, ARG_INT, ARG_FLOAT, ARG_REAL = 0, 1, 2, 3, 4, 5


@dataclass(frozen=True, slots=True)
class Stored:
    """The place of a stored region or dictionary in the file.

    ``stored_size`` bytes at ``offset``, whose SHA-256 is ``sha256``, give ``raw_size`` bytes. ``dictionary``: the number of the
    one that decodes it, or NONE32; a dictionary itself has none.
    """

    offset: int
    stored_size: int
    raw_size: int
    dictionary: int
    encoding: int
    sha256: bytes


NOWHERE: Final = Stored(0, 0, 0, NONE32, 0, bytes(32))


@dataclass(frozen=True, slots=True)
class OperatorRef:
    """The place of one operator block in the file."""

    name: str
    stored: Stored


@dataclass(frozen=True, slots=True)
class Root:
    """The first region of a bundle: what it is for and where its operators are (sorted by name).

    ``provenance`` is JSON text without any host fact: ``tools`` (name to version), ``cus`` (compute units of the target's cards,
    the usual one first) and, where files of source trees are in it, ``trees`` (name to version). ``table``: the ``CodeObject``
    records. ``frames_offset``, ``frames_size``: the bytes that the code objects' frames fill. What follows ``fp8`` is filled in
    by the writer.
    """

    target: str
    profile: str
    distribution: str
    version: str
    provenance: str
    vendor: int
    wave: int
    lds_bytes: int
    fp8: int
    operators: tuple[OperatorRef, ...] = ()
    dictionaries: tuple[Stored, ...] = ()
    table: Stored = NOWHERE
    frames_offset: int = 0
    frames_size: int = 0
    code_object_count: int = 0
    entry_count: int = 0


@dataclass(frozen=True, slots=True)
class CodeObject:
    """The storage of one code object.

    Its frame begins where the one before it ends, the first at ``frames_offset``.
    """

    stored_size: int
    raw_size: int
    dictionary: int
    encoding: int


@dataclass(frozen=True, slots=True)
class TypeVariable:
    """A type variable and the numbers of the element types it may stand for."""

    name: str
    allowed: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Dim:
    """One dim or stride: anything, a slot to bind (and compare when bound already), or an expression to equal."""

    kind: int
    slot: int
    code: bytes


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor of the call. ``star``: the first dim stands for all leading dims. ``contiguous``: ``strides`` is
    empty and the tensor must be dense in C order. ``type_var`` is NONE8 when ``dtype`` is fixed. ``in_place``: 1 + the
    position of the tensor whose memory it may be, 0 for none; these bytes were padding, and no receipt is about them.
    """

    name: str
    role: int
    optional: int
    star: int
    contiguous: int
    type_var: int
    dtype: int
    align: int
    address_slot: int
    given_slot: int
    dims: tuple[Dim, ...]
    strides: tuple[Dim, ...]
    in_place: int = field(default=0, repr=False)


@dataclass(frozen=True, slots=True)
class Attribute:
    """One scalar of the call. int, bool, enum (index) and text (``bytecode.text_number``) live in integer slots, float in
    float slots. ``default`` is the text of the default, empty when there is none; a text's is ``none``.
    """

    name: str
    default: str
    kind: int
    slot: int
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Kernel:
    """One way to do the operator. Lower ``rank`` is preferred; ranks come from the operator's ``order``.

    In an own bundle :data:`AFTER_PRODUCT` may be added to it.
    """

    name: str
    backend: int
    profile: int
    rank: int


@dataclass(frozen=True, slots=True)
class Condition:
    """A predicate and the text that a refusal quotes."""

    text: str
    code: bytes


@dataclass(frozen=True, slots=True)
class Arg:
    """One kernel argument: ``kind`` ARG_*, at ``offset`` of the kernarg buffer, ``size`` bytes.
    ``operand``: tensor index (ARG_TENSOR) or float slot (ARG_FLOAT). ``code``: the value (ARG_INT), the byte
    offset into the workspace (ARG_WORKSPACE; empty is 0), or a program of ``contract.real`` (ARG_REAL).
    """

    kind: int
    size: int
    offset: int
    operand: int
    code: bytes


@dataclass(frozen=True, slots=True)
class Step:
    """One launch: an entry, its grid in workgroups (an empty program is 1), its block in threads, dynamic LDS bytes."""

    entry: int
    kernarg_size: int
    block_x: int
    block_y: int
    block_z: int
    grid_x: bytes
    grid_y: bytes
    grid_z: bytes
    lds: bytes
    args: tuple[Arg, ...]


@dataclass(frozen=True, slots=True)
class Recipe:
    """The choice and launch of one variant's entries.

    It covers one assignment of the type variables. An empty ``cost`` is 0; an empty ``workspace`` is none.
    """

    kernel: int
    variant: str
    types: tuple[int, ...]
    conditions: tuple[Condition, ...]
    cost: bytes
    workspace: bytes
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """One launchable kernel: a symbol of a code object whose content has this SHA-256, with what the audit read
    from its descriptor. ``receipt`` is JSON text; ``{"executed": false}`` until a device has run it.
    """

    name: str
    symbol: str
    job: str
    receipt: str
    code_object: int
    kernarg_size: int
    kernarg_align: int
    lds_static: int
    max_threads: int
    sgprs: int
    vgprs: int
    agprs: int
    spills: int
    scratch: int
    sha256: bytes


@dataclass(frozen=True, slots=True)
class TunedRow:
    """For a device with ``cus`` compute units and these values of ``Operator.tuned_slots``: take ``recipe``.
    The type variables are those of the recipe. Rows are sorted by (cus, values). ``last``: where the row stands for ranges, the
    last value of each, and ``values`` are the first; empty: for ``values`` alone.
    """

    cus: int
    recipe: int
    values: tuple[int, ...]
    last: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator block. ``signature`` is canonical text of arguments, returns and attributes: two bundles may add
    kernels to one operator only when it is equal. ``slots`` names the integer slots, ``floats`` the float slots.
    Slot ``CUS`` is filled by the runtime. ``tensors`` are the arguments, then the returns (``return_count`` of them).
    """

    name: str
    summary: str
    signature: str
    return_count: int
    type_variables: tuple[TypeVariable, ...]
    tensors: tuple[Tensor, ...]
    attributes: tuple[Attribute, ...]
    slots: tuple[str, ...]
    floats: tuple[str, ...]
    kernels: tuple[Kernel, ...]
    recipes: tuple[Recipe, ...]
    entries: tuple[Entry, ...]
    tuned_slots: tuple[int, ...]
    tuned: tuple[TunedRow, ...]


Format = str | list[Any] | type[Any]

LAYOUT: Final[dict[type[Any], tuple[tuple[str, Format], ...]]] = {
    Stored: (
        ("offset", "u64"),
        ("stored_size", "u32"),
        ("raw_size", "u32"),
        ("dictionary", "u32"),
        ("encoding", "u32"),
        ("sha256", "sha"),
    ),
    OperatorRef: (("name", "str"), ("stored", Stored)),
    Root: (
        ("target", "str"),
        ("profile", "str"),
        ("distribution", "str"),
        ("version", "str"),
        ("provenance", "str"),
        ("vendor", "u32"),
        ("wave", "u32"),
        ("lds_bytes", "u32"),
        ("fp8", "u32"),
        ("operators", [OperatorRef]),
        ("dictionaries", [Stored]),
        ("table", Stored),
        ("frames_offset", "u64"),
        ("frames_size", "u64"),
        ("code_object_count", "u32"),
        ("entry_count", "u32"),
    ),
    CodeObject: (("stored_size", "u32"), ("raw_size", "u32"), ("dictionary", "u32"), ("encoding", "u32")),
    TypeVariable: (("name", "str"), ("allowed", ["u8"])),
    Dim: (("kind", "u16"), ("slot", "u16"), ("code", "code"), ("", "pad4")),
    Tensor: (
        ("name", "str"),
        ("role", "u8"),
        ("optional", "u8"),
        ("star", "u8"),
        ("contiguous", "u8"),
        ("type_var", "u8"),
        ("dtype", "u8"),
        ("address_slot", "u16"),
        ("given_slot", "u16"),
        ("in_place", "u16"),
        ("align", "u32"),
        ("dims", [Dim]),
        ("strides", [Dim]),
    ),
    Attribute: (("name", "str"), ("default", "str"), ("kind", "u32"), ("slot", "u32"), ("values", ["str"])),
    Kernel: (("name", "str"), ("backend", "u8"), ("profile", "u8"), ("", "pad2"), ("rank", "u32")),
    Condition: (("text", "str"), ("code", "code")),
    Arg: (
        ("kind", "u8"),
        ("size", "u8"),
        ("", "pad2"),
        ("offset", "u32"),
        ("operand", "u32"),
        ("code", "code"),
        ("", "pad4"),
    ),
    Step: (
        ("entry", "u32"),
        ("kernarg_size", "u32"),
        ("block_x", "u32"),
        ("block_y", "u32"),
        ("block_z", "u32"),
        ("", "pad4"),
        ("grid_x", "code"),
        ("grid_y", "code"),
        ("grid_z", "code"),
        ("lds", "code"),
        ("args", [Arg]),
    ),
    Recipe: (
        ("variant", "str"),
        ("types", ["u8"]),
        ("conditions", [Condition]),
        ("cost", "code"),
        ("workspace", "code"),
        ("steps", [Step]),
        ("kernel", "u32"),
        ("", "pad4"),
    ),
    Entry: (
        ("name", "str"),
        ("symbol", "str"),
        ("job", "str"),
        ("receipt", "str"),
        ("code_object", "u32"),
        ("kernarg_size", "u32"),
        ("kernarg_align", "u32"),
        ("lds_static", "u32"),
        ("max_threads", "u32"),
        ("sgprs", "u32"),
        ("vgprs", "u32"),
        ("agprs", "u32"),
        ("spills", "u32"),
        ("scratch", "u32"),
        ("sha256", "sha"),
    ),
    TunedRow: (("cus", "u32"), ("recipe", "u32"), ("values", ["i64"]), ("last", ["i64"])),
    Operator: (
        ("name", "str"),
        ("summary", "str"),
        ("signature", "str"),
        ("type_variables", [TypeVariable]),
        ("tensors", [Tensor]),
        ("attributes", [Attribute]),
        ("slots", ["str"]),
        ("floats", ["str"]),
        ("kernels", [Kernel]),
        ("recipes", [Recipe]),
        ("entries", [Entry]),
        ("tuned_slots", ["u16"]),
        ("tuned", [TunedRow]),
        ("return_count", "u32"),
        ("", "pad4"),
    ),
}

_SCALARS: Final[dict[str, tuple[str, int]]] = {
    "u8": ("B", 1),
    "u16": ("H", 2),
    "u32": ("I", 4),
    "u64": ("Q", 8),
    "i64": ("q", 8),
    "pad2": ("2x", 2),
    "pad4": ("4x", 4),
    "str": ("II", 8),
    "code": ("II", 8),
    "sha": ("32s", 32),
}


def struct_format(fmt: Format) -> tuple[str, int]:
    """(``struct`` letters, bytes) of one field format; a record in place has no letters."""
    if isinstance(fmt, list):
        return "II", 8
    if isinstance(fmt, type):
        return "", record_size(fmt)
    return _SCALARS[fmt]


def record_size(record: type[Any]) -> int:
    """Bytes of one record."""
    return sum(struct_format(fmt)[1] for _, fmt in LAYOUT[record])


def element_size(element: type[Any] | str) -> int:
    """Bytes of one array element."""
    return _SCALARS[element][1] if isinstance(element, str) else record_size(element)


def check_layout() -> None:
    """Every record's layout names exactly its fields, naturally aligned. Run by a unit test.

    Raises:
        AssertionError: naming the record and the field.
    """
    for record, layout in LAYOUT.items():
        named = {name for name, _ in layout if name}
        assert named == {field.name for field in fields(record)}, record
        at = 0
        for name, fmt in layout:
            size = struct_format(fmt)[1]
            wide = fmt in ("u64", "i64") or isinstance(fmt, type)
            align = 8 if wide else min(size, 4)
            assert fmt in ("pad2", "pad4") or at % align == 0, (record, name)
            at += size
        assert at % 8 == 0, (record, at)
