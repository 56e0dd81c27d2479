"""The leaves of a record of dump.json, each with its path: the one walk over recorded values.

A record has sections (inputs, parameters, outputs) that nest lists and objects. A leaf is what stands at the end of a
path: a tensor or another described argument (an object with a text under ``type``), a plain number or text, or null.
The record

    {"input_args": [{"type": "torch.Tensor", ...}, [null, {"type": "int", "value": 2}]]}

has the leaves ``.input.0``, ``.input.1.0`` and ``.input.1.1``. An empty list or object has none.

``leaves`` walks one record, ``leaves_of_both`` two records of the same structure at once, and ``values_below`` any part
of a record. ``with_changed_values`` copies a part of a record with other leaves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from typing import Any, NamedTuple, cast

from msprobe.core.errors import ReadError
from msprobe.core.tensors.statistics import PROJECTION, STATISTIC_NAMES, recorded_number

INPUT, PARAMETER, OUTPUT, PARAMETER_GRAD, VALUE = "input", "parameters", "output", "parameters_grad", "debug"
"""The slots of leaves. ``VALUE`` is for what ``save`` recorded, ``PARAMETER_GRAD`` for gradients of parameters."""

SECTIONS = (
    ("input_args", INPUT, ".input"),
    ("input_kwargs", INPUT, ".input"),
    ("input", INPUT, ".input"),
    ("parameters", PARAMETER, ".parameters"),
    ("output", OUTPUT, ".output"),
)
"""The sections of a record in row order, each with the slot and the path of what is below it."""

SHARD = "shard"
"""Key of a tensor of which the program said what this rank holds: ``[{"dim": 0, "group": [0, 1]}]``, an item for each
group of ranks that it is spread over; a ``dim`` of null says that every rank of the group holds the whole."""
ATTRIBUTES = "attributes"
"""Key of a call of an operator that is an object (a primitive of MindSpore): the arguments that made it, by name."""
VMAP_AXES = "vmap_axes"
"""Key of a tensor inside a transform of functions: how many axes in front of its shape are those that ``vmap`` maps
over."""
FED = "fed"
"""Key of a tensor that a module was fed: how far the live one was from it, relative to its largest element."""
INPUTS_FED = "inputs_fed"
"""Field of the header of a step in which modules are fed: where the inputs lie."""
SAMPLED = "sampled"
"""Field of the header that says which part of the steps and calls was recorded."""
NOT_MEASURED = "not_measured"
"""Field of the header that lists what ran and could not be measured: ``Cell.head.Dense`` for all calls of a module,
``Cell.head.Dense.backward`` for its backward calls."""
UNINITIALISED, NOT_READ, NO_DATA = "uninitialised", "not_read", "no_data"
"""The keys that say, with the value true, why a tensor has no values: nobody has written its memory, the operation that
was given the tensor does not read it, or it had no data of its own (a meta tensor, the result of communication that the
program had not waited for)."""

MEMORY, PART = "memory", "part"
"""Keys of a tensor: the number of its storage in this process and the version of its content, ``17.3`` (``17`` where
nothing counts the writes); and its offset and strides in elements, ``4:12,1``, where it does not lie at the begin of
the storage with its elements in order."""
OF_ONE_PROCESS = frozenset({"md5", "data_name", MEMORY, PART})
"""Keys of a tensor that say nothing of it where it was put together from those of several processes."""

_DEEPEST = 400
_DEEPEST_OF_BOTH = 30
_OPERATION = "torch.distributed.P2POp"


class Leaf(NamedTuple):
    """One recorded value: its path in the record, its slot and its JSON node."""

    suffix: str
    slot: str
    raw: Any


LOST_ARGUMENTS = "not_recorded"
"""The keyword argument by which the record of a call says that it has not all arguments of the call."""


def lost_arguments(record: Any) -> bool:
    """Return whether the record of a call says that it has not all arguments of the call."""
    keywords = record.get("input_kwargs") if type(record) is dict else None  # a saved value is no call
    return type(keywords) is dict and LOST_ARGUMENTS in keywords


# Half the time of Leaf(...), which matters for hundreds of thousands of them.
_leaf = cast(Callable[[tuple[str, str, Any]], Leaf], partial(tuple.__new__, Leaf))


def is_tensor(raw: Any) -> bool:
    """Return whether a node has a dtype and a shape: tensors and arrays."""
    return type(raw) is dict and "dtype" in raw and "shape" in raw


def has_no_values(raw: Mapping[str, Any]) -> bool:
    """Return whether a tensor says that it has no values, and why."""
    return UNINITIALISED in raw or NOT_READ in raw or NO_DATA in raw


def is_value(node: Any) -> bool:
    """Return whether a node is a tensor or another described argument."""
    return type(node) is dict and type(node.get("type")) is str


def leaves(name: str, body: Any) -> list[Leaf]:
    """Return the leaves of the record of entry ``name`` in row order.

    An operation of ``batch_isend_irecv`` is one leaf: the tensor that it moves, with the operation under ``p2p``.

    Raises:
        ReadError: the nesting is too deep to be a record.
    """
    result: list[Leaf] = []
    if name.endswith(".debug"):
        _walk(result, ".", VALUE, body, 0, operations=True)
    elif ".parameters_grad" in name[-30:] and isinstance(body, dict) and not _is_call(body):
        for parameter, values in body.items():
            for value in values if isinstance(values, list) else [values]:
                result.append(Leaf(f".{parameter}", PARAMETER_GRAD, value))
    elif isinstance(body, dict):
        for section, slot, path in SECTIONS:
            node = body.get(section)
            if node:
                _walk(result, f"{path}.", slot, node, 0, operations=True)
    return result


def values_below(node: Any, path: str = "") -> list[Leaf]:
    """Return the tensors and described arguments below any part of a record, without slots.

    The paths begin with ``path``; an empty one has no dot behind it. Null, plain numbers and texts are left out.

    Raises:
        ReadError: the nesting is too deep to be a record.
    """
    result: list[Leaf] = []
    _walk(result, f"{path}." if path else "", "", node, 0, operations=False)
    return [leaf for leaf in result if type(leaf[2]) is dict]


def _is_call(body: Mapping[str, Any]) -> bool:
    return "input" in body or "input_args" in body or "output" in body


def _walk(result: list[Leaf], prefix: str, slot: str, node: Any, depth: int, *, operations: bool) -> None:
    """Append the leaves below ``node``; their paths begin with ``prefix``, which ends with a dot or is empty.

    ``operations`` makes one leaf of each operation of ``batch_isend_irecv``.
    """
    if depth > _DEEPEST:
        raise ReadError(f"a record is nested deeper than {_DEEPEST} levels at {prefix[:60]}...; the dump is damaged")
    if type(node) is list:
        children: Any = enumerate(node)
    elif type(node) is not dict or type(node.get("type")) is str:
        result.append(_leaf((prefix[:-1], slot, node)))
        return
    elif operations and node.get("class_type") == _OPERATION:
        result.append(_leaf((prefix[:-1], slot, _moved_tensor(node))))
        return
    else:
        children = node.items()
    for key, child in children:
        if child is None or (type(child) is dict and type(child.get("type")) is str):
            result.append(_leaf((f"{prefix}{key}", slot, child)))
        else:
            _walk(result, f"{prefix}{key}.", slot, child, depth + 1, operations=operations)


def _moved_tensor(operation: Mapping[str, Any]) -> dict[str, Any]:
    tensor = operation.get("tensor")
    p2p = {key: operation.get(key) for key in ("op", "peer", "tag")}
    return {**(tensor if type(tensor) is dict else {}), "p2p": p2p}


def leaves_of_both(name: str, golden_name: str, body: Any, golden_body: Any) -> tuple[list[Leaf], list[Leaf]] | None:
    """Return what ``leaves`` finds in the records of two entries, in one walk that makes each path once for both.

    None says that the structures differ, or that only ``leaves`` can tell: these are no calls, the records hold plain
    numbers or texts, operations of ``batch_isend_irecv``, or deep nesting.
    """
    if type(body) is not dict or type(golden_body) is not dict:
        return None
    if _is_special(name) or (golden_name != name and _is_special(golden_name)):
        return None
    result: tuple[list[Leaf], list[Leaf]] = [], []
    for section, slot, path in SECTIONS:
        left, right = body.get(section), golden_body.get(section)
        if (left or right) and not (left and right and _walk_both(result, path, slot, (left, right), 0)):
            return None
    return result


def _walk_both(result: tuple[list[Leaf], list[Leaf]], path: str, slot: str, nodes: tuple[Any, Any], depth: int) -> bool:
    """Append the leaves below two nodes; return False when their structures differ."""
    left, right = nodes
    if type(left) is list and type(right) is list and len(left) == len(right):
        paths, children = _numbered(path, len(left)), zip(left, right, strict=True)
    elif _is_object(left) and _is_object(right) and list(left) == list(right):
        paths, children = _named(path, tuple(left)), zip(left.values(), right.values(), strict=True)
    else:
        return False
    lefts, rights = result
    for child_path, (one, other) in zip(paths, children, strict=True):
        # ``is_value`` of both; two calls for each leaf would take as long as the rest of the walk.
        values = type(one) is type(other) is dict and type(one.get("type")) is type(other.get("type")) is str
        if values or (one is None and other is None):
            lefts.append(_leaf((child_path, slot, one)))
            rights.append(_leaf((child_path, slot, other)))
        elif depth == _DEEPEST_OF_BOTH or not _walk_both(result, child_path, slot, (one, other), depth + 1):
            return False
    return True


@lru_cache(4096)
def _numbered(path: str, count: int) -> tuple[str, ...]:
    """Return the paths of the items of a list; few lists of paths serve many records."""
    return tuple(f"{path}.{number}" for number in range(count))


@lru_cache(4096)
def _named(path: str, keys: tuple[Any, ...]) -> tuple[str, ...]:
    """Return the paths of the values of an object with these keys."""
    return tuple(f"{path}.{key}" for key in keys)


def _is_special(name: str) -> bool:
    return name.endswith(".debug") or ".parameters_grad" in name


def _is_object(node: Any) -> bool:
    return type(node) is dict and "class_type" not in node and type(node.get("type")) is not str


def with_changed_values(node: Any, change: Callable[[dict[str, Any]], Any]) -> Any:
    """Return a copy of ``node`` in which ``change`` replaced every tensor and described argument.

    Raises:
        ReadError: the nesting is too deep to be a record.
    """
    return _changed(node, change, 0)


def _changed(node: Any, change: Callable[[dict[str, Any]], Any], depth: int) -> Any:
    if depth > _DEEPEST:
        raise ReadError(f"a record is nested deeper than {_DEEPEST} levels; the dump is damaged")
    if is_value(node):
        return change(node)
    if type(node) is list:
        return [_changed(child, change, depth + 1) for child in node]
    if type(node) is dict:
        return {key: _changed(child, change, depth + 1) for key, child in node.items()}
    return node


_NUMBERS = frozenset({*STATISTIC_NAMES, PROJECTION})
MOST_ELEMENTS = 1 << 63
"""No tensor has so many elements."""


def first_damage(document: Mapping[str, Any]) -> str:
    """Return the first place of a dump.json at which a tensor is not what a tensor is, and why; "" where there is none.

    Records are not checked when they are read, which would take longer than reading them. Where a tool fails over a
    record, this says whether the record is to blame.
    """
    return next(_wrong_tensors(document, []), "")


def _wrong_tensors(node: Any, place: list[str | int]) -> Iterator[str]:
    items: Any = node.items() if isinstance(node, Mapping) else enumerate(node)
    if is_tensor(node):
        for key, problem in _damaged_fields(node):
            first, *others = [*place, key]
            yield f"{first}{''.join(f'[{other!r}]' for other in others)}: {problem}"
    for key, value in items:
        if isinstance(value, (dict, list)):
            yield from _wrong_tensors(value, [*place, key])


def damage_of(tensor: Mapping[str, Any]) -> str:
    """Return the first field of a described tensor that is not what it should be, and why; "" where there is none."""
    return next((f"{key}: {problem}" for key, problem in _damaged_fields(tensor)), "")


def form_damage(tensor: Mapping[str, Any]) -> str:
    """Return what ``damage_of`` does of the dtype and the shape alone."""
    return damage_of({"dtype": tensor["dtype"], "shape": tensor["shape"]})


def _damaged_fields(tensor: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in tensor.items():
        problem = _problem_of(key, value, tensor.get("dtype"))
        if problem:
            yield key, problem


def _problem_of(key: str, value: Any, dtype: Any) -> str:
    """Return what is wrong with a field of a tensor; "" for a right one, and for a key that others may write."""
    if key in _NUMBERS:
        try:
            recorded_number(value, dtype)
        except ValueError as error:
            return str(error)
        return ""
    if key == "shape":
        return "" if _can_be_shape(value) else "no list of lengths"
    if key == "dtype":
        return "" if type(value) is str else "no text"
    return "no text" if key in ("type", "md5") and isinstance(value, (list, dict)) else ""


def _can_be_shape(value: Any) -> bool:
    """Return whether a tensor can have this shape; null is a length that differs between the parts of a nested one."""
    if type(value) is not list:
        return False
    lengths = [length for length in value if length is not None]
    if not all(isinstance(length, (int, float)) and length >= 0 and length == length // 1 for length in lengths):
        return False
    return math.prod(map(int, lengths)) < MOST_ELEMENTS
