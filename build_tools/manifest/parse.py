"""Read ``manifests/``: TOML to records, all problems of all files reported at once."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from build_tools.errors import ManifestError
from build_tools.files.regular import read_regular
from build_tools.manifest.catalogue import completed
from build_tools.manifest.model import Catalogue, Family, FamilyText, Manifest, Profile, Target
from build_tools.manifest.names import family_problem
from build_tools.manifest.operators import family_of
from build_tools.manifest.problems import Problems, suggestion
from build_tools.records import in_tree

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

M = TypeVar("M", bound=BaseModel)
Context = dict[str, set[str]]
#: The file of a family's folder that says its operators.
OPERATORS: Final = "operators.toml"
#: Bytes of a manifest; the largest here has a fifth of that.
MOST: Final = 1 << 20
#: Characters of a line. A key with a hundred thousand dots stands on one line and takes tomllib gigabytes.
MOST_LINE: Final = 8192


def load(folder: Path) -> Manifest:
    """All manifests of ``folder``, structure and names checked (expressions are checked by the plan).

    Raises:
        ManifestError: with every problem found, each with file and path.
    """
    problems = Problems()
    manifest = read(folder, problems)
    if problems.lines or manifest is None:
        raise ManifestError(problems.lines)
    return manifest


def read(folder: Path, problems: Problems) -> Manifest | None:
    """Read the manifests and collect their problems.

    As :func:`load`, but problems are added to ``problems`` and None is returned when there is no usable result.
    """
    targets = _table(folder, "targets.toml", Target, problems)
    context = {"targets": set(targets)} if targets is not None else {}
    profiles = _table(folder, "profiles.toml", Profile, problems, context)
    catalogue = _file(folder, "catalogue.toml", Catalogue, problems)
    texts: dict[str, FamilyText] = {}
    families: dict[str, Family] = {}
    files: dict[str, str] = {}
    for path in sorted(folder.glob(f"*/{OPERATORS}")):
        name = path.parent.name
        text = _file(folder, f"{name}/{OPERATORS}", FamilyText, problems, context)
        if text is None:
            continue
        files[name] = f"{folder.name}/{name}/{OPERATORS}"
        texts[name] = text
    for name in texts:
        with problems.file(files[name]):
            problem = family_problem(name)
            if problem is not None:
                problems.add(problem)
            families[name] = family_of(name, texts, problems)
    if targets is None or profiles is None or catalogue is None:
        return None
    manifest = Manifest.model_construct(
        targets=targets,
        profiles=profiles,
        families=families,
        catalogue=completed(catalogue, families),
        files=files,
    )
    _check_names(manifest, folder, problems)
    return manifest


def document(path: Path, problems: Problems) -> dict[str, Any] | None:
    """Return the tables of a TOML file.

    None, and why in ``problems``, when it is missing or none.
    """
    try:
        text = read_regular(path, MOST).decode("utf-8")
        number, longest = max(enumerate(map(len, text.split("\n")), start=1), key=lambda line: line[1])
        if longest > MOST_LINE:
            problems.add(f"line {number} has {longest} characters; at most {MOST_LINE} are read. Break it up")
            return None
        return tomllib.loads(text)
    except FileNotFoundError:
        problems.add("the file is missing")
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        problems.add(f"not TOML: {error}")
    except OSError as error:
        problems.add(f"cannot be read: {error.strerror}")
    return None


def _file(
    folder: Path, name: str, record: type[M], problems: Problems, context: Context | None = None
) -> M | None:
    with problems.file(f"{folder.name}/{name}"):
        found = document(folder / name, problems)
        return None if found is None else _validate(record, found, problems, context)


def _table(
    folder: Path, name: str, record: type[M], problems: Problems, context: Context | None = None
) -> dict[str, M] | None:
    rows: dict[str, M] = {}
    with problems.file(f"{folder.name}/{name}"):
        found = document(folder / name, problems)
        if found is None:
            return None
        if found.pop("edition", None) != 1:
            problems.add("the edition must be 1", "edition")
        for key, value in found.items():
            with problems.at(key):
                row = _validate(record, value, problems, context)
            if row is not None:
                rows[key] = row
    return rows


def _validate(record: type[M], document: Any, problems: Problems, context: Context | None) -> M | None:
    try:
        return record.model_validate(document, context=context)
    except ValidationError as error:
        for detail in error.errors():
            problems.add(_say(detail, record), *_location(detail))
    return None


def _location(detail: ErrorDetails) -> tuple[str | int, ...]:
    # pydantic adds the tried branch of a union ("int", "dict[...]") to the location: not a place in the file
    noise = ("int", "bool", "str", "constrained-str")
    parts = [part for part in detail["loc"] if not (isinstance(part, str) and (part in noise or "[" in part))]
    return tuple(part for part in parts if isinstance(part, int) or not part.startswith("function-"))


def _say(detail: ErrorDetails, record: type[BaseModel]) -> str:
    found = detail["input"]
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "extra_forbidden":
        return f"unknown key{suggestion(str(detail['loc'][-1]), _keys(record))}"
    if kind == "missing":
        return "is missing"
    if kind == "literal_error":
        expected = [word.strip(" '") for word in str(context["expected"]).replace(" or ", ",").split(",")]
        return f"{found!r} is not allowed{suggestion(str(found), expected)}"
    if kind == "value_error":
        return str(context["error"])
    if kind == "string_pattern_mismatch":
        return f"{found!r} does not match {context['pattern']}"
    return f"{detail['msg'][0].lower()}{detail['msg'][1:]}, found {found!r}"


def _keys(record: type[BaseModel]) -> set[str]:
    keys: set[str] = set()
    todo: list[Any] = [record.model_json_schema(by_alias=True)]
    while todo:
        node = todo.pop()
        if isinstance(node, dict):
            properties = node.get("properties")
            keys.update(properties if isinstance(properties, dict) else ())
            todo.extend(node.values())
    return keys


def _check_names(manifest: Manifest, folder: Path, problems: Problems) -> None:
    with problems.file(f"{folder.name}/profiles.toml"):
        for name, profile in manifest.profiles.items():
            if profile.includes is not None and profile.includes not in manifest.profiles:
                problems.add(
                    f"{profile.includes!r} is not a profile{suggestion(profile.includes, manifest.profiles)}",
                    name,
                )
        _check_includes(manifest, problems)
    seen: dict[str, str] = {}
    for family in manifest.families.values():
        file = manifest.files[family.family]
        with problems.file(file):
            for operator in family.operators:
                if operator.name in seen:
                    problems.add(
                        f"is an operator of {seen[operator.name]} already", "operators", operator.name
                    )
                seen[operator.name] = file
                for kernel in operator.kernels:
                    with problems.at("kernels", kernel.name):
                        _check_twice(kernel.targets, problems)
                        _check_profile(kernel.profile, kernel.backend, kernel.targets, manifest, problems)
                        for place, step in enumerate(kernel.steps):
                            if step.backend is not None:
                                with problems.at("steps", place):
                                    _check_profile(kernel.profile, step.backend, [], manifest, problems)
                        _check_sources(
                            kernel.source, [step.source for step in kernel.steps], folder.parent, problems
                        )


def _check_includes(manifest: Manifest, problems: Problems) -> None:
    for name in manifest.profiles:
        chain = [name]
        while (row := manifest.profiles.get(chain[-1])) is not None and row.includes is not None:
            chain.append(row.includes)
            if row.includes == name:
                problems.add(f"the profile includes itself ({' -> '.join(chain)})", name, "includes")
            if row.includes in chain[:-1]:
                break


def _check_twice(targets: list[str], problems: Problems) -> None:
    for place, target in enumerate(targets):
        if targets.index(target) != place:
            problems.add(f"{target!r} stands here twice", "targets", place)


def _check_profile(
    profile: str, backend: str, targets: list[str], manifest: Manifest, problems: Problems
) -> None:
    row = manifest.profiles.get(profile)
    if row is None:
        return
    if backend not in row.backends:
        problems.add(
            f"backend {backend!r} is not part of profile {profile!r} (its backends: {', '.join(row.backends)})",
            "backend",
        )
    for place, target in enumerate(targets):
        if target not in row.targets:
            problems.add(f"profile {profile!r} has no wheel for {target!r}", "targets", place)


def _check_sources(source: str, steps: list[str | None], root: Path, problems: Problems) -> None:
    if not _is_source(source, root):
        problems.add(f"{source[:200]!r} is not a file of the repository", "source")
    for place, step in enumerate(steps):
        if step is not None and not _is_source(step, root):
            problems.add(f"{step[:200]!r} is not a file of the repository", "steps", place, "source")


def _is_source(source: str, root: Path) -> bool:
    if in_tree(source) or "{" in source:
        return True  # the plan knows the trees, and what is filled in
    try:
        path = (root / source).resolve()
        return path.is_file() and path.is_relative_to(root.resolve()) and not Path(source).is_absolute()
    except (OSError, ValueError):  # a name that is too long, or has a zero byte
        return False
