"""Resolve shared parts of kernels.

``like``, ``use``, ``on`` and ``more`` become plain kernels, one for each target that differs.

A kernel that lets its compiler assume something (``assume``) may only be launched where it holds: the conditions that say so
are written here, so that no manifest says one fact twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pydantic import ValidationError

from build_tools.manifest.model import Assume, FamilyText, Kernel, KernelPart, KernelText, OperatorText, Use
from build_tools.manifest.problems import Problems, suggestion

#: Tables that are joined key by key; of every other key the later one replaces the earlier.
_JOINED: Final = ("constants", "types", "variants", "on", "let", "slack", "sets")
#: Keys that hold expressions, here and in steps.
_EXPRESSIONS: Final = ("when", "cost", "workspace", "grid", "block", "lds", "args", "excluded", "only_if")
#: Keys of a launch that a kernel of several steps may say once for all of them.
_PER_LAUNCH: Final = ("grid", "block", "lds", "slot")
_Keys = dict[str, Any]


def kernels_of(
    operator: OperatorText, own: str, families: Mapping[str, FamilyText], problems: Problems
) -> tuple[Kernel, ...]:
    """Return the kernels of ``operator``, of the family ``own``, in its order.

    What is wrong goes to ``problems``, at its place.
    """
    made: list[Kernel] = []
    seen: set[str] = set()
    for place, entry in enumerate(operator.kernels):
        family, _, name = (entry.use if isinstance(entry, Use) else entry).rpartition("/")
        with problems.at("kernels", place):
            if family and family not in families:
                problems.add(f"{family!r} is not a family{suggestion(family, families)}")
                continue
            shared = families[family or own].kernels
            if name in seen:
                problems.add(f"kernel {name!r} stands here twice")
            elif name not in shared:
                whose = f"of {family}" if family else "of this file"
                problems.add(f"{name!r} is not a kernel {whose}{suggestion(name, shared)}")
            else:
                found = _one(name, entry, shared, {*operator.arguments, *operator.returns}, problems)
                if family and any(kernel.slack for kernel in found):
                    # A receipt's digest has the slack of the kernels of its own family's file.
                    problems.add(
                        f"{name!r} reads behind its tensors: such a kernel serves its own family alone"
                    )
                made += found
        seen.add(name)
    return tuple(made)


def _one(
    name: str, entry: str | Use, shared: Mapping[str, KernelText], tensors: set[str], problems: Problems
) -> list[Kernel]:
    keys = _inherited(name, shared, (), problems)
    taken: list[str] | None = None
    if isinstance(entry, Use):
        taken = entry.targets
        for target in taken or ():
            if target not in (keys.get("targets") or ()):
                problems.add(f"{target!r} is not one of the targets of {name!r}", "targets")
        keys = _over(keys, _given(entry, {"use"}))
    per_target: dict[str, _Keys] = keys.pop("on", {})
    if taken is not None:
        per_target = {target: part for target, part in per_target.items() if target in taken}
    targets: list[str] = keys.get("targets", [])
    for target in per_target:
        if target not in targets:
            problems.add(f"{target!r} is not one of its targets ({', '.join(targets)})", "on")
    common = [target for target in targets if target not in per_target]
    groups = [(common, keys)] if common else []
    groups += [([target], _over(keys, per_target[target])) for target in targets if target in per_target]
    kernels = [
        _kernel(name, {**group, "targets": names}, tensors, problems)
        for names, group in groups or [([], keys)]
    ]
    return [kernel for kernel in kernels if kernel is not None]


def _inherited(
    name: str, shared: Mapping[str, KernelText], trail: tuple[str, ...], problems: Problems
) -> _Keys:
    text = shared[name]
    own = _given(text, {"like"})
    if text.like is None:
        return _over({}, own)
    if text.like not in shared:
        problems.add(f"{text.like!r} is not a kernel of this file{suggestion(text.like, shared)}", "like")
        return own
    if text.like in (*trail, name):
        problems.add(f"{' -> '.join((*trail, name, text.like))}: a kernel that is like itself", "like")
        return own
    return _over(_inherited(text.like, shared, (*trail, name), problems), own)


def _given(record: KernelPart, left_out: set[str]) -> _Keys:
    """Return the keys that were written, records as tables."""
    return record.model_dump(exclude_unset=True, exclude=left_out)


def _over(below: _Keys, above: _Keys) -> _Keys:
    """``above`` laid over ``below``; ``more`` appends to the lists that come out."""
    joined = {**below, **above}
    for key in _JOINED:
        if below.get(key) and above.get(key):  # an empty table leaves nothing of what was below
            joined[key] = {**below[key], **above[key]}
    for key, words in (joined.pop("more", None) or {}).items():
        joined[key] = [*(joined.get(key) or []), *words]
    return joined


def _kernel(name: str, keys: _Keys, tensors: set[str], problems: Problems) -> Kernel | None:
    for key in ("backend", "targets", "source"):
        if not keys.get(key):
            problems.add("is missing, here and in what it is like", key)
    named: dict[str, str] = {}
    for word, text in (keys.pop("let", None) or {}).items():
        named[word] = f"({_written_out(text, named)})"  # a later name may use the earlier ones
    _hand_down(keys)
    if measured := keys.get("measured"):
        keys["measured"] = {**measured, "equal": dict(_each(measured.get("equal") or {}, named))}
    keys = {
        key: _written_out(value, named) if key in (*_EXPRESSIONS, "steps") else value
        for key, value in keys.items()
    }
    try:
        kernel = Kernel.model_validate({**keys, "name": name})
    except ValidationError:
        return None  # its parts are right one by one: a key that is missing was said above
    implied = tuple(_implied(kernel, tensors))
    return kernel.model_copy(
        update={"when": [*kernel.when, *(text for text in implied if text not in kernel.when)]}
    )


def _hand_down(keys: _Keys) -> None:
    """Copy the kernel's launch keys to steps that lack them."""
    if keys.get("steps"):
        shared = {key: keys.pop(key) for key in _PER_LAUNCH if keys.get(key) is not None}
        keys["steps"] = [step if step.get("zero") else {**shared, **step} for step in keys["steps"]]


def _written_out(value: Any, named: Mapping[str, str]) -> Any:
    """Expressions with the names of ``let`` replaced by what they stand for; steps key by key."""
    if not named:
        return value
    if isinstance(value, dict):
        return {
            key: _written_out(part, named) if key in _EXPRESSIONS else part for key, part in value.items()
        }
    if isinstance(value, list):
        return [_written_out(part, named) for part in value]
    if not isinstance(value, str):
        return value
    return re.sub(r"\b[A-Za-z_]\w*\b", lambda match: named.get(match[0], match[0]), value)


def _each(texts: Mapping[str, str], named: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    """Columns with their expressions, written out: a column may have the name of a key."""
    return ((column, str(_written_out(text, named))) for column, text in texts.items())


def _implied(kernel: Kernel, tensors: set[str]) -> Iterable[str]:
    """Return the conditions that make what its compiles assume true.

    Addresses, then sizes.
    """
    assumptions = [
        each for each in (kernel.assume, *(step.assume for step in kernel.steps)) if each is not None
    ]
    for constant in dict.fromkeys(each.when_constant for each in assumptions):
        names = _divisible(each for each in assumptions if each.when_constant == constant)
        for texts in (
            [f"aligned({name}, 16)" for name in names if name in tensors],
            [f"{name} % 16 == 0" for name in names if name not in tensors],
        ):
            if texts:
                yield _guarded(kernel, constant, texts)


def _divisible(assumptions: Iterable[Assume]) -> list[str]:
    return list(dict.fromkeys(name for each in assumptions for name in each.divisible))


def _guarded(kernel: Kernel, constant: str | None, texts: list[str]) -> str:
    """Guard a condition by a constant.

    A constant that is always true needs no guard.
    """
    together = " and ".join(texts)
    if constant is None or kernel.constants.get(constant) in (1, True):
        return together
    return f"not {constant} or ({together})" if len(texts) > 1 else f"not {constant} or {together}"
