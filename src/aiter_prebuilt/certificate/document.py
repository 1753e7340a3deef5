"""The certificate: plain data that grows, is written whole or not at all, and is continued by the next run."""

from __future__ import annotations

import hashlib
import json
import os
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from aiter_prebuilt.bundles import opening
from aiter_prebuilt.certificate import ceilings
from aiter_prebuilt.certificate.anonymous import site_words, without_site
from aiter_prebuilt.certificate.golden_calls import is_left_out, product
from aiter_prebuilt.certificate.page import page
from aiter_prebuilt.contract.version import VERSION
from aiter_prebuilt.errors import ArgumentError
from aiter_prebuilt.execute.run import EDITION, embedded, own_state

if TYPE_CHECKING:
    from aiter_prebuilt.certificate.golden_calls import Golden
    from aiter_prebuilt.devices.device import DeviceFacts

#: Of ``schemas/certify.json``; the version that every document of a verb has.
_VERSION: Final = 1
_NAME: Final = "certify.json"
_PAGE: Final = "certify.html"
_DIGEST: Final = 16
RIGHT: Final = "right"
WRONG: Final = "wrong"
INCOMPLETE: Final = "incomplete"


@dataclass(slots=True)
class Certificate:
    """The state of one certificate. ``card`` and ``bundles`` say what it is about; a file is continued where they are the same.

    ``lines``: golden calls that were executed; ``measured``: name -> what ``ceilings.measure`` said of it.
    """

    folder: Path
    card: dict[str, Any]
    bundles: list[dict[str, Any]]
    golden: Golden
    operators: tuple[str, ...] = ()
    doctor: dict[str, Any] = field(default_factory=dict)
    lines: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    measured: dict[str, dict[str, Any]] = field(default_factory=dict)
    states: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0
    _words: dict[str, str] = field(default_factory=site_words)

    @property
    def calls_left(self) -> list[Any]:
        """Golden calls that have no line yet."""
        return [each for each in self.golden.calls if (each.operator, each.label) not in self.lines]

    @property
    def measures_left(self) -> list[str]:
        """Names of what is not measured yet."""
        return [name for name in ceilings.names() if name not in self.measured]

    def add(self, line: dict[str, Any]) -> None:
        """Keep the line of a golden call."""
        self.lines[line["operator"], line["label"]] = line

    @property
    def wrong(self) -> list[str]:
        """Say what is wrong, a sentence each."""
        found = [
            f"{line['operator']} {line['label']}: {'; '.join(line['problems']) or 'nothing was compared'}"
            for line in self.lines.values()
            if (line["problems"] or line["worst"] is None) and not is_left_out(line, self.golden.lacking)
        ]
        found += [f"{name}: no golden call of it is installed" for name in self.golden.missing]
        found += self.golden.problems
        return found + [f"{name}: {row['problem']}" for name, row in self.measured.items() if row["problem"]]

    @property
    def not_done(self) -> list[str]:
        """Say what is left, a phrase each."""
        calls = len(self.calls_left)
        found = [f"{calls} of {len(self.golden.calls)} golden calls"] if calls else []
        if self.operators:
            found.append(f"golden calls of other operators than {', '.join(self.operators)}")
        return found + [f"measuring {name}" for name in self.measures_left]

    @property
    def verdict(self) -> str:
        """``right``, ``wrong``, or ``incomplete``: nothing was wrong, and something was not done."""
        return WRONG if self.wrong else INCOMPLETE if self.not_done else RIGHT

    def as_json(self) -> dict[str, Any]:
        """Return the document, without names of the site (``schemas/certify.json``)."""
        lines = list(self.lines.values())
        out = [line for line in lines if is_left_out(line, self.golden.lacking)]
        found = {
            "verdict": self.verdict,
            "date": time.strftime("%Y-%m-%d", time.gmtime()),
            "seconds": round(self.seconds, 1),
            "card": {**self.card, "states": self.states},
            "bundles": self.bundles,
            "doctor": self.doctor,
            "golden": {
                "edition": EDITION,
                "total": len(self.golden.calls),
                "lines": [line for line in lines if line not in out],
                "left_out": out,
                "own_trees": self.golden.trees,
            },
            "measured": [
                {"name": name, **self.measured[name]} for name in ceilings.names() if name in self.measured
            ],
            "wrong": self.wrong,
            "not_done": self.not_done,
        }  # fmt: skip
        clean: dict[str, Any] = without_site(found, self._words)
        return {"version": _VERSION, "verb": "certify", **clean}

    def write(self) -> None:
        """Write document and page, each whole or not at all.

        Raises:
            ArgumentError: the folder cannot be written.
        """
        document = self.as_json()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            _replace(self.folder / _PAGE, page(document))
            _replace(self.folder / _NAME, json.dumps(document, indent=1))
        except OSError as error:
            raise ArgumentError(
                "certify",
                f"{self.folder} cannot be written: {error.strerror}",
                "Name another folder: --output FOLDER",
            ) from error

    @property
    def files(self) -> tuple[Path, Path]:
        """Document and page."""
        return self.folder / _NAME, self.folder / _PAGE

    def resume(self) -> int:
        """Take over what an earlier run wrote about the same card and bundles.

        Returns:
            How many golden calls and measurements are done.

        Raises:
            ArgumentError: the file is no certificate, or one of another card, driver or bundle.
        """
        path = self.folder / _NAME
        try:
            before = json.loads(path.read_text(encoding="utf-8"))
            card = {key: before["card"][key] for key in self.card}
            lines = [*before["golden"]["lines"], *before["golden"]["left_out"]]
            measured = {
                row["name"]: {"found": row["found"], "problem": row["problem"]} for row in before["measured"]
            }
            bundles, seconds, states = before["bundles"], float(before["seconds"]), before["card"]["states"]
        except FileNotFoundError:
            return 0
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            raise _no_certificate(
                path, f"it is no certificate that can be continued ({type(error).__name__})"
            ) from error
        differ = next((key for key in self.card if card[key] != self.card[key]), "")
        if differ:
            raise _no_certificate(path, f"its {differ} is {card[differ]}, and here is {self.card[differ]}")
        if bundles != self.bundles:
            raise _no_certificate(path, "it is about other bundles than those installed here")
        for line in lines:
            self.add(line)
        self.measured, self.seconds, self.states = measured, seconds, states
        return len(self.lines) + len(self.measured)


def _no_certificate(path: Path, found: str) -> ArgumentError:
    return ArgumentError(f"certify: go on with {path}", found, "Name another folder: --output FOLDER")


def _replace(path: Path, text: str) -> None:
    beside = path.with_suffix(f".{os.getpid()}.part")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)


def card_of(facts: DeviceFacts, path: str) -> dict[str, Any]:
    """Describe a card: what the driver says of it, and nothing that tells it from another of its kind.

    Args:
        facts: the device.
        path: of its driver.
    """
    kept = {
        key: value for key, value in asdict(facts).items() if key not in ("ordinal", "features", "vendor")
    }
    return {**kept, "embedded": embedded(path), "runtime": VERSION, "state": own_state()}


def bundles_of(facts: DeviceFacts) -> list[dict[str, Any]]:
    """Describe the product's bundles that serve a device; a header has the hashes of all else of its file."""
    found = []
    for each in product(facts):
        read = opening.open_bundle(each)
        digest = hashlib.sha256(read.header).hexdigest()[:_DIGEST]
        found.append({
            "target": each.target, "profile": each.profile, "release": read.version, "operators": len(read.names),
            "digest": digest,
        })  # fmt: skip
    return found
