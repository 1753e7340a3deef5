"""Write ``docs/peers.md``: the totals, the reasons grouped over all rows, and the figures of each row."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

OUTCOMES: Final = (
    "right", "failed", "refused", "not replaced", "triton", "not built", "slow", "other", "no comparison", "no kernel",
    "own error",
)  # fmt: skip
#: Outcomes of names that we do not replace: AITER's own kernels run there, or the tested project's.
THEIRS: Final = ("not replaced", "triton", "not built")
#: Outcomes that no machine can turn into a right result.
UNJUDGED: Final = ("no comparison", "no kernel", "own error")
#: Longest reason on the page, in characters. The table keeps the whole text.
LONGEST: Final = 110
#: Row names that one line of reasons lists.
NAMED: Final = 3

INTRODUCTION: Final = """\
# Other projects' tests

`nox -s peers` runs AITER's `op_tests` under the bridge on the emulator. The bridge is strict: it never lets AITER
compile. AITER runs without FlyDSL. `AITER_DIR` names the checkout. `ci/peers.toml` holds the small shapes. The session fails
if a row has fewer right cases than the table of the same checkout, `tests/data/peers.json`.

The same session runs kernel tests of other projects, with unchanged tests and from the sources alone. `ci/peer_projects.toml` has
their files. vLLM's tests call AITER under the bridge. Triton's compile kernels with its own AMD backend. SGLang has no rows: its
releases do not contain its kernel tests.

| checkout | variables | what its rows need |
|---|---|---|
| AITER | `AITER_DIR` | a checkout |
| vLLM | `VLLM_DIR`, `VLLM_PACKAGES`, `AITER_DIR` | a checkout, and a folder with `requirements/common.txt`; no build |
| Triton | `TRITON_DIR`, `TRITON_PACKAGES` | a checkout, and a folder with the Triton of its release |

| outcome | meaning |
|---|---|
| right | The case launched a kernel and then compared something. Every comparison and assertion of the test holds. |
| failed | A comparison or an assertion of the test does not hold. |
| refused | Our function does not accept an argument, and names it. |
| not replaced | We have no function for the name. AITER would compile its own kernel. |
| triton | A Triton kernel for which no data wheel is installed. |
| not built | The case calls a compiled extension of its own project, which a checkout without a build lacks. |
| slow | The case took longer than a case may on the emulator. |
| other | Any other error. |
| no comparison | The case launched kernels, and compared nothing. |
| no kernel | The case passed, and launched no kernel. Or it launches none on any machine (1). |
| own error | The test asks AITER for a name that is nowhere in the sources of its own checkout. Or no machine passes it (1). |

(1) `ci/peers.toml` has the evidence.

A test's comparisons are AITER's `checkAllclose` with its tolerance, `torch.allclose`, `torch.equal`, `assert_close`, each
`assert`, and each verdict in a row that the test returns, or the bool that it returns. Some tests only print such a result. It
counts here all the same. A file that judges at its end what its cases return has compared them all; `ci/peers.toml` names such
files.
"""


@dataclass(frozen=True)
class Explanation:
    """One sentence of ``ci/peers.toml`` for the reasons that it matches."""

    match: re.Pattern[str]
    says: str
    #: Rows that it is for.
    rows: re.Pattern[str]


@dataclass
class Group:
    """Cases of several rows that have one reason."""

    outcome: str
    says: str
    cases: int = 0
    rows: set[str] = field(default_factory=set)


def explanations(entries: list[dict[str, Any]]) -> list[Explanation]:
    """Read the ``[[explained]]`` entries of ``ci/peers.toml``."""
    return [
        Explanation(re.compile(entry["match"]), entry["says"], re.compile(entry.get("rows", "")))
        for entry in entries
    ]


def explained(row: str, outcome: str, text: str, known: list[Explanation]) -> Explanation | None:
    """Find the first explanation of a reason.

    Args:
        row: name of the row, with its target.
        outcome: one of :data:`OUTCOMES`.
        text: the whole reason, as the table keeps it.
        known: the explanations, in order.
    """
    found = (each for each in known if each.rows.match(row) and each.match.search(f"{outcome}: {text}"))
    return next(found, None)


#: A whole reason -> its first clause. The first pattern that matches is used.
_SHORT: Final = (
    (r"CompileRefusedError: (?:Cannot )?call (\w+): AITER would compile \w+ now, because there is no function of ours.*", r"\1"),
    (r"CompileRefusedError: (?:Cannot )?call (\w+): AITER would compile \w+ now, because (.*?)(?:\. Unset.*|$)", r"\1: \2"),
    (r"CompileRefusedError: (?:Cannot )?launch (?:\w+\.)*(\w+): Triton would.*", r"\1"),
    (r"CompileRefusedError: (?:Cannot )?launch (?:\w+\.)*(\w+):.*", r"\1"),
    (r"\w+Error: (\w+): argument (\w+): its type is (\w+), the signature says.*", r"\1: type \3 for argument \2"),
    (r"\w+Error: (\w+): (\w+) must be [^.]*, got (\w+)\. Convert.*", r"\1: type \3 for argument \2"),
    (r"\w+Error: (\w+: \w+ must be contiguous).*", r"\1"),
    (r"UnsupportedError: (\w+\([^)]*\)): no prebuilt kernel covers it.*", r"\1"),
    (r"UnsupportedError: (\w+\([^)]*\)): (?:argument \w+ asks for|\w+ requires) a gradient.*", r"\1"),
    (r"\w+Error: (\w+: argument \w+: [^.:]*)[.:].*", r"\1"),
    (r"NoKernelError: (\w+): (?:no kernel takes this call: )?all \d+ candidates were refused\. [^/]*/ (.*)", r"\1: \2"),
    (r"checkAllclose: .*", "a comparison of the test lies outside its tolerance"),
    (r"TimeUp.*", "the case took too long"),
    (r"AttributeError: (module '[\w.]+' has no attribute '\w+').*", r"\1"),
    (r"(?:Arg\w*|NoKernel|Unsupported)Error: (.*)", r"\1"),
)  # fmt: skip


def short(text: str) -> str:
    """Return one plain line of at most :data:`LONGEST` characters for a whole reason."""
    for pattern, instead in _SHORT:
        found = re.match(pattern, text)
        if found:
            text = found.expand(instead)
            break
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else text[: LONGEST - 4].rstrip() + " ..."


def groups(rows: dict[str, Any], known: list[Explanation]) -> list[Group]:
    """Group the reasons of all rows, the most frequent first."""
    found: dict[tuple[str, str], Group] = {}
    for row, figures in rows.items():
        for count, outcome, text in figures["reasons"]:
            reason = explained(row, outcome, text, known)
            says = reason.says if reason else short(text)
            group = found.setdefault((outcome, says), Group(outcome, says))
            group.cases += count
            group.rows.add(row)
    return sorted(found.values(), key=lambda group: (-group.cases, group.outcome, group.says))


def totals(rows: dict[str, Any]) -> Counter[str]:
    """Add up the outcomes of all rows.

    Returns:
        the outcomes, ``cases``, ``possible``: the cases that a card of AMD's could pass, and ``ours``: those of names that we
        replace.
    """
    total: Counter[str] = Counter()
    for figures in rows.values():
        total.update({name: figures.get(name, 0) for name in ("cases", *OUTCOMES)})
    total["possible"] = total["cases"] - sum(total[name] for name in UNJUDGED)
    total["ours"] = total["possible"] - sum(total[name] for name in THEIRS)
    return total


def _rows_of(group: Group) -> str:
    """Name at most :data:`NAMED` rows of a group, without their targets."""
    names = sorted({row.partition(":")[2] or row for row in (each.rpartition(".")[0] for each in group.rows)})
    rest = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f", {rest} more" if rest > 0 else "")


def _cell(text: str) -> str:
    """Escape a text for a cell."""
    return text.replace("|", "\\|")


def _share(part: int, whole: int) -> str:
    """Return a part in percent."""
    return f"{100 * part / whole:.1f} %" if whole else ""


def _summary(trees: dict[str, Any]) -> list[str]:
    """Return the table of totals, a line for each checkout.

    A project that calls AITER has AITER's commit in brackets.
    """
    lines = [
        "## Totals", "",
        "*Possible* cases are those that a card of AMD's could pass: all except *no comparison*, *no kernel* and *own error*.",
        "*Ours* are the possible cases of names that we replace. They leave out *not replaced*, *triton* and *not built*.", "",
        "| checkout | rows | cases | right | possible | right of possible | ours | right of ours |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]  # fmt: skip
    for tree in trees.values():
        total = totals(tree["rows"])
        right, possible, ours = (total[each] for each in ("right", "possible", "ours"))
        figures = (right, possible, _share(right, possible), ours, _share(right, ours))
        cells = (titled(tree["source"]), len(tree["rows"]), total["cases"], *figures)
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return lines


def titled(source: dict[str, str]) -> str:
    """Name a checkout: its project and commit, and the AITER that its tests call."""
    called = f" (AITER {source['aiter']})" if "aiter" in source else ""
    return f"{source['project']} {source['commit']}{called}"


def _tree(source: dict[str, str], rows: dict[str, Any], known: list[Explanation]) -> list[str]:
    """Return the reasons and the figures of one checkout."""
    name = f"{source['project']} {source['commit']}"
    lines = ["", f"## {name}: what is missing, most frequent first", "",
             "| cases | outcome | what | rows |", "|---:|---|---|---|"]  # fmt: skip
    lines += [
        f"| {group.cases} | {group.outcome} | {_cell(group.says)} | {_rows_of(group)} |"
        for group in groups(rows, known)
    ]
    lines += ["", f"## {name}: each row", "",
              f"| row | cases | {' | '.join(OUTCOMES)} |", "|---|" + "---:|" * (len(OUTCOMES) + 1)]  # fmt: skip
    for row, figures in rows.items():
        cells = " | ".join(str(figures.get(each, "")) for each in OUTCOMES)
        lines.append(
            f"| {row.partition(':')[2] or row}{' *' if figures['end'] else ''} | {figures['cases']} | {cells} |"
        )
    early = {row: figures["end"] for row, figures in rows.items() if figures["end"]}
    if early:
        lines += ["", "The rows with a * ended before the last case:", ""]
        lines += [
            f"- {row.partition(':')[2] or row}: {_ending(row, end, known)}" for row, end in early.items()
        ]
    return lines


def _ending(row: str, end: str, known: list[Explanation]) -> str:
    """Return one line for the end of a row."""
    reason = explained(row, "ended", end, known)
    return reason.says if reason else short(end.partition(": ")[2] or end)


def page(table: dict[str, Any], entries: list[dict[str, Any]]) -> str:
    """Return the page of the table.

    Args:
        table: ``tests/data/peers.json``.
        entries: the ``[[explained]]`` entries of ``ci/peers.toml``.
    """
    known = explanations(entries)
    lines = [INTRODUCTION, *_summary(table["trees"])]
    for tree in table["trees"].values():
        lines += _tree(tree["source"], tree["rows"], known)
    return "\n".join([*lines, ""])
