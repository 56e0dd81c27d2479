"""What is normal between runs that should agree: the spread of reruns per operator, role, dtype and depth.

    profile = NoiseProfile("statistics", runs=3)
    profile.learn(table, measured)     # of two reruns
    profile.floor(table, mode)         # per row of another table, to judge it by

The spread of a key is the largest difference that any rerun showed, relative to the scale of its tensor. Depth is the
tenth of the execution an entry lies in: noise grows on the way through a model. A key that no rerun had is looked up
without its depth; an operator that none had is judged by the tolerances of its number format. Few reruns may show the
same largest element by chance: what moves mean or norm of n independent elements by s moves single ones by s sqrt(n).
Of two normal differences one is more than 4 times the other in every seventh pair. So a spread of few samples counts
at least as much as the median of all operators of its phase, role and dtype; what agreed in every bit stays at 0.

The rounding of bfloat16 says nothing about float32. An operator that the reruns had in another dtype is judged as
without the profile, and a note says so (``NoiseDtypes``). Where this holds for every floating-point value, the profile
belongs to another run, and is refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic_core import to_json

from msprobe.compare.inputs.mode import Mode
from msprobe.compare.records.leaves import element_count
from msprobe.compare.table.table import LeafTable
from msprobe.core.errors import NotComparableError, ReadError
from msprobe.core.naming.names import MODULE_PREFIXES
from msprobe.core.store.reader import read_json_object
from msprobe.core.store.record_walk import is_tensor
from msprobe.core.store.safe_files import make_folder, write_atomic
from msprobe.numerics.tolerance import unit_roundoff
from msprobe.numerics.verdict import Measured, NoiseFloor, RowKind

OperatorRole = tuple[str, str, str]
"""Operator, phase and role."""


DEPTHS = 10
_FEW = 12
Parts = tuple[float, float, float]
ModeText = Literal["statistics", "tensor"]
_Key = tuple[str, str, str, str, int]


@dataclass(slots=True)
class Spread:
    """The largest differences seen for one key, relative to the scale of the tensor, in ``samples`` values.

    ``operator`` is the prefix and name of an API, or ``Module.`` and the class; ``role`` is input, parameters, output
    or parameters_grad; ``depth`` is 0 for the first tenth of the execution, 9 for the last.
    """

    operator: str
    phase: str
    role: str
    dtype: str
    depth: int
    element: float
    mean: float
    norm: float
    samples: int

    @property
    def parts(self) -> Parts:
        """Return the spreads of element, mean and norm."""
        return self.element, self.mean, self.norm


@dataclass(slots=True)
class NoiseDtypes:
    """Which floating-point rows of a table a profile can judge.

    Attributes:
        learned: the dtypes of the profile, by operator and role.
        known: the number of rows that it can judge.
        alone: the number of rows whose operator it lacks.
        other: the numbers of rows whose operator it has in another dtype only, by the dtype of the row.
    """

    learned: dict[OperatorRole, set[str]] = field(default_factory=dict)
    known: int = 0
    alone: int = 0
    other: dict[str, int] = field(default_factory=dict)

    def count(self, rows: Iterable[tuple[OperatorRole, str]]) -> NoiseDtypes:
        """Count the rows of a table, given by operator role and dtype, and return this object."""
        for role, dtype in rows:
            if unit_roundoff(dtype) == 0.0:
                continue
            dtypes = self.learned.get(role)
            if dtypes is None:
                self.alone += 1
            elif dtype in dtypes:
                self.known += 1
            else:
                self.other[dtype] = self.other.get(dtype, 0) + 1
        return self

    def check(self) -> None:
        """Raise an error where no row can be judged.

        Raises:
            NotComparableError: the profile has these operators, and all of them in other dtypes.
        """
        if self.other and not self.known:
            raise NotComparableError(
                f"the noise file was learned from values of {self._learned()}, these are of {_listed(self.other)}; "
                "learn one from reruns of this dtype"
            )

    def notes(self) -> list[str]:
        """Return sentences about values that were judged as without the profile."""
        notes = []
        if self.other:
            rows = sum(self.other.values())
            notes.append(
                f"{rows} values of {_listed(self.other)} were judged as without the noise file, "
                f"which has their operators only in {self._learned()}"
            )
        elif self.alone and not self.known:
            notes.append("the noise file has none of these operators: all values were judged as without it")
        return notes

    def _learned(self) -> str:
        return _listed({dtype for dtypes in self.learned.values() for dtype in dtypes if unit_roundoff(dtype)})


def _listed(dtypes: Iterable[str]) -> str:
    return ", ".join(sorted(dtypes)) or "no floating-point dtype"


@dataclass(slots=True)
class NoiseProfile:
    """The document that ``msprobe noise`` writes. A difference up to ``limit`` times its spread counts as normal."""

    mode: ModeText
    runs: int
    limit: float = 4.0
    version: Literal[1] = 1
    spreads: list[Spread] = field(default_factory=list)

    def floor(self, table: LeafTable, mode: Mode) -> NoiseFloor:
        """Return the spread of every row of a table, NaN where the profile has none.

        Raises:
            NotComparableError: the profile was learned from dumps of another kind, or from values of other dtypes.
        """
        if mode.value != self.mode:
            raise NotComparableError(
                f"the noise file was learned from dumps of mode {self.mode}, these are of mode {mode}; "
                "learn one from reruns collected like them"
            )
        self.dtypes(table).check()
        exact: dict[_Key, Parts] = {}
        anywhere: dict[_Key, Parts] = {}
        typical = self._typical()
        for spread in self.spreads:
            key = (spread.operator, spread.phase, spread.role, spread.dtype, spread.depth)
            parts = spread.parts
            if 0 < spread.samples < _FEW and any(parts):
                parts = _largest(parts, typical[key[1:4]])
            exact[key] = parts
            without = (*key[:4], -1)
            anywhere[without] = _largest(anywhere.get(without, (0.0, 0.0, 0.0)), parts)
        values = np.full((table.row_count, 3), np.nan)
        single_elements = np.zeros(table.row_count)
        for row, key in _keys(table):
            spreads = exact.get(key) or anywhere.get((*key[:4], -1))
            if spreads is not None:
                values[row] = spreads
                leaf = table.golden[row]
                if mode is Mode.STATISTICS and leaf is not None:
                    single_elements[row] = min(max(spreads[1:]) * math.sqrt(element_count(leaf.raw)), 1.0)
        values[:, 0] = np.maximum(values[:, 0], single_elements)
        return NoiseFloor(values[:, 0], values[:, 1], values[:, 2], self.limit)

    def _typical(self) -> dict[tuple[str, str, str], Parts]:
        """Return the medians of the spreads of all operators that vary, by phase, role and dtype."""
        varying: dict[tuple[str, str, str], list[Parts]] = {}
        for spread in self.spreads:
            if any(spread.parts):
                varying.setdefault((spread.phase, spread.role, spread.dtype), []).append(spread.parts)
        medians = {key: np.median(np.array(spreads), axis=0).tolist() for key, spreads in varying.items()}
        return {key: (element, mean, norm) for key, (element, mean, norm) in medians.items()}

    def dtypes(self, table: LeafTable) -> NoiseDtypes:
        """Return which rows of a table the profile can judge, and in which dtypes."""
        learned: dict[tuple[str, str, str], set[str]] = {}
        for spread in self.spreads:
            learned.setdefault((spread.operator, spread.phase, spread.role), set()).add(spread.dtype)
        return NoiseDtypes(learned).count((key[:3], key[3]) for _, key in _keys(table))

    def learn(self, table: LeafTable, measured: Measured) -> None:
        """Learn from one comparison of two reruns.

        Rows that differ in shape or dtype, and rows of one run only, are left out: they are no noise.
        """
        known = {(s.operator, s.phase, s.role, s.dtype, s.depth): s for s in self.spreads}
        parts = np.stack((np.maximum(measured.element, measured.projection), measured.mean, measured.norm), axis=1)
        usable = (
            (measured.kind <= RowKind.VALUE) & (measured.kind != RowKind.UNCHECKED) & np.isfinite(parts).all(axis=1)
        )
        for row, key in _keys(table):
            if usable[row]:
                spread = known.get(key)
                if spread is None:
                    spread = known[key] = Spread(*key, 0.0, 0.0, 0.0, 0)
                    self.spreads.append(spread)
                spread.element, spread.mean, spread.norm = _largest(spread.parts, tuple(parts[row].tolist()))
                spread.samples += 1

    def write(self, path: Path) -> None:
        """Write the document, replacing an earlier one.

        Raises:
            OSError: the folder cannot be written.
        """
        make_folder(path.absolute().parent)
        self.spreads.sort(key=lambda s: (s.operator, s.phase, s.role, s.dtype, s.depth))
        write_atomic(path, [to_json(asdict(self), indent=1), b"\n"])

    @classmethod
    def read(cls, path: Path) -> NoiseProfile:
        """Read what ``write`` wrote.

        Raises:
            ReadError: the file is missing, damaged, or no such document; names the field.
        """
        from pydantic import TypeAdapter, ValidationError

        content = read_json_object(path, remedy="give a file that `msprobe noise` wrote")
        try:
            return TypeAdapter(cls).validate_python(content)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "the document"
            raise ReadError(f"{path}: not a noise file: {where}: {first['msg']}; `msprobe noise` writes one") from error


def noise_schema() -> dict[str, Any]:
    """Return the JSON schema of the document."""
    from pydantic import TypeAdapter

    return TypeAdapter(NoiseProfile).json_schema()


def _largest(left: Parts, right: Parts) -> Parts:
    return max(left[0], right[0]), max(left[1], right[1]), max(left[2], right[2])


def _keys(table: LeafTable) -> Iterator[tuple[int, _Key]]:
    """Yield the number and the key of every row that holds a tensor on both sides."""
    entries = max(len(table.entries), 1)
    for number in range(len(table.entries)):
        key = table.keys[number]
        operator, depth = _operator(key.stem), number * DEPTHS // entries
        for row in range(int(table.starts[number]), int(table.starts[number + 1])):
            target, golden = table.target[row], table.golden[row]
            if target is not None and golden is not None and is_tensor(target.raw) and is_tensor(golden.raw):
                yield row, (operator, key.phase, golden.slot, str(golden.raw["dtype"]), depth)


def _operator(stem: str) -> str:
    prefix, _, rest = stem.partition(".")
    return f"{prefix}.{rest.rpartition('.')[2]}" if prefix in MODULE_PREFIXES else stem
