"""Files of reasons: TOML with an edition and strict records, read alike whatever the reasons are about."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from build_tools.errors import ManifestError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

STRICT: Final = ConfigDict(extra="forbid", frozen=True, strict=True)
_EDITION: Final = 1


class Table(BaseModel):
    """The fields that every such file has."""

    model_config = STRICT

    edition: int


T = TypeVar("T", bound=Table)


def read_table(root: Path, name: str, model: type[T]) -> T:
    """Return the file ``name`` of the repository at ``root``.

    Where there is none, a table of no reasons.

    Raises:
        ManifestError: the file is not of this form.
    """
    path = root / name
    if not path.is_file():
        return model(edition=_EDITION)
    try:
        table = model.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        lines = [f"{name}: {'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()]
        raise ManifestError(lines) from None
    except (ValueError, OSError) as error:
        raise ManifestError([f"{name}: {error}"]) from None
    if table.edition != _EDITION:
        raise ManifestError([f"{name}: edition {table.edition} is not {_EDITION}"])
    return table
