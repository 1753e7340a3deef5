"""Integers that an operator reads on the device, spread evenly: positions, slots, starts of sequences, pages, lengths."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, Final

from aiter_prebuilt.contract.records import DIM_BIND, ROLES
from aiter_prebuilt.errors import UnsupportedError
from aiter_prebuilt.launch import value_contracts as rules

if TYPE_CHECKING:
    from aiter_prebuilt.contract.records import Operator

_LETTERS: Final = {"i32": "i", "i64": "q", "i16": "h"}


#: Tensors that no contract is about, because any call may have them: name -> how many numbers each element is one of.
_NAMED: Final[dict[str, rules.Bound]] = {
    "topk_ids": lambda sizes: (
        sizes.E
    ),  # experts of a token's row follow each other: none twice, each as often
    "pos": lambda sizes: sizes.P,
    "positions": lambda sizes: sizes.P,
}
#: Options that say how many keys a sequence has at most: a kernel may have room for no more.
_LONGEST: Final = ("max_seqlen_k", "max_context_len", "max_model_len")
#: Operators whose lists belong together, a start and an end of each: spread alone they would say that there is nothing to do.
_PAIRED: Final = frozenset(("context_attention_fwd", "fp8_mqa_logits"))


class _Sizes:
    """The dims of a call's signature, as a rule asks for them."""

    def __init__(self, found: Mapping[str, int]) -> None:
        self._found = found

    def __getattr__(self, name: str) -> int:
        if name not in self._found:
            raise rules.UnknownSizeError(name)
        return self._found[name]


def integers(block: Operator, tensors: Sequence[Any], attributes: Sequence[Any]) -> dict[int, bytes]:
    """Return the bytes of each integer input of a described call, by its place.

    Args:
        block: the operator's records.
        tensors: as ``describe`` returns them.
        attributes: likewise.

    Raises:
        UnsupportedError: no rule says what the values of an integer input may be.
    """
    sizes: dict[str, int] = {}
    for spec, given in zip(block.tensors, tensors, strict=True):
        for dim, size in zip(spec.dims, given[2] if given else (), strict=False):
            if dim.kind == DIM_BIND:
                sizes.setdefault(block.slots[dim.slot], size)
    options = {spec.name: value for spec, value in zip(block.attributes, attributes, strict=True)}
    most = [options[name] for name in _LONGEST if options.get(name, 0) > 0]
    contract = rules.CONTRACTS.get(block.name, {})
    made: dict[int, bytes] = {}
    for place, (spec, given) in enumerate(zip(block.tensors, tensors, strict=True)):
        if given is None or ROLES[spec.role] == "out" or given[1] not in _LETTERS:
            continue
        try:
            if spec.name not in contract and spec.name in _NAMED:
                count = max(1, _NAMED[spec.name](_Sizes(sizes)))
                found = [element % count for element in range(prod(given[2]))]
            else:
                found = _values(contract[spec.name], given[2], sizes, contract, block, tensors, most)
        except (KeyError, rules.UnknownSizeError) as error:
            raise UnsupportedError(
                f"time {block.name}",
                f"the values of {spec.name} ({given[1]}) decide what it does, and the tuner cannot make them",
                "Leave the call out",
            ) from error  # fmt: skip
        made[place] = struct.pack(f"<{len(found)}{_LETTERS[given[1]]}", *found)
    return made


def _values(
    rule: rules.Rule, shape: Sequence[int], known: Mapping[str, int], contract: Mapping[str, rules.Rule], block: Operator,
    tensors: Sequence[Any], most: Sequence[int],
) -> list[int]:  # fmt: skip
    """Values that obey a rule.

    Raises:
        KeyError: the tuner has none for this rule.
    """
    sizes, count = _Sizes(known), prod(shape)
    given = {spec.name for spec, each in zip(block.tensors, tensors, strict=True) if each is not None}
    if block.name in _PAIRED:
        raise KeyError(block.name)
    match rule:
        case rules.Starts(last=last, unless=unless) if last is not None and unless not in given:
            end, parts = last(sizes), max(1, count - 1)
            return [end * place // parts for place in range(count)]
        case rules.Within(high=high) if high is not None and not rule.plus:
            return [place % (high(sizes) + 1) for place in range(count)]
        case rules.Within(high=None):
            return [min([_longest(block, tensors, contract, sizes), *most])] * count
        case rules.Pages(pages=pages):
            return [place % max(1, pages(sizes)) for place in range(count)]
        case rules.Listed(count=pages):
            return [place % max(1, pages(sizes)) for place in range(count)]
        case rules.LastPages(size=size):
            return [size(sizes)] * count
    raise KeyError(type(rule).__name__)


def _longest(block: Operator, tensors: Sequence[Any], contract: Mapping[str, rules.Rule], sizes: Any) -> int:
    """Return the keys that the pages of one sequence hold: the length of each sequence."""
    for spec, given in zip(block.tensors, tensors, strict=True):
        rule = contract.get(spec.name)
        if given is not None and isinstance(rule, rules.Pages):
            return int(given[2][-1] * rule.size(sizes))
    raise KeyError("no pages")
