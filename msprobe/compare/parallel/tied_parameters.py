"""Parameters that one layout holds twice: an embedding whose copy lies on the last pipeline stage.

Where both uses lie on one rank, the second module is given the parameter of the first. So a parameter that only one
side has is a copy, if it equals one that both sides have; its gradients are summands of that one's gradient.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from msprobe.compare.parallel.arrangement import HOLDER, Coordinates
from msprobe.compare.parallel.identity import Call, Key
from msprobe.compare.parallel.pieces import Piece, piece_of
from msprobe.core.naming import Phase

Calls = dict[Key, dict[Coordinates, Call]]
_Parameter = tuple[str, str]


def tie(target: Calls, golden: Calls) -> None:
    """Make the copies that only one side has one parameter with their originals. Both sides are changed."""
    for own, other in ((target, golden), (golden, target)):
        parameters, known = dict(_parameters(own)), dict(_parameters(other))
        for copy in [each for each in parameters if each not in known and _has_module(other, each[0])]:
            original = next(
                (each for each in parameters if each in known and _agree(parameters[each], parameters[copy])), None
            )
            if original is not None:
                _forget_parameter(own, copy)
                _forget_argument(other, copy, parameters[copy])
                _add_gradients(own, copy, original)


def _parameters(calls: Calls) -> Iterator[tuple[_Parameter, dict[Coordinates, Piece]]]:
    """Yield each parameter, by the path of its module and its name, with its pieces by rank of tensor parallelism."""
    for key, own in calls.items():
        if key.phase is not Phase.FORWARD or key.turn or key.micro:
            continue
        names = dict.fromkeys(name for call in own.values() for name in call.body.get("parameters") or ())
        for name in names:
            pieces = ((place, piece_of(call.body.get("parameters", {}).get(name))) for place, call in own.items())
            yield (key.path, name), {place[:1]: piece for place, piece in pieces if piece is not None}


def _agree(left: Mapping[Coordinates, Piece], right: Mapping[Coordinates, Piece]) -> bool:
    return left.keys() == right.keys() and all(piece.agrees(right[place]) for place, piece in left.items())


def _has_module(calls: Calls, path: str) -> bool:
    return Key(path, Phase.FORWARD, 0, 0) in calls


def _forget_parameter(calls: Calls, copy: _Parameter) -> None:
    for key, place, call in _of_module(calls, copy[0], Phase.FORWARD):
        kept = {name: raw for name, raw in (call.body.get("parameters") or {}).items() if name != copy[1]}
        calls[key][place] = replace(call, body={**call.body, "parameters": kept})


def _forget_argument(calls: Calls, copy: _Parameter, pieces: Mapping[Coordinates, Piece]) -> None:
    """Take the parameter out of the arguments of a module that is given it; its gradient belongs to the original."""
    sizes = sum(piece.numel for piece in pieces.values()), next(iter(pieces.values())).numel
    for key, place, call in _of_module(calls, copy[0], Phase.FORWARD):
        given = call.body.get("input_args")
        if isinstance(given, list) and len(given) > 1:
            kept = [given[0], *(None if _numel(raw) in sizes else raw for raw in given[1:])]
            calls[key][place] = replace(call, body={**call.body, "input_args": kept})
    for key, place, call in _of_module(calls, copy[0], Phase.BACKWARD):
        made = call.body.get("output")
        if isinstance(made, list) and len(made) > 1:
            kept = [made[0], *(None if _numel(raw) in sizes else raw for raw in made[1:])]
            calls[key][place] = replace(call, body={**call.body, "output": kept})


def _numel(raw: Any) -> int | None:
    piece = piece_of(raw)
    return None if piece is None else piece.numel


def _add_gradients(calls: Calls, copy: _Parameter, original: _Parameter) -> None:
    """Make the gradients of a copy summands of the gradient of the original."""
    for key, place, call in _of_module(calls, copy[0], Phase.PARAMETERS_GRAD):
        gradient = call.body.get(copy[1])
        rest = {name: raw for name, raw in call.body.items() if name != copy[1]}
        if gradient is None:
            continue
        if rest:
            calls[key][place] = replace(call, body=rest)
        else:
            del calls[key][place]
            if not calls[key]:
                del calls[key]
        own = key._replace(path=original[0])
        holder = (*place[:HOLDER], 1, *place[HOLDER + 1 :])
        calls.setdefault(own, {})[holder] = replace(call, key=own, body={original[1]: gradient})


def _of_module(calls: Calls, path: str, phase: Phase) -> list[tuple[Key, Coordinates, Call]]:
    return [
        (key, place, call)
        for key, own in calls.items()
        if key.path == path and key.phase is phase
        for place, call in own.items()
    ]
