"""The arguments of a function as its signature receives them, however the call is written.

``F.relu(x)``, ``F.relu(x, False)`` and ``F.relu(input=x, inplace=False)``, which ``nn.ReLU()`` calls, are one call. A
record has what was written: an argument by position, by name, or not at all. ``call_signatures.tsv`` has parameters and
defaults of PyTorch's functions, an overload per line; ``scripts/call_signatures`` writes it. Where both calls fit one
overload, their arguments pair by parameter, and one that a call leaves out has its default. A number stands for as many
equal ones where the signature says so (``stride[2]``). In backward, gradients pair by the parameter in the same way.
Calls that fit no overload keep their pairs.

Nothing says which parameter of ``forward`` of a module a positional argument is for. A call with an argument in the
middle that the other side does not give has moved all arguments behind it. So where the numbers of positional arguments
differ, they pair in their order as far as they are alike: equal values first, then tensors of one shape and dtype.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from msprobe.core.naming.names import Phase
from msprobe.core.store.record_walk import INPUT, OUTPUT, Leaf, is_tensor
from msprobe.trace.likeness import same_values

Pairs = list[tuple[Leaf | None, Leaf | None]]
_OTHER_NAMES = {"axis": "dim", "keepdims": "keepdim"}
"""Names that PyTorch takes besides its own."""
_KEYWORD_ONLY = "*"
_NO_DEFAULT = object()
_Argument = list[Leaf]
_EQUAL, _ALIKE, _OF_ONE_TYPE = 8.0, 3.0, 1.0


class _Parameter(NamedTuple):
    """A parameter; ``numbers`` is how many numbers it takes for which one may stand, 0 where it takes none such."""

    name: str
    by_position: bool
    numbers: int
    default: Any


_Signature = Mapping[str, _Parameter]


def pairs_by_parameter(stem: str, phase: str, found: Pairs) -> Pairs:
    """Return the pairs of leaves of two calls of a function, in which arguments pair by the parameter they are for.

    Args:
        stem: the name of the function without number.
        phase: the phase of the entries: the gradients of a backward entry pair, and the arguments of any other one.
        found: pairs of leaves by their place in the records.
    """
    slot = OUTPUT if phase == Phase.BACKWARD.value else INPUT
    if all(None not in pair or (pair[0] or pair[1]).slot != slot for pair in found):  # type: ignore[union-attr]
        return found
    sides = [[leaf for pair in found if (leaf := pair[side]) is not None and leaf.slot == slot] for side in (0, 1)]
    for signature in _signatures(stem):
        target, golden = (_by_parameter(side, signature, phase) for side in sides)
        if target is not None and golden is not None:
            both = list(_paired(signature, (target, golden), phase))
            return both + [pair for pair in found if all(leaf is None or leaf.slot != slot for leaf in pair)]
    return [_with_null(pair) for pair in found] if slot == OUTPUT else found


def parameter_of(stem: str, leaf: Leaf) -> str:
    """Return the name of the parameter that an argument of a call is for; "" for a position of which it is not known.

    Args:
        stem: the name of the function without number.
        leaf: the argument.
    """
    _, _, name, *_ = *leaf.suffix.split("."), "", ""
    if not name.isdigit():
        return name
    by_position = ([one.name for one in signature.values() if one.by_position] for signature in _signatures(stem))
    names = {names[int(name)] for names in by_position if int(name) < len(names)}
    return names.pop() if len(names) == 1 else ""


@cache
def _table() -> Mapping[str, list[_Signature]]:
    table: dict[str, list[_Signature]] = {}
    text = Path(__file__).with_name("call_signatures.tsv").read_text(encoding="utf-8")
    for line in text.splitlines()[1:]:
        name, words = line.split("\t")
        table.setdefault(name, []).append({parameter.name: parameter for parameter in _parameters(words.split())})
    return table


def _parameters(words: Sequence[str]) -> Iterator[_Parameter]:
    by_position = True
    for word in words:
        if word == _KEYWORD_ONLY:
            by_position = False
            continue
        name, equals, default = word.partition("=")
        name, _, count = name.rstrip("]").partition("[")
        yield _Parameter(name, by_position, int(count or 0), json.loads(default) if equals else _NO_DEFAULT)


def _signatures(stem: str) -> Sequence[_Signature]:
    """Return the overloads of a function; those of a method are those of the function of the same name."""
    prefix, _, name = stem.partition(".")
    return _table().get(f"Torch.{name}" if prefix == "Tensor" else stem, ())


def _by_parameter(leaves: Sequence[Leaf], signature: _Signature, phase: str) -> dict[str, list[Leaf]] | None:
    """Return the leaves of a call by parameter; None where the call does not fit the signature."""
    positional = [parameter.name for parameter in signature.values() if parameter.by_position]
    result: dict[str, list[Leaf]] = {}
    for leaf in leaves:
        first, *rest = leaf.suffix.split(".")[2:] or [""]
        if phase == Phase.BACKWARD.value and rest and not rest[0].isdigit():
            first = rest[0]  # the gradients of arguments by name follow those by position
        if first.isdigit():
            name = positional[int(first)] if int(first) < len(positional) else ""
        else:
            name = _OTHER_NAMES.get(first, first)
        if name not in signature:
            return None
        result.setdefault(name, []).append(leaf)
    required = (parameter.name for parameter in signature.values() if parameter.default is _NO_DEFAULT)
    fits = phase == Phase.BACKWARD.value or all(name in result for name in required)
    return result if fits else None


def _paired(signature: _Signature, sides: tuple[dict[str, list[Leaf]], ...], phase: str) -> Iterator[tuple[Any, Any]]:
    """Yield the pairs of leaves of each parameter that a call gives."""
    for parameter in signature.values():
        target, golden = (side.get(parameter.name, []) for side in sides)
        if phase == Phase.BACKWARD.value:
            target, golden = _with_nulls(target, golden), _with_nulls(golden, target)
        elif not target or not golden:
            target, golden = target or _defaults(parameter, golden), golden or _defaults(parameter, target)
        target, golden = _as_numbers(target, golden), _as_numbers(golden, target)
        if parameter.numbers and len(target) != len(golden):
            target, golden = _repeated(target, golden), _repeated(golden, target)
        for place in range(max(len(target), len(golden))):
            yield _at(target, place), _at(golden, place)


def _defaults(parameter: _Parameter, given: Sequence[Leaf]) -> list[Leaf]:
    """Return what a call gets that leaves a parameter out which the other call gives."""
    if not given or parameter.default is _NO_DEFAULT:
        return []
    several = isinstance(parameter.default, list)
    suffix = given[0].suffix.rpartition(".")[0] if several and len(given) > 1 else given[0].suffix
    values = parameter.default if several else [parameter.default]
    return [Leaf(f"{suffix}.{place}" if several else suffix, INPUT, _recorded(v)) for place, v in enumerate(values)]


def _recorded(value: Any) -> Any:
    return None if value is None else {"type": type(value).__name__, "value": value}


def _as_numbers(leaves: list[Leaf], others: Sequence[Leaf]) -> list[Leaf]:
    """Return a size, which a call is given as one value, as the numbers that the other side gives in its place."""
    values = leaves[0].raw.get("value") if len(leaves) == 1 and isinstance(leaves[0].raw, dict) else None
    each = [one.raw.get("value") for one in others if isinstance(one.raw, dict)]
    if not isinstance(values, list) or len(values) != len(others) or any(isinstance(value, list) for value in each):
        return leaves
    return [Leaf(other.suffix, INPUT, _recorded(value)) for other, value in zip(others, values, strict=True)]


def _repeated(leaves: list[Leaf], others: Sequence[Leaf]) -> list[Leaf]:
    """Return one number as many times as the other side gives it."""
    if len(leaves) != 1 or is_tensor(leaves[0].raw) or any(is_tensor(leaf.raw) for leaf in others):
        return leaves
    return [leaves[0]._replace(suffix=other.suffix) for other in others]


def _with_nulls(leaves: list[Leaf], others: Sequence[Leaf]) -> list[Leaf]:
    """Return the gradients of a parameter; null is what a side lacks for which the other one has null."""
    if not leaves and others and all(leaf.raw is None for leaf in others):
        return list(others)
    return leaves


def _with_null(pair: tuple[Leaf | None, Leaf | None]) -> tuple[Leaf | None, Leaf | None]:
    """Return a pair of gradients, in which null on one side and nothing on the other are the same."""
    leaf = pair[0] or pair[1]
    return (leaf, leaf) if leaf is not None and leaf.slot == OUTPUT and leaf.raw is None else pair


def _at(leaves: Sequence[Leaf], place: int) -> Leaf | None:
    return leaves[place] if place < len(leaves) else None


def pairs_in_order(phase: str, found: Pairs) -> Pairs:
    """Return the pairs of leaves of two calls of a module, in which positional arguments pair by likeness and order,
    where one call has more of them; ``found`` are pairs of leaves by their place in the records."""
    slot = OUTPUT if phase == Phase.BACKWARD.value else INPUT
    sides = [_positional([leaf for pair in found if (leaf := pair[side]) is not None], slot) for side in (0, 1)]
    if len(sides[0]) == len(sides[1]) or not all(sides):
        return found
    moved = {id(leaf) for side in sides for argument in side for leaf in argument}
    return _aligned(*sides) + [pair for pair in found if not any(id(leaf) in moved for leaf in pair if leaf)]


def _positional(leaves: Sequence[Leaf], slot: str) -> list[_Argument]:
    """Return the leaves of each positional argument, in their order."""
    arguments: dict[int, _Argument] = {}
    for leaf in leaves:
        place = leaf.suffix.split(".")[2:3]
        if leaf.slot == slot and place and place[0].isdigit():
            arguments.setdefault(int(place[0]), []).append(leaf)
    return [arguments[place] for place in sorted(arguments)]


def _aligned(target: list[_Argument], golden: list[_Argument]) -> Pairs:
    from msprobe.compare.alignment.sequence_alignment import weighted_subsequence  # loaded where calls differ

    def weights(i: int, start: int, stop: int) -> Any:
        return np.array([_likeness(target[i], other) for other in golden[start:stop]])

    result: Pairs = []
    i = j = 0
    for own, other in [*weighted_subsequence(len(target), len(golden), weights), (len(target), len(golden))]:
        result += [(leaf, None) for argument in target[i:own] for leaf in argument]
        result += [(None, leaf) for argument in golden[j:other] for leaf in argument]
        if own < len(target):
            result += zip(target[own], golden[other], strict=True)
        i, j = own + 1, other + 1
    return result


def _likeness(target: _Argument, golden: _Argument) -> float:
    """Return how much two arguments are alike; 0 for those that cannot be one."""
    if len(target) != len(golden):
        return 0.0
    return min(_of_leaves(*both) for both in zip(target, golden, strict=True))


def _of_leaves(target: Leaf, golden: Leaf) -> float:
    left, right = target.raw, golden.raw
    if not (is_tensor(left) and is_tensor(right)):
        if is_tensor(left) or is_tensor(right):
            return 0.0
        return _EQUAL if left == right else _OF_ONE_TYPE
    if left["shape"] != right["shape"] or left["dtype"] != right["dtype"]:
        return 0.0
    return _EQUAL if same_values(left, right) else _ALIKE
