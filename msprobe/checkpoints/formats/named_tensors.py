"""The content of a checkpoint: tensors by name, and the names of values that are not compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msprobe.core.errors import ReadError
from msprobe.core.store.tensor_reader import LazyTensor

_EXTRA_STATE = "_extra_state"


@dataclass(frozen=True, slots=True)
class NamedTensors:
    """The content of a checkpoint.

    Attributes:
        layout: the kind of checkpoint, in words.
        tensors: the tensors, in the order of the checkpoint.
        skipped: names of values that are not weights: numbers, texts, and ``_extra_state``, which holds private bytes
            of libraries.
    """

    layout: str
    tensors: dict[str, LazyTensor] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, layout: str, tree: Any) -> NamedTensors:
        """Flatten nested dictionaries; names are joined by dots."""
        result = cls(layout)
        for name, value in _flattened("", tree):
            if isinstance(value, LazyTensor) and not name.endswith(_EXTRA_STATE):
                result.tensors[name] = value
            else:
                result.skipped.append(name)
        return result

    @classmethod
    def joined(cls, layout: str, parts: Sequence[NamedTensors]) -> NamedTensors:
        """Join parts with different names.

        Raises:
            ReadError: two parts have the same name.
        """
        whole = cls(layout)
        for part in parts:
            twice = next((name for name in part.tensors if name in whole.tensors), None)
            if twice is not None:
                raise ReadError(f"{layout}: {twice} is in two of them")
            whole.tensors.update(part.tensors)
            whole.skipped.extend(part.skipped)
        return whole


def _flattened(head: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _flattened(f"{head}.{key}" if head else str(key), item)
    elif head:
        yield head, value
