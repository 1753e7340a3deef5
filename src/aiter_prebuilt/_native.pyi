"""The native extension: bundles, selection and launches. Built from csrc/runtime; ABI number in contract/version.py."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypedDict, final

#: One table of tuned rows: its columns with their places, (origin, compute units, values, kernel, variant, types) a row, and
#: whether nobody measured them.
TunedTable: TypeAlias = tuple[
    tuple[tuple[str, str], ...], tuple[tuple[str, int, tuple[int, ...], str, str, str], ...], bool
]

#: (address, element type, shape, strides in elements or None for dense, (vendor, ordinal))
RawTensor: TypeAlias = tuple[int, str, Sequence[int], Sequence[int] | None, tuple[str, int]]

#: How an operator sees its tensors, by their places: ``Operator.viewing`` says what each kind is.
Views: TypeAlias = tuple[tuple[str, int, int | str] | tuple[str, int, int, tuple[int, ...]], ...]

class DriverInfo(TypedDict):
    path: str
    version: int
    devices: int

class DeviceInfo(TypedDict):
    name: str
    arch: str
    compute_units: int
    memory_bytes: int
    lds_bytes: int
    driver_version: int

class StepInfo(TypedDict):
    entry: str
    symbol: str
    grid: list[int]
    block: list[int]
    lds: int
    kernarg_size: int
    sha256: str

class DecisionInfo(TypedDict):
    kernel: str
    tree: str
    backend: str
    variant: str
    types: dict[str, str]
    rank: int
    accepted: bool
    chosen: bool
    reason: str
    near: int
    cost: int | None
    tuned: bool
    row: str
    workspace: int
    steps: list[StepInfo]

class Stats(TypedDict):
    calls: int
    memo_hits: int
    memo_size: int
    selections: int
    launches: int
    modules_loaded: int

def abi() -> int:
    """``contract.version.NATIVE_ABI`` of the build."""

def contract() -> tuple[int, int, int]:
    """(bundle format, recipe version, native ABI) of the build."""

def zstd_decompress(frame: bytes, raw_size: int, dictionary: bytes | None, /) -> bytes:
    """Decode one frame to exactly ``raw_size`` bytes; ``dictionary`` is raw content. Raises ValueError."""

def evaluate(code: bytes, slots: Sequence[int], /) -> int:
    """Run a program of the expression language. Raises ValueError with the Python evaluator's words."""

def evaluate_real(code: bytes, slots: Sequence[int], floats: Sequence[float], /) -> float:
    """Run a program of a computed float argument. Raises ValueError with the Python evaluator's words."""

def sha256(data: bytes, portable: bool, /) -> bytes:
    """SHA-256, by the processor's instructions where it has them unless ``portable``."""

def open_driver(vendor: str, path: str | None, /) -> DriverInfo:
    """Open ``amd`` or ``nvidia`` once per process. Raises DriverError, ForkError."""

def device(vendor: str, ordinal: int, /) -> DeviceInfo:
    """Describe one device as the driver does.

    Raises DriverError, NoDeviceError, ForkError.
    """

@final
class Bundle:
    """An open bundle file, header and root checked. Raises BundleDamagedError, BundleVersionError."""

    def __new__(cls, path: str, /) -> Bundle: ...
    @property
    def path(self) -> str: ...
    @property
    def target(self) -> str: ...
    @property
    def profile(self) -> str: ...
    @property
    def tree(self) -> str: ...
    @property
    def distribution(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def provenance(self) -> str: ...
    @property
    def vendor(self) -> str: ...
    @property
    def entry_count(self) -> int: ...
    @property
    def header(self) -> bytes:
        """The first 128 bytes, as they were when the file was opened: all else of it is checked by what they say."""

    @property
    def names(self) -> tuple[str, ...]: ...

@final
class Outputs:
    """``make(*args)``, tensors that a function returns, remembered by what the arguments are: of tensors type, element type,
    device and shape, of ints the value, of all else the object. ``make`` reads nothing but that, and what it makes is
    contiguous, of torch, and not filled.
    """

    def __new__(
        cls,
        make: Callable[..., Any],
        keep: Callable[[Any], tuple[Any, ...] | None],
        /,
    ) -> Outputs:
        """``keep`` says for each of what ``make`` made how the like of it is made, as a plan says it, or what stays as it is; or
        None.
        """

    def __call__(self, *args: Any) -> Any: ...
    @property
    def make(self) -> Callable[..., Any]: ...

@final
class Plans:
    """``function(*args)``, remembered as memory that is made and calls of operators, by what the arguments are: ``kinds`` has a
    letter for each. ``t`` is a tensor told by type, element type, device, shape and strides, ``p`` one of which only its type is,
    ``v`` an int's or a float's value, of all else the object. Memory that no GPU has, and what cannot be told, is ``function``'s.
    """

    def __new__(
        cls,
        function: Callable[..., Any],
        plan: Callable[..., tuple[tuple[Any, ...], tuple[Any, ...], Any] | None],
        kinds: str,
        /,
    ) -> Plans:
        """``plan(*args)``, which gets True for a tensor of ``p``, says what is made, ``(function, its arguments)`` of each, or
        beside them ``near, its arguments, device``: what is called where ``device``, ``("amd", 0)`` or None for any, is current;
        what is launched, ``(operator, its arguments)``, and what is returned. Among those ``(place,)`` is an argument of the
        call, ``(-1 - place,)`` what was made; several are returned as a tuple of two and more. None: ``function`` serves such
        calls.
        """

    def __call__(self, *args: Any) -> Any: ...
    @property
    def function(self) -> Callable[..., Any]: ...

@final
class Operator:
    """One operator. Call it with tensors (arguments, then returns), then attributes, all by position."""

    def __new__(
        cls,
        name: str,
        resolve: Callable[
            [str, int],
            tuple[tuple[Bundle, ...], int] | tuple[tuple[Bundle, ...], int, tuple[TunedTable, ...]],
        ],
        names: Callable[[], tuple[str, ...]] = ...,
        restated: Callable[..., tuple[tuple[Any, ...], Callable[[], None] | None] | None] = ...,
        /,
    ) -> Operator:
        """``restated`` gets the arguments of a call that was refused for shapes, strides, types or a gradient: those to call with
        instead, and what to call after that, or None. A call with a tensor of a subclass that has its own ``__torch_dispatch__``
        is ``restated(*arguments, views=views)``, which serves it.
        """
    @property
    def name(self) -> str: ...
    @property
    def views(self) -> Views:
        """What :meth:`viewing` was called with; () of an operator without views."""
    def __call__(self, *args: Any, stream: int | None = None) -> None:
        """Bind, choose, launch. Raises what ``aiter_prebuilt.errors`` names; nothing is launched then."""

    def viewing(self, views: Views, /) -> Operator:
        """Return the operator with views of its tensors.

        It sees a tensor of a call, by its place, otherwise, and no framework makes a tensor for it.

        ``("order", place, rank, dims)``: of a tensor of that rank each dim by its number, -1 a new one. ``("split", place,
        size)``: the last dim in parts of that size, a dim of its own. ``("bytes", place, type)``: of a tensor of that element
        type the bytes. A tensor that does not fit stays as it is. So do explain and preload of it.
        """

    def explain(
        self,
        bundles: tuple[Bundle, ...],
        cus: int,
        tensors: Sequence[Any],
        attributes: Sequence[Any],
        tuned: tuple[TunedTable, ...] = ...,
        /,
    ) -> list[DecisionInfo]:
        """Return the decisions for these arguments.

        They are for a device with ``cus`` compute units; nothing is opened or launched.

        ``tuned``: the user's tables, the one that wins first. Raises TunedTableError for a column that the operator lacks.
        """

    def preload(
        self,
        vendor: str,
        ordinal: int,
        tensors: Sequence[Any] | None = None,
        attributes: Sequence[Any] | None = None,
        /,
    ) -> None:
        """Load what such a call would launch, or every kernel of the operator."""

    def stats(self) -> Stats:
        """Counters since the start; ``modules_loaded`` counts the whole process."""
