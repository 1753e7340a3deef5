"""Functions around operators, remembered as the calls of operators that they end in: an eager call runs no Python between them.

A plan hangs on what it was asked with, and on nothing else: of a tensor of which only the presence counts it is not told more.
Memory that no GPU has, tensors without a framework and those of a trace have no plan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiter_prebuilt.devices import native
from aiter_prebuilt.errors import AiterPrebuiltError
from aiter_prebuilt.ops._common import NOT_A_TENSOR, _prototypes

if TYPE_CHECKING:
    from collections.abc import Callable

#: (operator, what it is given): ``(place,)`` is an argument of the function, ``(-1 - place,)`` what was made, the rest itself.
Launch = tuple[Any, tuple[Any, ...]]
#: What is made and how, the launches, and what the function returns.
Plan = tuple[tuple[Any, ...], tuple[Launch, ...], Any]


def remembered(
    function: Callable[..., Any], plan: Callable[..., Plan | None], kinds: str
) -> Callable[..., Any]:
    """Cache the plans of ``function``.

    It is called by position. torch.compile traces ``function`` in its place.

    ``plan`` gets its arguments and says what it would do, or None; ``kinds`` has a letter for each argument, as ``_native.Plans``
    says. A call that ``plan`` refuses is refused by ``function``, in its words.
    """

    def plan_or_none(*given: Any) -> Plan | None:
        try:
            return plan(*given)
        except (AiterPrebuiltError, *NOT_A_TENSOR):
            return None

    made: Callable[..., Any] = native.module().Plans(function, plan_or_none, kinds)
    return made


def plan_of(made: tuple[Any, ...], launches: tuple[Launch, ...], answer: Any) -> Plan | None:
    """Return the plan that makes the like of the tensors ``made``.

    None: it cannot be said, or somebody watches the operators.
    """
    kept = _prototypes(made)
    operator = native.module().Operator
    if kept is None or not all(isinstance(called, operator) for called, _ in launches):
        return None
    return kept, launches, answer
