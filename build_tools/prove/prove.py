"""Calls that reach unproved code objects, executed on the emulator with all checks on, and what they show, kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from aiter_prebuilt.contract.calls import Call
from build_tools.cases import table
from build_tools.cases.receipt_state import State, meanings
from build_tools.cases.subject import subjects
from build_tools.cases.table import Cases
from build_tools.errors import UsageError
from build_tools.files import progress
from build_tools.files.progress import Done
from build_tools.judge import findings, receipts
from build_tools.judge.findings import EMBEDDED_CHECKS, Finding
from build_tools.judge.receipts import Found, Receipt
from build_tools.manifest.model import SAMPLE, TUNED, Manifest
from build_tools.manifest.names import refuse_unknown
from build_tools.manifest.parse import load
from build_tools.manifest.problems import suggestion
from build_tools.objects.entries import BuiltEntry
from build_tools.prove import ready, workers
from build_tools.prove.choose import Choice, Wanted, choose
from build_tools.prove.ready import Built
from build_tools.prove.workers import Line, Place


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a proof.

    ``folders`` of bundles: the first that has the operators as they are now. No operators or targets: all (targets: those that
    the emulator can be). ``everything``: also recipes with a receipt. ``workers``: 0 is one per core. ``house``: the
    repository whose runtime and emulator execute; None: it is ``root``. ``program``: the Python program where operators
    are not the package's own.
    """

    root: Path
    folders: tuple[Path, ...]
    operators: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    everything: bool = False
    seed: int = 1
    workers: int = 0
    house: Path | None = None
    program: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProvedRow:
    """One operator on one target. ``calls``: executed now; ``worst``: of all its receipts, None when it has none."""

    operator: str
    target: str
    entries: int
    proved: int
    calls: int
    worst: float | None


@dataclass(frozen=True, slots=True)
class Proof:
    """The outcome of a proof.

    ``wrong``: lines of calls that are not right; ``unproved``: entries that have no receipt now; ``unchosen``: recipes in words
    that no call chose; ``narrow``: those whose calls show too little, which get no receipt; ``changed``: files that were written.
    """

    rows: tuple[ProvedRow, ...]
    wrong: tuple[Line, ...]
    unproved: tuple[BuiltEntry, ...]
    unchosen: tuple[str, ...]
    narrow: tuple[str, ...]
    changed: tuple[str, ...]


def prove(settings: Settings) -> Proof:
    """Execute and write receipts; what was finished when something interrupts is written, too.

    Raises:
        UsageError, ManifestError: what was asked for is not there, or cannot be made.
        NotReadyError: something is not built.
        ExecutorError: the executor ended.
    """
    manifest = load(settings.root / "manifests")
    targets = _targets(settings, manifest)
    operators = _cases(settings, manifest)
    library = ready.native_parts(settings.house or settings.root)
    built = [
        ready.open_target(manifest, settings.root, settings.folders, target, operators) for target in targets
    ]
    book = _Book(
        receipts.read(settings.root), meanings(settings.root / "manifests"), findings.read(settings.root),
        operators_in_part(manifest, built),
    )  # fmt: skip
    for one in built:
        parts = [".".join(place) for place in manifest.of_sets()] if one.sets - {TUNED} else []
        parts += [".".join(place) for place in manifest.of_other_trees(one.trees)]
        book.forget(one, operators, parts)
    try:
        for one in built:
            _prove_target(one, operators, manifest, settings, book, library)
    finally:
        changed = receipts.write(settings.root, book.known.values())
    entries = [entry for one in built for entry in one.entries if entry.operator in operators]
    holding = book.holding()
    return Proof(
        rows=tuple(book.row(name, one, holding) for one in built for name in operators),
        wrong=tuple(book.wrong),
        unproved=tuple(entry for entry in entries if not entry.proved(holding)),
        unchosen=tuple(words for one in built for words in book.unchosen(one, operators)),
        narrow=tuple(book.narrow),
        changed=changed,
    )


def operators_in_part(manifest: Manifest, built: Iterable[Built]) -> frozenset[str]:
    """Name the operators of which these bundles do not hold every instance of Composable Kernel."""
    if all(one.sets <= {TUNED} for one in built):
        return frozenset()
    return frozenset(operator for operator, _ in manifest.of_sets())


def _cases(settings: Settings, manifest: Manifest) -> dict[str, Cases]:
    """Read the cases of the requested operators.

    A family's are read as a whole, other families' are not.
    """
    known = {subject.name: subject for subject in subjects(manifest)}
    refuse_unknown("prove operators", settings.operators, known)
    names = [name for name in known if not settings.operators or name in settings.operators]
    families = {known[name].family for name in names}
    read = [subject for subject in known.values() if subject.family in families]
    found = table.load(settings.root / "manifests", read, manifest.targets)
    return {name: found[name] for name in names}


def _targets(settings: Settings, manifest: Manifest) -> list[str]:
    embedded = list(manifest.amd)
    for name in settings.targets:
        if name not in embedded:
            raise UsageError(
                f"prove what was built for {name}",
                f"the emulator is one of {', '.join(embedded)}{suggestion(name, embedded)}",
                "A card proves other targets: python ci/gpu_check.py --record FILE where it is, "
                "then python -m build_tools receipts FILE here",
            )
    return [name for name in embedded if not settings.targets or name in settings.targets]


def chosen(
    built: Built,
    operators: Mapping[str, Cases],
    manifest: Manifest,
    places: Mapping[str, Place],
    wanted: Wanted | None,
) -> Choice:
    """Choose the calls of ``operators`` to execute at ``places``.

    There is one place for each profile.
    """
    names = {
        profile: {entry.operator for entry in built.entries if entry.profile == profile} for profile in places
    }

    def explain(profile: str, calls: Iterable[Call]) -> Iterator[Line]:
        return workers.explained(places[profile], calls)

    facts = manifest.targets[built.target]
    return choose(operators.values(), built.target, facts, names, explain, wanted, built.recipes, built.trees)


def _prove_target(
    built: Built,
    operators: Mapping[str, Cases],
    manifest: Manifest,
    settings: Settings,
    book: _Book,
    library: Path,
) -> None:
    known = findings.words(book.findings, ((entry.symbol, entry.sha256) for entry in built.entries))
    places = {
        profile: Place(
            settings.house or settings.root,
            built.serving(profile),
            built.target,
            library,
            known,
            settings.program,
        )
        for profile in built.bundles
    }
    wanted = None if settings.everything else book.outdated
    choice = chosen(built, operators, manifest, places, wanted)
    if SAMPLE in built.sets:  # one instance a family need not serve every call; other sets must
        parts = {operator for operator, _ in manifest.of_sets()}
        choice.refused = [line for line in choice.refused if line["operator"] not in parts]
    lines: dict[int, Line] = {}
    try:
        with progress.show(len(choice.calls)) as display:
            for profile, place in places.items():
                mine = [at for at, call in enumerate(choice.calls) if call.profile == profile]
                makers = [partial(choice.calls[at].call, settings.seed) for at in mine]
                with closing(workers.executed(place, makers, settings.workers)) as answers:
                    for which, line, seconds in answers:
                        lines[mine[which]] = line
                        name = f"{built.target} {choice.calls[mine[which]].name}"
                        display.done(Done(name, not line["problems"], seconds))
    finally:
        # In the order of the cases, however the workers shared them: the same proof gives the same file.
        book.note([lines[at] for at in sorted(lines)], choice, built)


@dataclass(slots=True)
class _Book:
    """Receipts while they are made.

    Args:
        known: receipts by recipe.
        states: what is asked of each operator (``cases/receipt_state.py``).
        findings: what proofs pass over.
        in_part: operators of which another build makes more instances. There a recipe is chosen by fewer calls, so a receipt
            of such an operator holds whichever of its calls it is about.
        calls: (operator, target) -> how many were executed.
    """

    known: dict[str, Receipt]
    states: Mapping[State, str]
    findings: Collection[Finding]
    in_part: Collection[str] = frozenset()
    wrong: list[Line] = field(default_factory=list)
    narrow: list[str] = field(default_factory=list)
    calls: Counter[tuple[str, str]] = field(default_factory=Counter)

    def forget(self, built: Built, operators: Collection[str], in_part: Collection[str] = ()) -> None:
        """Receipts of recipes of ``operators`` that the same kind of toolchain no longer makes: nothing ships them. ``in_part``:
        kernels of which a build with more of Composable Kernel's instances makes other variants, too.
        """
        made = {(recipe.kernel, recipe.variant) for recipe in built.recipes.values()}
        kinds = {recipe.tools.get("toolchain") for recipe in built.recipes.values()}
        self.known = {
            digest: receipt
            for digest, receipt in self.known.items()
            if receipt.target != built.target
            or receipt.operator not in operators
            or digest in built.recipes
            or (receipt.kernel in in_part and (receipt.kernel, receipt.variant) not in made)
            or receipt.tools.get("toolchain") not in kinds
        }

    def holding(self) -> Mapping[str, Receipt]:
        """Return the receipts whose state is unchanged."""
        return receipts.holding(self.known, self.states, self.findings)

    def outdated(self, labels: Mapping[str, Collection[str]]) -> Iterator[str]:
        """Name the recipes that need a receipt: they have none, or one about other calls than would launch them now."""
        holding = self.holding()
        for digest, calls in labels.items():
            receipt = holding.get(digest)
            if receipt is None or (
                receipt.operator not in self.in_part and receipt.cases != receipts.named(calls)
            ):
                yield digest

    def note(self, lines: Sequence[Line], choice: Choice, built: Built) -> None:
        """Keep the receipts of the executor's lines.

        Recipes are left out that unfinished calls choose, too, or whose calls show too little.
        """
        found = receipts.collect(lines, EMBEDDED_CHECKS, built.recipes, choice.names)
        narrow = choice.walked.unshared() | choice.walked.narrow()
        narrow |= choice.walked.unnoticed(found.receipts.keys() - narrow.keys())
        self.narrow += [f"{built.target} {words}" for words in sorted(narrow.values())]
        self.narrow += [f"{built.target} {words}" for words in choice.walked.needless()]
        holding = self.holding()
        whole = {
            digest: replace(receipt, checks=findings.checks(self.findings, receipt.code_objects))
            for digest, receipt in found.receipts.items()
            if digest not in narrow
            and receipt.cases == receipts.named(choice.labels.get(digest, ()))
            and not (receipt.operator in self.in_part and digest in holding)
        }
        unchosen = {
            digest
            for digest, recipe in built.recipes.items()
            if recipe.operator in choice.operators and digest not in choice.labels
        }
        known = {
            digest: receipt
            for digest, receipt in self.known.items()
            if digest not in narrow and digest not in unchosen
        }
        self.known = receipts.merged(known, Found(whole, found.wrong))
        self.wrong += [line for line in lines if line["problems"]] + choice.refused
        self.calls.update((line["operator"], built.target) for line in lines)

    def unchosen(self, built: Built, operators: Collection[str]) -> Iterator[str]:
        """Recipes of ``operators`` without a receipt that no wrong call chose either."""
        holding = self.holding()
        tried = {digest for line in self.wrong for digest in line["recipes"]}
        broken = {digest for line in self.wrong for digest in line["launched"]}
        for digest, recipe in built.recipes.items():
            mine = recipe.operator in operators
            if mine and digest not in holding and digest not in tried and not recipe.code_objects & broken:
                yield f"{built.target} {recipe.kernel}[{recipe.variant}]"

    def row(self, operator: str, built: Built, known: Mapping[str, Receipt]) -> ProvedRow:
        """Summarise an operator on a target.

        ``known``: the receipts that hold.
        """
        mine = [entry for entry in built.entries if entry.operator == operator]
        worst = max(
            (known[digest].worst for entry in mine for digest in entry.recipes if digest in known),
            default=None,
        )
        proved = sum(entry.proved(known) for entry in mine)
        return ProvedRow(operator, built.target, len(mine), proved, self.calls[operator, built.target], worst)
