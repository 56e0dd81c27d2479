"""The first operation that went wrong: the earliest entry that is wrong by itself, not by what it was given.

Entries are walked in execution order. The first one with any difference is the answer when its inputs agree. When its
inputs differ although nothing before it does, the cause is code that leaves no record (a view, a slice, a gradient
hook):
then the innermost enclosing module whose own inputs agree is named, or the module whose parameter it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from msprobe.compare.pairs import EntryKey, parent_of, stem_of
from msprobe.compare.reasons import Reasons
from msprobe.compare.run import Comparison
from msprobe.compare.summary import FirstDivergence, KindText
from msprobe.core.naming import NameSyntaxError, parse_entry
from msprobe.core.naming.model import MODULE_PREFIXES
from msprobe.core.store.reader import Dump
from msprobe.numerics.verdict import Kind, Role

_KINDS: dict[Kind, KindText] = {
    Kind.VALUE: "value",
    Kind.ARGUMENT: "argument",
    Kind.DTYPE: "dtype",
    Kind.SHAPE: "shape",
    Kind.NON_FINITE: "non_finite",
    Kind.MISSING_IN_GOLDEN: "missing_in_golden",
    Kind.MISSING_IN_TARGET: "missing_in_target",
}
OPTIMIZER = "optimizer"


@dataclass(frozen=True, slots=True)
class Divergence:
    """The answer for one dump pair and its position, for comparing ranks."""

    entry: int
    found: FirstDivergence


def first_divergence(comparison: Comparison, *, later_step: bool = False) -> Divergence | None:
    """The first divergence of one dump pair, or None. ``later_step`` says that an earlier step was compared and
    agreed."""
    return _Finder(comparison, later_step).find()


class _Finder:
    def __init__(self, comparison: Comparison, later_step: bool) -> None:
        self._c = comparison
        self._table = comparison.table
        self._later_step = later_step
        self._differs = comparison.judged.kind > Kind.UNCHECKED
        self._at: dict[str, int] = {}

    def find(self) -> Divergence | None:
        entry = self._first()
        if entry is None:
            return None
        for number, pair in enumerate(self._table.entries):
            if pair.target is not None:
                self._at[pair.target] = number
            if pair.golden is not None:
                self._at.setdefault(pair.golden, number)
        return Divergence(entry, self._explain(entry))

    def _first(self) -> int | None:
        for number, pair in enumerate(self._table.entries):
            lone = (pair.target is None or pair.golden is None) and not pair.benign
            if lone or (not pair.benign and self._rows(number)):
                return number
        return None

    def _explain(self, entry: int) -> FirstDivergence:
        pair = self._table.entries[entry]
        if pair.target is None or pair.golden is None:
            return self._missing(entry)
        entry = self._gradient_source(entry)
        for choose in (self._own_parameter, self._own_argument, self._unexplained_input):
            found = choose(entry)
            if found is not None:
                return found
        row = self._rows(entry)[0]
        return self._result(entry, row, self._module(entry), "its inputs agree")

    # What differs in an entry

    def _rows(self, entry: int, *roles: Role) -> list[int]:
        start, end = int(self._table.starts[entry]), int(self._table.starts[entry + 1])
        role = self._c.measured.role
        wanted = self._differs[start:end].nonzero()[0] + start
        return [int(row) for row in wanted if not roles or role[row] in roles]

    def _tensor_inputs(self, entry: int) -> list[int]:
        return [row for row in self._rows(entry, Role.INPUT) if self._c.judged.kind[row] != Kind.ARGUMENT]

    def _agrees_at_input(self, entry: int) -> bool:
        return not self._rows(entry, Role.INPUT, Role.PARAMETER)

    def _gradient_source(self, entry: int) -> int:
        """A parameter gradient follows from the backward entry of its module, which may be recorded after it."""
        depends = int(self._c.measured.depends[entry])
        if self._table.key(entry).phase == "parameters_grad" and depends >= 0 and self._tensor_inputs(depends):
            return depends
        return entry

    # The cases

    def _own_parameter(self, entry: int) -> FirstDivergence | None:
        rows = self._rows(entry, Role.PARAMETER)
        if not rows:
            return None
        if self._later_step and self._most_parameters_differ():
            return self._result(entry, rows[0], OPTIMIZER, "the step before agrees, so its weight update differs")
        return self._result(entry, rows[0], self._module(entry), "a parameter of this module")

    def _most_parameters_differ(self) -> bool:
        is_parameter = self._c.measured.role == Role.PARAMETER
        total, wrong = int(is_parameter.sum()), int((is_parameter & self._differs).sum())
        return wrong >= 2 and wrong * 2 >= total

    def _own_argument(self, entry: int) -> FirstDivergence | None:
        rows = [row for row in self._rows(entry, Role.INPUT) if self._c.judged.kind[row] == Kind.ARGUMENT]
        return self._result(entry, rows[0], self._module(entry), "an argument of this call") if rows else None

    def _unexplained_input(self, entry: int) -> FirstDivergence | None:
        rows = self._tensor_inputs(entry)
        if not rows:
            return None
        ancestors = list(self._ancestors(entry))
        for ancestor in ancestors:
            number = self._at.get(ancestor)
            if number is not None and self._owns(number, rows[0]):
                return self._own_parameter(number)
        is_module = self._is_module(entry)
        for ancestor in ancestors:
            number = self._at.get(ancestor)
            if number is None:
                break
            if not self._agrees_at_input(number):
                continue
            results = self._rows(number, Role.RESULT)
            note = f"its inputs agree; the difference shows first at the input of {self._name(entry)}"
            if is_module and results:
                return self._result(number, results[0], self._module(number), note)
            return self._result(
                entry, rows[0], _module_text(ancestor), "its input differs and no recorded call made it so"
            )
        return self._result(entry, rows[0], self._module(entry), "its input differs and no recorded call made it so")

    def _owns(self, number: int, row: int) -> bool:
        """Whether this module has a differing parameter of the shape of the tensor in ``row``."""
        shape = _shape(self._table.golden[row])
        return any(_shape(self._table.golden[own]) == shape for own in self._rows(number, Role.PARAMETER))

    def _missing(self, entry: int) -> FirstDivergence:
        pair = self._table.entries[entry]
        lost = pair.target is None
        here, there = ("golden run", "target") if lost else ("target", "golden run")
        text = f"the {here} records {self._name(entry)}, the {there} does not{self._instead(entry, lost)}"
        return self._build(
            entry, None, "missing_in_target" if lost else "missing_in_golden", text, self._module_of_missing(entry)
        )

    def _instead(self, entry: int, lost: bool) -> str:
        for other in (entry - 1, entry + 1):
            if 0 <= other < len(self._table.entries):
                pair = self._table.entries[other]
                name = (
                    pair.target
                    if lost and pair.golden is None
                    else pair.golden
                    if not lost and pair.target is None
                    else None
                )
                if name is not None and not pair.benign:
                    return f" and has {name} there"
        return ""

    def _module_of_missing(self, entry: int) -> str | None:
        """A gradient that stops behind a call which still asks for one was cut outside of that call."""
        key = self._table.key(entry)
        if key.phase != "backward":
            return self._module(entry)
        forward = self._at.get(_forward_name(key))
        if forward is None:
            return self._module(entry)
        outputs = [
            leaf.raw
            for leaf in self._table.target[int(self._table.starts[forward]) : int(self._table.starts[forward + 1])]
            if leaf is not None and leaf.slot == "output" and isinstance(leaf.raw, dict)
        ]
        if self._is_module(entry) and any(raw.get("requires_grad") for raw in outputs):
            ancestors = list(self._ancestors(entry))
            return _module_text(ancestors[0]) if ancestors else self._module(entry)
        return self._module(entry)

    # Names and places

    def _side(self, entry: int) -> Dump:
        return self._c.target if self._table.entries[entry].target is not None else self._c.golden

    def _name(self, entry: int) -> str:
        pair = self._table.entries[entry]
        return pair.target or pair.golden or ""

    def _is_module(self, entry: int) -> bool:
        return self._name(entry).partition(".")[0] in MODULE_PREFIXES

    def _ancestors(self, entry: int) -> Iterator[str]:
        """Names of the enclosing module entries, innermost first."""
        construct = self._side(entry).construct
        name: str | None = self._name(entry)
        seen: set[str] = set()
        while name is not None and name not in seen:
            seen.add(name)
            name = self._parent(construct, name)
            if name is not None:
                yield name

    def _parent(self, construct: dict[str, object], name: str) -> str | None:
        parent = parent_of(construct, name)
        if parent is not None:
            return parent
        try:
            parsed = parse_entry(name)
        except NameSyntaxError:
            return None
        phase = getattr(parsed, "phase", None)
        if phase is None or phase.value == "forward":
            return None
        forward = parent_of(construct, _call_name(name, parsed.stem, parsed.call or 0, "forward"))
        if forward is None:
            return None
        try:
            above = parse_entry(forward)
        except NameSyntaxError:
            return forward
        backward = _call_name(forward, above.stem, above.call or 0, "backward")
        return backward if backward in self._at or forward not in self._at else forward

    def _module(self, entry: int) -> str | None:
        if self._is_module(entry):
            return _module_text(self._name(entry))
        return next((_module_text(name) for name in self._ancestors(entry)), None)

    def _stack(self, entry: int) -> list[str]:
        key = self._table.key(entry)
        name = self._name(entry) if key.phase == "forward" else _forward_name(key)
        return list(self._c.target.stacks.get(name) or self._c.golden.stacks.get(name) or [])

    def _result(self, entry: int, row: int, module: str | None, note: str) -> FirstDivergence:
        ours, theirs = self._table.target[row], self._table.golden[row]
        kind = Kind(int(self._c.judged.kind[row]))
        leaf = ours or theirs
        slot = leaf.suffix.lstrip(".") if leaf is not None else None
        if leaf is not None and leaf.slot in ("parameters_grad",):
            slot = f"{leaf.slot}{leaf.suffix}"
        text = f"{slot or 'value'}: {Reasons(self._c.measured).text(kind, row, ours, theirs)}; {note}"
        return self._build(entry, slot, _KINDS[kind], text, module)

    def _build(self, entry: int, slot: str | None, kind: KindText, text: str, module: str | None) -> FirstDivergence:
        pair, place = self._table.entries[entry], self._c.target.place
        return FirstDivergence(
            step=place.step,
            rank=place.number if place.kind == "rank" else None,
            target=pair.target,
            golden=pair.golden,
            slot=slot,
            kind=kind,
            reason=text,
            module=module,
            stack=self._stack(entry),
        )


def _call_name(like: str, stem: str, call: int, phase: str) -> str:
    """The entry name of a call of ``stem``, in the form of the entry ``like``."""
    return f"{stem}.{phase}.{call}" if like.partition(".")[0] in MODULE_PREFIXES else f"{stem}.{call}.{phase}"


def _forward_name(key: EntryKey) -> str:
    return _call_name(key.name, key.stem, key.call or 0, "forward")


def _module_text(name: str) -> str:
    """Path and class of a module entry, without prefix and call; other parents (optimizer) stay as they are."""
    stem = stem_of(name)
    prefix, dot, rest = stem.partition(".")
    return rest if dot and prefix in MODULE_PREFIXES else stem


def _shape(leaf: object) -> object:
    raw = getattr(leaf, "raw", None)
    return raw.get("shape") if isinstance(raw, dict) else None
