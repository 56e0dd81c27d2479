"""What a checkpoint holds: tensors by name, and what in it is not compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msprobe.core.errors import ReadError
from msprobe.core.tensors.stored import StoredTensor

_EXTRA_STATE = "_extra_state"


@dataclass(frozen=True, slots=True)
class NamedTensors:
    """``layout`` in words, ``tensors`` in the order of the checkpoint, ``skipped`` names of values that are no weights:
    numbers and texts, and ``_extra_state``, in which libraries keep bytes of their own.
    """

    layout: str
    tensors: dict[str, StoredTensor] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, layout: str, tree: Any) -> NamedTensors:
        """Flatten nested dictionaries, names joined by dots."""
        found = cls(layout)
        for name, value in _flattened("", tree):
            if isinstance(value, StoredTensor) and not name.endswith(_EXTRA_STATE):
                found.tensors[name] = value
            else:
                found.skipped.append(name)
        return found

    @classmethod
    def joined(cls, layout: str, parts: Sequence[NamedTensors]) -> NamedTensors:
        """Parts with different names as one.

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
