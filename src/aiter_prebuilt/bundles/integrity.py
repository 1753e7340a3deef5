"""Check an installed bundle, all of it: hashes, ELF, target, descriptor, argument layout against the recipes.

Pure reading: needs no driver and no GPU, and executes nothing. Every problem is reported, not only the first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from aiter_prebuilt.bundles.elf import read
from aiter_prebuilt.bundles.files import contents, open_file
from aiter_prebuilt.bundles.installed_bundle import InstalledBundle
from aiter_prebuilt.bundles.kernel_image import Image, KernelImage
from aiter_prebuilt.bundles.opening import decompress
from aiter_prebuilt.contract import calls
from aiter_prebuilt.contract.bundle import Bundle, FormatError
from aiter_prebuilt.contract.elf import ElfError
from aiter_prebuilt.contract.receipt import was_executed
from aiter_prebuilt.contract.records import Entry, Operator, Step
from aiter_prebuilt.contract.structs import fields_of


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem of one bundle; ``entry`` is empty for the bundle as a whole."""

    bundle: str
    entry: str
    problem: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """Findings of one bundle's verification.

    Sizes are in bytes.
    """

    path: str
    target: str
    profile: str
    operators: int
    entries: int
    code_objects: int
    executed: int
    size: int
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """True when nothing is wrong."""
        return not self.findings


def verify(installed: InstalledBundle) -> Verdict:
    """Check every entry of one bundle."""
    path = Path(installed.path)
    name = path.name
    try:
        data = contents(path)
        bundle = Bundle(data, decompress)
    except (OSError, FormatError) as error:
        finding = Finding(name, "", str(error))
        return Verdict(installed.path, installed.target, installed.profile, 0, 0, 0, 0, 0, (finding,))
    findings: list[Finding] = []
    if (bundle.root.target, bundle.root.profile) != (installed.target, installed.profile):
        findings.append(Finding(name, "", f"its content is for {bundle.root.target} ({bundle.root.profile})"))
    images = _Images(bundle)
    seen: set[int] = set()
    entries = executed = 0
    for operator_name in bundle.names:
        try:
            operator = bundle.operator(operator_name)
        except FormatError as error:
            findings.append(Finding(name, "", str(error)))
            continue
        steps = _steps(operator)
        for index, entry in enumerate(operator.entries):
            entries += 1
            seen.add(entry.code_object)
            executed += was_executed(entry)
            findings += [
                Finding(name, entry.name, text) for text in _check_entry(bundle, images, steps[index], entry)
            ]
    findings += [Finding(name, "", text) for text in _check_parts(bundle, len(data))]
    findings += [Finding(name, "", text) for text in _check_calls(installed)]
    unused = bundle.root.code_object_count - len(seen)
    if unused > 0:
        findings.append(Finding(name, "", f"{unused} code objects belong to no entry"))
    root = bundle.root
    return Verdict(
        installed.path, root.target, root.profile, len(bundle.names), entries, root.code_object_count, executed, len(data),
        tuple(findings),
    )  # fmt: skip


def _check_calls(installed: InstalledBundle) -> Iterator[str]:
    """Check that the golden calls can be read.

    ``--execute`` asks whether there are any: a bundle may come without its wheel.
    """
    path = Path(installed.calls)
    try:
        with open_file(path) as stream:
            if not sum(1 for _ in calls.read(stream, decompress)):
                yield f"{path.name}: there is no call in it"
    except FileNotFoundError:
        return
    except (OSError, calls.CallsError) as error:
        yield f"{path.name}: {error}"


def _check_parts(bundle: Bundle, size: int) -> Iterator[str]:
    """Check that the parts follow one another and fill the file.

    Every byte of a bundle is accounted for.
    """
    end = 0
    try:
        for name, start, length in bundle.parts():
            if start != end:
                yield f"{name} begins at byte {start}, what is before it ends at {end}"
            end = start + length
    except FormatError as error:
        yield str(error)
        return
    if end != size:
        yield f"bytes {end} to {size} belong to nothing"


class _Images:
    """The code objects of a bundle, each read once, however many entries name it."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self._known: dict[tuple[int, bytes], Image | str] = {}

    def of(self, entry: Entry) -> Image | str:
        """Read an entry's code object, or say why it is unreadable."""
        key = (entry.code_object, entry.sha256)
        if key not in self._known:
            try:
                self._known[key] = read(self._bundle.code_object(entry))
            except (FormatError, ElfError) as error:
                self._known[key] = str(error)
        return self._known[key]


def _steps(operator: Operator) -> defaultdict[int, list[tuple[str, Step]]]:
    """For each entry, the (variant, step) that launch it."""
    found: defaultdict[int, list[tuple[str, Step]]] = defaultdict(list)
    for recipe in operator.recipes:
        for step in recipe.steps:
            found[step.entry].append((recipe.variant, step))
    return found


def _check_entry(
    bundle: Bundle, images: _Images, steps: Sequence[tuple[str, Step]], entry: Entry
) -> Iterator[str]:
    image = images.of(entry)
    if isinstance(image, str):
        yield image
        return
    if image.target != bundle.root.target:
        yield f"the code object is for {image.target}, the bundle for {bundle.root.target}"
    kernel = image.by_symbol.get(entry.symbol)
    if kernel is None:
        yield f"the code object has no kernel {entry.symbol!r}"
        return
    yield from _check_kernel(kernel, bundle, image, entry)
    for variant, step in steps:
        yield from _check_step(step, kernel, variant)


def _check_kernel(kernel: KernelImage, bundle: Bundle, image: Image, entry: Entry) -> Iterator[str]:
    if kernel.wave != bundle.root.wave:
        yield f"kernel {kernel.symbol!r} has waves of {kernel.wave} lanes, {image.target} has {bundle.root.wave}"
    if kernel.kernarg_size != entry.kernarg_size:
        yield f"kernarg size {kernel.kernarg_size}, recorded {entry.kernarg_size}"
    if kernel.lds_static > bundle.root.lds_bytes:
        yield f"{kernel.lds_static} bytes of LDS, the target has {bundle.root.lds_bytes}"


def _check_step(step: Step, kernel: KernelImage, variant: str) -> Iterator[str]:
    planned = [(arg.offset, arg.size) for arg in step.args]
    unread = kernel.padding.difference(arg.offset for arg in step.args)
    # Some of AITER's objects list a pointer as its lower half, and padding where its upper one lies.
    upper = {offset for offset, size, _ in kernel.args if size == 4 and offset in unread}
    halves = {offset for offset, size in planned if size == 8 and offset + 4 in upper}
    actual = [
        place
        for offset, size, kind in kernel.args
        if offset not in unread
        for place in (kind == "by_value" and fields_of((offset, size), planned))
        or [(offset, 8 if size == 4 and offset in halves else size)]
    ]
    if planned != actual:
        yield f"variant {variant}: arguments (offset, size) {actual} in the code object, {planned} in the recipe"
    threads = step.block_x * step.block_y * step.block_z
    if threads > kernel.max_threads:
        yield f"variant {variant}: {threads} threads a workgroup, the kernel allows {kernel.max_threads}"
