"""The calls of a dump that can run again.

for case in cases_of(dump):
    call = prepare(case, seed=0)         # a PreparedCall, with the values of files or with drawn ones
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from msprobe.core.backend.replaying import Argument, CannotReplayError, Constant, HeldTensor, PreparedCall
from msprobe.core.errors import ReadError, error_text
from msprobe.core.host import memory_size
from msprobe.core.naming import NameSyntaxError
from msprobe.core.naming.names import ApiName, Phase
from msprobe.core.naming.parser import parse_entry
from msprobe.core.store.reader import Dump
from msprobe.core.store.record_walk import ATTRIBUTES, is_tensor, values_below
from msprobe.core.store.tensor_reader import read_tensor
from msprobe.core.tensors.dtypes import find_dtype
from msprobe.replay.drawn_values import draw
from msprobe.replay.recorded_arguments import RecordedArgument, RecordedTensor, parse_argument

_BYTES = 32
"""What an element takes at least while a call is judged: its value, that of the golden call, and two more."""
_NOT_OF_ONE_PROCESS = ("Distributed",)


@dataclass(frozen=True, slots=True)
class Case:
    """One recorded call of a function.

    Attributes:
        name: its name without the phase, ``Functional.linear.0``.
        api: the parsed name.
        forward, backward: the records; ``backward`` is None where no gradient was recorded.
        folder: the folder of tensor files.
    """

    name: str
    api: ApiName
    forward: dict[str, Any]
    backward: dict[str, Any] | None
    folder: Path


def cases_of(dump: Dump) -> Iterator[Case]:
    """Yield the calls of functions of a dump, in the order in which they were made."""
    return cases_in(dump.data, dump.tensor_folder)


def cases_in(records: Mapping[str, dict[str, Any]], folder: Path) -> Iterator[Case]:
    """Yield the calls of functions among records, whose tensor files lie in ``folder``."""
    for name, record in records.items():
        try:
            entry = parse_entry(name)
        except NameSyntaxError:
            continue
        if not isinstance(entry, ApiName) or entry.phase is not Phase.FORWARD:
            continue
        stem = f"{entry.stem}.{entry.call}"
        backward = records.get(f"{stem}.{Phase.BACKWARD.value}")
        yield Case(stem, entry, record, backward, folder)


def prepare(case: Case, seed: int = 0) -> PreparedCall:
    """Return the call with values: those of its files where the dump has them, else drawn ones.

    Args:
        case: the recorded call.
        seed: with the name of the call, it decides which values are drawn.

    Raises:
        CannotReplayError: the record does not hold what the call needs.
    """
    if case.api.prefix in _NOT_OF_ONE_PROCESS:
        raise CannotReplayError("communication needs the other processes")
    if not {"input_args", "input_kwargs"} & case.forward.keys():
        raise CannotReplayError("the dump has no arguments of this call; record it with data_mode all or input")
    values = _Values(np.random.default_rng([seed, zlib.crc32(case.name.encode())]))
    args = parse_argument(case.forward.get("input_args") or [], case.folder)
    kwargs = parse_argument(case.forward.get("input_kwargs") or {}, case.folder)
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        raise CannotReplayError("the record has no list of arguments")
    gradients = [] if case.backward is None else _arriving(case, values)
    return PreparedCall(
        case.api.prefix,
        case.api.api,
        [values.of(each) for each in args],
        {name: values.of(each) for name, each in kwargs.items()},
        gradients,
        seed,
        autocast=_autocast(case),
        attributes=_made_of(case),
    )


def _autocast(case: Case) -> str:
    """Return the dtype of the autocast in which a call was recorded; "" without one."""
    known = find_dtype(str(case.forward.get("autocast")))
    return "" if known is None else known.name


def _made_of(case: Case) -> dict[str, Argument] | None:
    """Return the arguments that made the operator of a call; its lists are tuples, which every operator takes."""
    recorded = parse_argument(case.forward.get(ATTRIBUTES), case.folder)
    if not isinstance(recorded, dict):
        return None

    def made(argument: RecordedArgument) -> Argument:
        if isinstance(argument, list):
            return tuple(map(made, argument))
        if not isinstance(argument, Constant):
            raise CannotReplayError("what made the operator is neither a number nor a text")
        return argument

    return {name: made(argument) for name, argument in recorded.items()}


def has_values(case: Case) -> bool:
    """Return whether the values of all tensor arguments of a call are in files, so that none is drawn."""
    arguments = [case.forward.get("input_args"), case.forward.get("input_kwargs")]
    return all("data_name" in leaf.raw for leaf in values_below(arguments) if is_tensor(leaf.raw))


@dataclass(frozen=True, slots=True)
class RecordedResult:
    """A tensor that a call returned when it was recorded: its neutral dtype, its shape, and its values where its file
    can be read and all arguments of the call have files too."""

    dtype: str
    shape: tuple[int, ...]
    held: HeldTensor | None = None


def recorded_results(case: Case) -> list[RecordedResult | None]:
    """Return what a call returned when it was recorded, containers unfolded; None for what is no tensor."""
    try:
        results = parse_argument(case.forward.get("output") or [], case.folder)
    except CannotReplayError:
        return []
    with_values = has_values(case)
    return [
        RecordedResult(leaf.dtype, leaf.shape, _read(leaf) if with_values else None)
        if isinstance(leaf, RecordedTensor)
        else None
        for leaf in _leaves(results)
    ]


def _leaves(argument: RecordedArgument) -> Iterator[RecordedTensor | Constant]:
    if isinstance(argument, (list, dict)):
        for each in argument.values() if isinstance(argument, dict) else argument:
            yield from _leaves(each)
    else:
        yield argument


def _read(result: RecordedTensor) -> HeldTensor | None:
    if result.file is None:
        return None
    try:
        return HeldTensor(read_tensor(result.file), result.dtype)
    except (ReadError, OSError):
        return None


def _arriving(case: Case, values: _Values) -> list[HeldTensor | None]:
    """Return the gradients that arrived at the results of the call."""
    assert case.backward is not None
    given = parse_argument(case.backward.get("input") or [], case.folder)
    arriving: list[HeldTensor | None] = []
    for each in given if isinstance(given, list) else []:
        held = values.of(each)
        arriving.append(held if isinstance(held, HeldTensor) else None)
    return arriving


class _Values:
    """Gives recorded arguments their values."""

    def __init__(self, generator: np.random.Generator) -> None:
        self._generator = generator

    def of(self, argument: RecordedArgument) -> Argument:
        if isinstance(argument, Constant):
            return argument
        if isinstance(argument, RecordedTensor):
            return self._tensor(argument)
        if isinstance(argument, dict):
            return {name: self.of(each) for name, each in argument.items()}
        return [self.of(each) for each in argument]

    def _tensor(self, tensor: RecordedTensor) -> HeldTensor:
        if math.prod(tensor.shape) * _BYTES > memory_size():
            raise CannotReplayError(f"a tensor of shape {list(tensor.shape)} is too large for the memory here")
        if tensor.file is None:
            return HeldTensor(draw(tensor, self._generator).values, tensor.dtype, tensor.requires_grad)
        try:
            values = read_tensor(tensor.file)
        except (ReadError, OSError) as error:
            raise CannotReplayError(error.error_info if isinstance(error, ReadError) else error_text(error)) from error
        if values.shape != tensor.shape:
            raise CannotReplayError(f"{tensor.file}: holds the shape {values.shape}, and the record {tensor.shape}")
        return HeldTensor(values, tensor.dtype, tensor.requires_grad)
