"""What is normal between runs that should agree: how far reruns of one program were apart, value by value.

    profile = NoiseProfile("statistics", runs=3)
    profile.learn(table, measured, golden)     # of two reruns
    profile.floor(table, mode, golden)         # per row of another table, to judge it by

A value is known by its identity: step, module and call, and the slot in it (``call_identities``). So calls that one run
makes more do not move the others. Its spread is the largest difference that any two reruns showed, relative to the
scale of its tensor. ``spread_bounds`` makes of it what a further run may show: few reruns agree by chance, so a spread
counts together with those of all values of its operator, phase, place and dtype in the same step. A value that no rerun
had is judged by these alone; an operator that none had is judged by the tolerances of its number format.

The rounding of bfloat16 says nothing about float32. An operator that the reruns had in another dtype is judged as
without the profile, and a note says so (``NoiseDtypes``). Where this holds for every floating-point value, the profile
belongs to another run, and is refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic_core import to_json

from msprobe.compare.differences.spread_bounds import LIMITS, ROUNDING, Parts, most_runs, spread_bounds
from msprobe.compare.inputs.mode import Mode
from msprobe.compare.records.entries import OPTIMIZER, EntryKey, entry_keys
from msprobe.compare.table.table import LeafTable
from msprobe.core.errors import NotComparableError, ReadError
from msprobe.core.naming.names import MODULE_PREFIXES, is_module_name
from msprobe.core.store.reader import Dump, read_json_object
from msprobe.core.store.record_walk import is_tensor
from msprobe.core.store.safe_files import make_folder, write_atomic
from msprobe.numerics.noise_floor import NoiseFloor
from msprobe.numerics.tolerance import unit_roundoff
from msprobe.numerics.verdict import Bools, Floats, Measured, Role, RowKind
from msprobe.trace.leaves import element_count

OperatorRole = tuple[str, str, str]
"""Operator, phase and role."""


ModeText = Literal["statistics", "tensor"]
_OF_OPTIMIZER = f"{OPTIMIZER}/"
_Identity = tuple["int | None", str, str, str, str]
"""Step, call, phase, place in the call, and dtype."""
_Group = tuple[str, str, str, str]
"""Operator, phase, place in the call, and dtype."""


@dataclass(slots=True)
class Spread:
    """The largest differences of one value between two reruns, relative to the scale of the tensor.

    ``step`` is null where the runs have no steps. ``call`` is a module with its number, or a function with its number
    among those of its name in the same module; ``place`` is the slot, such as ``output.0``. ``operator`` is the prefix
    and name of an API, or ``Module.`` and the class; ``role`` is input, parameters, output or parameters_grad.
    ``least`` is the smallest difference of the norm; ``arises`` says that it is the result of a call that also varied
    when all of its inputs agreed. ``samples`` is the number of pairs of runs and ranks.
    """

    step: int | None
    call: str
    phase: str
    place: str
    dtype: str
    operator: str
    role: str
    element: float
    mean: float
    norm: float
    least: float
    arises: bool
    samples: int

    @property
    def parts(self) -> Parts:
        """Return the spreads of element, mean and norm."""
        return self.element, self.mean, self.norm

    @property
    def identity(self) -> _Identity:
        """Return what tells this value from others."""
        return self.step, self.call, self.phase, self.place, self.dtype

    @property
    def group(self) -> _Group:
        """Return what similar values have in common."""
        return self.operator, self.phase, self.place, self.dtype


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
    """The document that ``msprobe noise`` writes. A difference up to ``limit`` times its bound counts as normal.

    ``perturbed`` says that parameters and inputs moved by one unit round-off in some runs: what rounding does is
    measured then, also the rounding of another layout.
    """

    mode: ModeText
    runs: int
    limit: float = 0.0
    version: Literal[2] = 2
    spreads: list[Spread] = field(default_factory=list)
    perturbed: bool = False

    def __post_init__(self) -> None:
        """Choose the limit by the number of runs, where none is given."""
        self.limit = self.limit or LIMITS[most_runs(self.runs)]

    def floor(self, table: LeafTable, mode: Mode, measured: Measured, golden: Dump) -> NoiseFloor:
        """Return the bound of every row of a table, NaN where the profile has none.

        A result that never varied, of a call whose inputs agree here, gets none of the spread of similar values, unless
        one of these varied by itself.

        Args:
            table: the paired leaves.
            mode: what the dumps hold.
            measured: the differences of all rows.
            golden: the dump of the golden run, by whose calls a value is known.

        Raises:
            NotComparableError: the profile was learned from dumps of another kind, or from values of other dtypes.
        """
        if mode.value != self.mode:
            raise NotComparableError(
                f"the noise file was learned from dumps of mode {self.mode}, these are of mode {mode}; "
                "learn one from reruns collected like them"
            )
        self.dtypes(table).check()
        own, similar = self._bounds()
        steady, exact = self._never_varied(), _with_exact_inputs(measured)
        values = np.full((table.row_count, 3), np.nan)
        single_elements = np.zeros(table.row_count)
        for row, identity, (operator, _) in _values(table, golden):
            step_less = (None, *identity[1:])
            bounds = own.get(identity) or own.get(step_less) or similar.get((operator, *identity[2:]))
            if exact[row] and identity in steady:
                values[row] = 0.0
            elif bounds is not None:
                values[row] = bounds
                leaf = table.golden[row]
                if mode is Mode.STATISTICS and leaf is not None:
                    single_elements[row] = min(max(bounds[1:]) * math.sqrt(element_count(leaf.raw)), 1.0)
        values[:, 0] = np.maximum(values[:, 0], single_elements)
        return NoiseFloor(values[:, 0], values[:, 1], values[:, 2], self.limit)

    def _never_varied(self) -> set[_Identity]:
        """Return the values that agreed in all reruns, of kinds that never vary by themselves."""
        arising = {spread.group for spread in self.spreads if spread.arises}
        return {
            spread.identity for spread in self.spreads if max(spread.parts) <= ROUNDING and spread.group not in arising
        }

    def _bounds(self) -> tuple[dict[_Identity, Parts], dict[_Group, Parts]]:
        """Return the bounds of all values, also without their step (the largest), and the largest of each group."""
        groups: dict[tuple[int | None, _Group], list[Spread]] = {}
        for spread in self.spreads:
            groups.setdefault((spread.step, spread.group), []).append(spread)
        own: dict[_Identity, Parts] = {}
        similar: dict[_Group, Parts] = {}
        for (_, group), spreads in groups.items():
            least = np.array([spread.least for spread in spreads])
            bounds = spread_bounds(np.array([spread.parts for spread in spreads]), least, self.runs)
            if spreads[0].call.startswith(_OF_OPTIMIZER):
                bounds[:] = bounds.max(axis=0)  # an update is the same for a large and a small parameter
            for spread, row in zip(spreads, bounds.tolist(), strict=True):
                parts: Parts = (row[0], row[1], row[2])
                for identity in dict.fromkeys((spread.identity, (None, *spread.identity[1:]))):
                    own[identity] = _largest(own.get(identity, parts), parts)
            most = bounds.max(axis=0).tolist()
            similar[group] = _largest(similar.get(group, (0.0, 0.0, 0.0)), (most[0], most[1], most[2]))
        return own, similar

    def dtypes(self, table: LeafTable) -> NoiseDtypes:
        """Return which rows of a table the profile can judge, and in which dtypes."""
        learned: dict[OperatorRole, set[str]] = {}
        for spread in self.spreads:
            learned.setdefault((spread.operator, spread.phase, spread.role), set()).add(spread.dtype)
        return NoiseDtypes(learned).count((role, dtype) for _, role, dtype in _tensor_rows(table))

    def learn(self, table: LeafTable, measured: Measured, golden: Dump) -> None:
        """Learn from one comparison of two reruns.

        Rows that differ in shape or dtype, and rows of one run only, are left out: they are no noise.
        """
        known = {spread.identity: spread for spread in self.spreads}
        parts = np.stack((np.maximum(measured.element, measured.projection), measured.mean, measured.norm), axis=1)
        parts[:, 2] = _beyond_a_digit(measured)
        exact = _with_exact_inputs(measured)
        usable = (
            (measured.kind <= RowKind.VALUE) & (measured.kind != RowKind.UNCHECKED) & np.isfinite(parts).all(axis=1)
        )
        for row, identity, (operator, role) in _values(table, golden):
            if usable[row]:
                spread = known.get(identity)
                if spread is None:
                    spread = known[identity] = Spread(*identity, operator, role, 0.0, 0.0, 0.0, math.inf, False, 0)
                    self.spreads.append(spread)
                spread.element, spread.mean, spread.norm = _largest(spread.parts, tuple(parts[row].tolist()))
                spread.least = min(spread.least, float(parts[row, 2]))
                spread.arises |= bool(exact[row] and parts[row].max() > ROUNDING)
                spread.samples += 1

    def write(self, path: Path) -> None:
        """Write the document, replacing an earlier one.

        Raises:
            OSError: the folder cannot be written.
        """
        make_folder(path.absolute().parent)
        self.spreads.sort(key=lambda spread: (-1 if spread.step is None else spread.step, *spread.identity[1:]))
        write_atomic(path, [to_json(asdict(self), indent=1), b"\n"])

    @classmethod
    def read(cls, path: Path) -> NoiseProfile:
        """Read what ``write`` wrote.

        Raises:
            ReadError: the file is missing, damaged, or no such document; names the field.
        """
        from pydantic import TypeAdapter, ValidationError

        content = read_json_object(path, remedy="give a file that `msprobe noise` wrote")
        if content.get("version") == 1 and "spreads" in content:
            raise ReadError(f"{path}: an older version of msprobe wrote it; learn it again with `msprobe noise`")
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


def _beyond_a_digit(measured: Measured) -> Floats:
    """Return the differences of norms without the last digit of those that are recorded in a dtype of few.

    One rounding moves such a norm by a whole digit, whatever the values did; every tolerance allows that much.
    """
    digit = np.where(measured.rounded, 2.0 * measured.roundoff, 0.0)
    return np.asarray(np.maximum(measured.norm - digit, 0.0))


def _largest(left: Parts, right: Parts) -> Parts:
    return max(left[0], right[0]), max(left[1], right[1]), max(left[2], right[2])


def _values(table: LeafTable, golden: Dump) -> Iterator[tuple[int, _Identity, tuple[str, str]]]:
    """Yield the row, the identity, and the operator with the role of every value that is a tensor on both sides."""
    calls, step = call_identities(entry_keys(golden.data, golden.construct)), golden.place.step
    entry = table.entry_of_row().tolist()
    for row, (operator, phase, role), dtype in _tensor_rows(table):
        leaf, pair = table.golden[row], table.entries[entry[row]]
        if leaf is not None and pair.golden is not None:
            place = f"{leaf.slot}{leaf.suffix}" if not leaf.suffix.startswith(f".{leaf.slot}") else leaf.suffix[1:]
            yield row, (step, calls[pair.golden], phase, place, dtype), (operator, role)


def call_identities(keys: Iterable[EntryKey]) -> dict[str, str]:
    """Return for each entry which call it belongs to: a text that stays when other calls are made before it.

    A module has its path and the number of its call. Functions are counted by name within the calls of a module, and
    a backward call has the identity of its forward call.
    """
    result: dict[str, str] = {}
    forward: dict[tuple[str, int | None], str] = {}
    counted: dict[tuple[str, str, str], int] = {}
    for key in keys:
        call = forward.get((key.stem, key.call)) if key.phase != "forward" else None
        if call is None and is_module_name(key.name):
            call = f"{key.stem}.{key.call or 0}"
        elif call is None:
            name = key.parent, key.stem, key.phase
            number = counted[name] = counted.get(name, -1) + 1
            call = f"{key.parent}/{key.stem}.{number}" if key.parent else f"{key.stem}.{number}"
        if key.phase == "forward":
            forward[key.stem, key.call] = call
        result[key.name] = call
    return result


def _with_exact_inputs(measured: Measured) -> Bools:
    """Return which rows are results of calls whose inputs, and the forward call of which, agree up to rounding."""
    starts, worst = measured.row_starts, measured.worst
    differing = np.where(measured.role == Role.RESULT, 0.0, worst)
    inputs, everything, has_inputs = (
        np.array([values[start:end].max(initial=0.0) for start, end in pairwise(starts.tolist())])
        for values in (differing, worst, np.where(measured.role == Role.RESULT, 0.0, 1.0))
    )
    forward = np.where(measured.depends >= 0, everything[measured.depends], 0.0) if len(inputs) else inputs
    exact = (np.maximum(inputs, forward) <= ROUNDING) & (has_inputs > 0.0)
    return np.asarray(np.repeat(exact, np.diff(starts)) & (measured.role == Role.RESULT))


def _tensor_rows(table: LeafTable) -> Iterator[tuple[int, OperatorRole, str]]:
    """Yield the number, the operator with phase and role, and the dtype of every row that holds a tensor on both
    sides."""
    for number in range(len(table.entries)):
        key = table.keys[number]
        operator = _operator(key.stem)
        for row in table.rows_of(number):
            target, golden = table.target[row], table.golden[row]
            if target is not None and golden is not None and is_tensor(target.raw) and is_tensor(golden.raw):
                yield row, (operator, key.phase, golden.slot), str(golden.raw["dtype"])


def _operator(stem: str) -> str:
    prefix, _, rest = stem.partition(".")
    return f"{prefix}.{rest.rpartition('.')[2]}" if prefix in MODULE_PREFIXES else stem
