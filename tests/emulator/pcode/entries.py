"""AMD's entries by mnemonic, corrected and compiled; and those that are not evaluated, with the reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

from emulator.pcode import functions
from emulator.pcode.corrections import BY_MNEMONIC
from emulator.pcode.frame import Frame
from emulator.pcode.lexer import PcodeError
from emulator.pcode.statements import program
from emulator.pcode.values import FLOATS, Value, unsigned

#: Prefixes of entries whose text is a sentence, a picture or a machine that one instruction alone does not show.
NOT_EVALUATED: Final[Mapping[str, str]] = {
    "V_MFMA_": "the text is a formula in words; test_matrix has an exact reference of its own",
    "V_SMFMAC_": "the text is a formula in words; test_matrix has an exact reference of its own",
    "DS_SWIZZLE_B32": "the text is a table of FFT patterns; the modes are tested by hand in test_instructions_lanes",
    "S_WAITCNT": "prose; nothing to compare",
    "S_TRAP": "contains a sentence; enters a handler that no kernel has",
    "S_SLEEP": "examples; nothing to compare",
    "V_TRIG_PREOP_F64": "1201 bits of 2/pi: tested against 2/pi computed by Machin's formula in test_instructions_special",
}


def plain(name: str) -> str:
    return name.removesuffix("_E32").removesuffix("_E64")


@cache
def texts() -> dict[tuple[str, str], str]:
    """(encoding, mnemonic without suffix) -> corrected text. Encodings are the package's: "VOP2", "SOP1", "DS", ..."""
    from tinygrad.runtime.autogen.amd.cdna.str_pcode import PCODE

    found: dict[tuple[str, str], str] = {}
    entry: Any
    for entry, text in PCODE.items():
        name = plain(entry.name)
        correction = BY_MNEMONIC.get(name)
        found[type(entry).__name__.removesuffix("Op"), name] = correction.apply(text) if correction else text
    return found


def text_of(encoding: str, name: str) -> str | None:
    """The entry of a form: VOP3 forms of VOP1, VOP2 and VOPC opcodes often have none of their own and share that one's."""
    others = {
        "VOP3": ("VOP3", "VOP1", "VOP2", "VOPC"),
        "VOP3SD": ("VOP3SD", "VOP2"),
        "VOP2": ("VOP2", "VOP3"),
    }
    return next((texts()[e, name] for e in others.get(encoding, (encoding,)) if (e, name) in texts()), None)


def reason_not_evaluated(name: str) -> str | None:
    return next((reason for prefix, reason in NOT_EVALUATED.items() if name.startswith(prefix)), None)


@cache
def compiled(text: str) -> Callable[[Frame], None]:
    return program(text)


class _Functions(Mapping[str, Callable[[Frame, list[Value]], Value]]):
    """AMD's functions; v_min_f32 and its like are entries themselves."""

    def __init__(self) -> None:
        self.known: dict[str, Callable[[Frame, list[Value]], Value]] = {}

    def __getitem__(self, name: str) -> Callable[[Frame, list[Value]], Value]:
        if name not in self.known:
            self.known[name] = self._find(name)
        return self.known[name]

    def get(self, name: str, default: Any = None) -> Any:
        return self[name]

    def __iter__(self) -> Any:
        return iter(self.known)

    def __len__(self) -> int:
        return len(self.known)

    @staticmethod
    def _find(name: str) -> Callable[[Frame, list[Value]], Value]:
        if name in functions.NAMED or not name.startswith("v_"):
            return functions.find(name)
        every = texts()
        text = next(
            (every[e, name.upper()] for e in ("VOP1", "VOP2", "VOP3") if (e, name.upper()) in every), None
        )
        if text is None:
            raise PcodeError(f"no entry {name}")
        run = compiled(text)

        def call(frame: Frame, arguments: list[Value]) -> Value:
            values = dict(frame.values)
            for name in ("tmp", "D0"):
                values.pop(name, None)
            values |= {f"S{i}": one for i, one in enumerate(arguments)} | {
                "D0": unsigned(0, arguments[0].width)
            }
            inner = Frame(values, frame.mode, frame.fnuz, functions=frame.functions, written={"D0": 0})
            run(inner)
            result, seen = inner.values["D0"], inner.views.get("D0", "")
            kind = seen if seen in FLOATS else seen[:1] or result.kind
            width = int(seen[1:] if kind != seen else FLOATS[kind].bits) if seen else result.width
            return Value(kind, width, result.bits & ((1 << width) - 1), nans=result.nans)

        return call


FUNCTIONS: Final = _Functions()
