"""Name the argument behind a raw Python error, so that every refused call ends in an error of :mod:`aiter_prebuilt.errors`.

Nothing here runs before an error was raised. A generated function calls :func:`blame` where its options are checked. A function
that is written by hand gets :func:`guarded` around it when it becomes an attribute of the package.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping
from importlib import import_module
from numbers import Integral, Real
from operator import index
from types import FunctionType
from typing import Any, Final

from aiter_prebuilt.contract.gradients import DIFFERENTIABLE
from aiter_prebuilt.errors import (
    AiterPrebuiltError,
    ArgumentError,
    ArgumentKindError,
    NoKernelError,
    UnsupportedError,
)
from aiter_prebuilt.forks import importing

#: Errors that only say that some argument was of another kind.
_OF_ARGUMENTS: Final = (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, AssertionError)
#: How the text of a RuntimeError of older torch begins where the device failed; newer torch has classes of their own for that.
_OF_DEVICES: Final = ("CUDA", "HIP", "NCCL")
_FIX: Final = "For what each argument may be, see help(aiter_prebuilt.{})"
#: Longest value that a message shows.
_LONGEST: Final = 60
_INT64: Final = range(-(2**63), 2**63)
#: Annotations of numbers. None would count as zero wherever a function asks for their truth; AITER refuses it.
_NUMBERS: Final = ("float", "int", "int | Enum")


def guarded(function: FunctionType) -> FunctionType:
    """Wrap ``function``: a raw error that it raises is named after the argument that caused it.

    A function that has a backward is called again, differentiably, when its kernels refused a tensor that requires a gradient.
    The wrapper has the parameters of ``function`` one by one: a call through ``*given, **words`` would cost several times as
    much. It has its globals, too, where a test or ``verify --execute`` replaces native operators.
    """
    from inspect import Parameter, signature

    parameters = signature(function).parameters.values()
    declared: list[str] = []
    handed: list[str] = []
    starred = False
    for each in parameters:
        default = "" if each.default is Parameter.empty else "=None"
        if each.kind is Parameter.VAR_POSITIONAL:
            starred = True
            declared.append(f"*{each.name}")
            handed.append(f"*{each.name}")
        elif each.kind is Parameter.VAR_KEYWORD:
            declared.append(f"**{each.name}")
            handed.append(f"**{each.name}")
        elif each.kind is Parameter.KEYWORD_ONLY:
            if not starred:
                declared.append("*")
                starred = True
            declared.append(f"{each.name}{default}")
            handed.append(f"{each.name}={each.name}")
        else:
            declared.append(f"{each.name}{default}")
            handed.append(each.name)
    given = ", ".join(f"{each.name!r}: {each.name}" for each in parameters)
    kinds = numbers(function)
    missing = [f"{name} is None" for name in kinds]
    text = _WRAPPER.format(
        name=function.__name__,
        declared=", ".join(declared),
        handed=", ".join(handed),
        given=given,
        missing=" or ".join(missing) or "False",
    )
    namespace: dict[str, Any] = {}
    # A file of its own: a traceback would show lines of this one, which say other things.
    exec(compile(text, f"<arguments of {function.__name__}>", "exec"), function.__globals__, namespace)  # noqa: S102  # names of parameters alone
    handler = differentiated if function.__name__ in DIFFERENTIABLE else blame
    made: FunctionType = namespace["_make"](function, handler, no_number, kinds)
    made.__defaults__, made.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    made.__dict__.update(function.__dict__)
    for name in ("__module__", "__qualname__", "__doc__", "__annotations__"):
        setattr(made, name, getattr(function, name))
    setattr(made, "__wrapped__", function)  # noqa: B010  # inspect.signature reads it
    return made


#: Names that no parameter has are the closure's: the globals are those of the function.
_WRAPPER: Final = """def _make(_function_, _handler_, _no_number_, _numbers_):
    def {name}({declared}):
        try:
            if {missing}:
                raise _no_number_("{name}", _numbers_, {{{given}}})
            return _function_({handed})
        except Exception as _error_:
            _answer_ = _handler_(_function_, _error_, {{{given}}})
            if _answer_ is None:
                raise
            return _answer_
    return {name}
"""


def numbers(function: Callable[..., Any]) -> dict[str, str]:
    """Return the parameters of ``function`` that are numbers and never None, with their annotations."""
    annotations = function.__annotations__.items()
    return {name: kind for name, kind in annotations if name != "return" and kind in _NUMBERS}


def no_number(function: str, kinds: Mapping[str, str], given: Mapping[str, Any]) -> ArgumentKindError:
    """Return the error for the first number that is None. torch.compile traces it.

    Args:
        function: name of the public function.
        kinds: its :func:`numbers`.
        given: its arguments by name.
    """
    option = [each for each in kinds if each in given and given[each] is None][0]  # noqa: RUF015  # a trace has no generators
    said = " or ".join([_KINDS[kind][1] for kind in kinds[option].split(" | ")])
    return ArgumentKindError(function, f"{option} must be {said}, got None", _FIX.format(function))


def differentiated(function: Callable[..., Any], error: Exception, given: Mapping[str, Any]) -> Any:
    """Return the result of a call with its gradient recorded, where the kernels refused a tensor that requires one.

    Args:
        function: the public function.
        error: what it raised; any other error is left to :func:`blame`.
        given: arguments by name.

    Raises:
        UnsupportedError: an option has no backward.
        ArgumentError: as :func:`blame`.
    """
    name = function.__name__
    if not (isinstance(error, UnsupportedError) and error.asked == f"{name}(requires_grad=True)"):
        return blame(function, error, given)
    with importing:  # late: it imports torch
        module = import_module(f"aiter_prebuilt.tracing.{DIFFERENTIABLE[name]}")
    try:
        return getattr(module, name)(**given)
    except Exception as other:
        other.__context__ = None  # the refusal that led here is no part of the story
        blame(function, other, given)
        raise


def blame(function: Callable[..., Any], error: Exception, given: Mapping[str, Any], name: str = "") -> None:
    """Raise the named error for a raw ``error``; return if it is named already, or not about the arguments.

    Two of the named errors name no argument of the call: one that passes on what Python said (``_common.no_output``), and the
    refusal of an option that only an inner function has.

    An error that names the operator behind the function gets the name of the function, which the user called.

    Args:
        function: the public function; its annotations say what each argument may be.
        error: what was raised.
        given: arguments by name. Other names are ignored.
        name: of the function, where a user calls it otherwise than it was defined.

    Raises:
        ArgumentKindError: an argument is not what its annotation says, or the error itself says no more than that.
        ArgumentError: the arguments ask for more memory than the host has.
    """
    from inspect import unwrap  # late, as above

    inner: Any = unwrap(function)
    name = name or inner.__name__
    if isinstance(error, (ArgumentError, NoKernelError)):
        error.asked = _called(error, name, given)
    named = isinstance(error, AiterPrebuiltError)
    raw = _unnamed(error, given) if isinstance(error, AiterPrebuiltError) else error
    if raw is None:
        return
    fix = _FIX.format(name)
    for key, kinds in inner.__annotations__.items():
        if key != "return" and key in given and isinstance(kinds, str):
            expected = _unlike(given[key], kinds)
            if expected:
                raise ArgumentKindError(
                    name, f"{key} must be {expected}, got {_said(given[key])}", fix
                ) from raw
    if named:
        return
    if isinstance(error, MemoryError):  # of the host: torch has a class of its own for devices
        raise ArgumentError(name, "the host has too little memory for these arguments", fix) from error
    text = (str(error).splitlines() or ["no reason given"])[0]
    if isinstance(error, _OF_ARGUMENTS) or (type(error) is RuntimeError and not text.startswith(_OF_DEVICES)):
        raise ArgumentKindError(
            name, f"an argument is wrong ({type(error).__name__}: {text})", fix
        ) from error


def _unnamed(error: AiterPrebuiltError, given: Mapping[str, Any]) -> BaseException | None:
    """Return the cause of a named error that names no argument of ``given``, or None if it names one."""
    if isinstance(error, UnsupportedError):
        option = error.asked.partition("(")[2].partition("=")
        return error if option[1] and option[0].isidentifier() and option[0] not in given else None
    raw = error.__cause__ if isinstance(error, ArgumentKindError) else None
    return None if isinstance(raw, AiterPrebuiltError) else raw


def _called(error: AiterPrebuiltError, name: str, given: Mapping[str, Any]) -> str:
    """Return who refused a call of ``name``: itself, or itself and the operator whose argument it does not have."""
    operator = error.asked.partition(" (operator ")[2].removesuffix(")") or error.asked
    if operator == name or not operator.isidentifier():
        return error.asked
    return name if error.found.partition(" ")[0] in given else f"{name} (operator {operator})"


def _unlike(value: Any, kinds: str) -> str:
    """Describe the expected kind of a value that is wrong.

    "" if ``value`` is one of ``kinds`` (an annotation) or that cannot be told.
    """
    words = []
    for kind in _alternatives(kinds):
        known = _KINDS.get(kind)
        if known is None:
            return ""
        fits, said = known
        if fits(value):
            return ""
        words.append(said)
    return " or ".join(words)


def _alternatives(kinds: str) -> list[str]:
    """Split an annotation at bars outside of brackets."""
    parts, depth, start = [], 0, 0
    for place, letter in enumerate(kinds):
        depth += (letter == "[") - (letter == "]")
        if letter == "|" and not depth:
            parts.append(kinds[start:place].strip())
            start = place + 1
    return [*parts, kinds[start:].strip()]


def _is_integer(value: Any) -> bool:
    """Accept what fits 64 bits: integers, members of enumerations, tensors of one integer."""
    value = getattr(value, "value", value)
    try:
        return index(value) in _INT64
    except Exception:  # noqa: BLE001  # whatever a stranger's object raises
        return isinstance(value, Integral) and int(value) in _INT64


def _is_real(value: Any) -> bool:
    if not isinstance(value, Real):
        return False
    try:
        float(value)
    except OverflowError:
        return False
    return True


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool) or type(value).__name__ in ("bool_", "bool") or _is_integer(value)


def _is_tensor(value: Any) -> bool:
    """Accept tensors of a framework, and (address, type, shape, strides, device)."""
    return (type(value) is tuple and len(value) == 5) or all(
        hasattr(value, part) for part in ("dtype", "shape", "stride", "device")
    )


def _is_type(value: Any) -> bool:
    """Accept element types: torch's, or a name."""
    return isinstance(value, str) or type(value).__name__ == "dtype"


def _is_none(value: Any) -> bool:
    return value is None


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_integers(value: Any) -> bool:
    try:
        return not isinstance(value, (str, bytes)) and all(map(_is_integer, value))
    except Exception:  # noqa: BLE001  # whatever a stranger's object raises
        return False


_KINDS: Final[dict[str, tuple[Callable[[Any], bool], str]]] = {
    "None": (_is_none, "None"),
    "int": (_is_integer, "an int of 64 bits"),
    "float": (_is_real, "a float"),
    "bool": (_is_bool, "a bool"),
    "str": (_is_text, "a str"),
    "Enum": (_is_integer, "a member of the enumeration"),
    "torch.Tensor": (_is_tensor, "a torch.Tensor"),
    "torch.dtype": (_is_type, "a torch.dtype"),
    "tuple[int, ...]": (_is_integers, "a tuple of ints"),
    "tuple[int, int]": (_is_integers, "a tuple of ints"),
    "list[int]": (_is_integers, "a list of ints"),
}


def _said(value: Any) -> str:
    """Return a value as a message shows it.

    Of an array or a tensor, which may lie on a device, only the type.
    """
    kind = type(value)
    if hasattr(value, "shape"):
        return f"a {kind.__module__}.{kind.__qualname__}"
    try:
        text = builtins.repr(value)
    except Exception:  # noqa: BLE001  # whatever a stranger's object raises
        text = f"a {kind.__qualname__}"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
