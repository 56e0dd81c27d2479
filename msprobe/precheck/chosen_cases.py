"""Which recorded calls are checked, and why others are not.

White and black lists name functions (``conv1d``). With both, a function must be in the white list and not in the black
one, which is the documented rule: without an overlap the white list decides alone.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from msprobe.core.store.record_walk import OF_ONE_PROCESS
from msprobe.replay.cases import Case

NOT_CHECKED: Mapping[str, str] = {
    **dict.fromkeys(
        ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"), "its result has no values"
    ),
    "to": "it converts or moves, and computes nothing",
    "empty_with_format": "its result has no values",
}
NOT_OF_ONE_PROCESS = frozenset({"Distributed", "MindSpeed"})
_VALUES = OF_ONE_PROCESS | {"Max", "Min", "Mean", "Norm", "projection"}
"""Keys of a record that two calls of one kind may have otherwise."""


class Selection(NamedTuple):
    """What the user has chosen.

    Args:
        white, black: names of functions; an empty white list has all.
        done: names of calls that have a result already.
        one_of_a_kind: whether of calls with the same arguments but for values only the first is checked.
    """

    white: Collection[str] = ()
    black: Collection[str] = ()
    done: Collection[str] = ()
    one_of_a_kind: bool = False


class ChosenCase(NamedTuple):
    """A call, and why it is not checked; "" for one that is."""

    case: Case
    skipped: str = ""


def choose(cases: Iterable[Case], selection: Selection) -> Iterator[ChosenCase]:
    """Yield the calls to check, and those that cannot be; calls that the user did not choose are left out."""
    seen: set[str] = set()
    for case in cases:
        function = case.api.api
        if case.name in selection.done or function in selection.black:
            continue
        if selection.white and function not in selection.white:
            continue
        if case.api.prefix in NOT_OF_ONE_PROCESS:
            yield ChosenCase(case, "communication needs the other processes")
        elif function in NOT_CHECKED:
            yield ChosenCase(case, NOT_CHECKED[function])
        elif selection.one_of_a_kind and (kind := _kind(case)) in seen:
            continue
        else:
            if selection.one_of_a_kind:
                seen.add(kind)
            yield ChosenCase(case)


def unknown_names(cases: Iterable[Case], names: Collection[str]) -> list[str]:
    """Return the names of a list that no recorded call has."""
    recorded = {case.api.api for case in cases}
    return sorted(name for name in names if name not in recorded)


def _kind(case: Case) -> str:
    given = [case.forward.get("input_args"), case.forward.get("input_kwargs"), case.backward is not None]
    return f"{case.api.prefix}.{case.api.api} {json.dumps(_without_values(given), sort_keys=True, default=str)}"


def _without_values(node: Any) -> Any:
    if isinstance(node, Mapping):
        return {key: _without_values(value) for key, value in node.items() if key not in _VALUES}
    return [_without_values(each) for each in node] if isinstance(node, list) else node
