"""The file of learned relations: what held, of what, under which condition, and how often it was seen."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge
from pydantic_core import to_json

from msprobe.core.errors import MsprobeException, ReadError
from msprobe.core.store.reader import read_json_object
from msprobe.core.store.safe_files import make_folder, write_atomic

VERSION = 1
Kind = Literal["consistent", "contained", "order", "argument", "output"]
RuleOfRelation = Literal["equals", "holds", "includes", "ordered", "within", "below"]
LEARNED_RULES = tuple(f"learned:{kind}" for kind in ("consistent", "contained", "order", "argument", "output"))
"""The names of findings."""


@dataclass(frozen=True)
class Support:
    """How often a relation was seen: examples, and steps (of each rank and run) with some of them."""

    examples: int
    steps: int


@dataclass(frozen=True)
class Relation:
    """One relation.

    Args:
        says: the relation as a sentence.
        kind: the family.
        owner: the class of the module; ``parameter``, ``training step`` or the optimizer.
        path: the pattern of the path, with ``{n}`` for numbers of layers; "" where there is none.
        what: what is held against the value.
        when: the condition in words; "" for always.
        from_step: the first step from which it holds, 0 or 1.
        rule: how: equal to the value, true, at least these names, in this order, within the band, or below its end.
        value: the value; None for a band.
        low: the lower end of the band as it was seen.
        high: the upper end.
        support: how often it was seen.
    """

    says: str
    kind: Kind
    owner: str
    path: str
    what: str
    when: str
    rule: RuleOfRelation
    support: Support
    value: str | bool | float | tuple[str, ...] | None = None
    low: Annotated[float, Ge(0)] | None = None
    high: Annotated[float, Ge(0)] | None = None
    from_step: int = 0


@dataclass(frozen=True)
class LearnedRelations:
    """The document. ``runs``, ``steps`` and ``ranks`` count what it was learned from."""

    relations: list[Relation]
    runs: int
    steps: int
    ranks: int
    version: Literal[1] = 1
    written_by: dict[str, str] = field(default_factory=dict)


def write_relations(document: LearnedRelations, path: Path) -> None:
    """Write the document, replacing an earlier one; a missing folder is created.

    Raises:
        MsprobeException: the file cannot be written.
    """
    try:
        make_folder(path.absolute().parent)
        write_atomic(path, [to_json(asdict(document), indent=1), b"\n"])
    except OSError as error:
        reason = f"the relations cannot be written to {path} ({error.strerror or error}); choose another file"
        raise MsprobeException(MsprobeException.INVALID_PARAM_ERROR, reason) from error


def read_relations(path: Path) -> LearnedRelations:
    """Return the document in a file.

    Raises:
        ReadError: the file is missing, damaged, or no such document; names the field.
    """
    from pydantic import TypeAdapter, ValidationError

    content = read_json_object(path, remedy="give a file that `msprobe check GOOD --learn FILE` wrote")
    if "relations" in content and content.get("version") != VERSION:
        raise ReadError(f"{path}: another version of msprobe wrote it; learn it again with `msprobe check --learn`")
    try:
        return TypeAdapter(LearnedRelations).validate_python(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the document"
        raise ReadError(
            f"{path}: no file of relations: {where}: {first['msg']}; `msprobe check GOOD --learn FILE` writes one"
        ) from error


def relations_schema() -> dict[str, Any]:
    """Return the JSON Schema of the document."""
    from pydantic import TypeAdapter

    return TypeAdapter(LearnedRelations).json_schema()
