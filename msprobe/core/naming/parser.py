"""Parse entry names. No other module splits entry names at dots.

API names end in ``<int>.<phase>``, module names in ``<phase>[.<int>]``. The first word and the form of the end decide
which of them a text is.
"""

from __future__ import annotations

from functools import lru_cache

from msprobe.core.naming.names import (
    MODULE_PREFIXES,
    ApiName,
    DebugName,
    EntryName,
    ModuleName,
    Phase,
    Slot,
    TensorName,
)

_CALL_PHASES = {"forward": Phase.FORWARD, "backward": Phase.BACKWARD}
_MODULE_PHASES = {phase.value: phase for phase in Phase}
_SLOTS = {slot.value: slot for slot in Slot}


class NameSyntaxError(ValueError):
    """A text is no entry name; ``position`` is the offset of the first wrong part."""

    def __init__(self, text: str, position: int, expected: str) -> None:
        super().__init__(f"{text!r} is not an entry name: expected {expected} at offset {position}")
        self.text = text
        self.position = position


_MOST_DIGITS = 18
"""Nobody counts further, and Python makes no numbers of some thousand digits."""


def is_number(part: str) -> bool:
    """Return whether ``part`` is a call number: ASCII decimal digits without a sign."""
    return part.isascii() and part.isdigit() and len(part) <= _MOST_DIGITS


@lru_cache(1 << 14)
def parse_entry(text: str) -> EntryName:
    """Parse a key of dump.json; the ranks of a model, and both sides of a comparison, have the same ones.

    Raises:
        NameSyntaxError: the text is neither an API, a module nor a debug name.
    """
    stem, phase, call = split_entry(text)
    prefix, _, rest = stem.partition(".")
    if prefix in MODULE_PREFIXES:
        path, _, cls = rest.rpartition(".")
        return ModuleName(prefix, path, cls, _MODULE_PHASES[phase], call)
    if call is None or not phase:
        return DebugName(stem, call or 0)
    return ApiName(prefix, rest, call, _CALL_PHASES[phase])


def split_entry(text: str) -> tuple[str, str, int | None]:
    """Return stem, phase ("" for a debug name) and call number of a key of dump.json.

    It takes a fraction of the time of ``parse_entry``.

    Raises:
        NameSyntaxError: see ``parse_entry``.
    """
    parts = text.split(".")
    if "" in parts:
        raise NameSyntaxError(text, _offset(parts, parts.index("")), "a non-empty part")
    if parts[0] in MODULE_PREFIXES:
        return _split_module(text, parts)
    phase = parts[-1]
    if len(parts) >= 3 and phase == "debug" and is_number(parts[-2]):
        phase = ""
    elif phase not in _CALL_PHASES:
        raise NameSyntaxError(text, _offset(parts, len(parts) - 1), "forward or backward")
    elif len(parts) < 4 or not is_number(parts[-2]):
        raise NameSyntaxError(text, _offset(parts, max(len(parts) - 2, 0)), "PREFIX.API.NUMBER.PHASE")
    return ".".join(parts[:-2]), phase, int(parts[-2])


def parse_tensor(text: str) -> TensorName:
    """Parse the name of a tensor such as ``Torch.max.0.forward.output.1``, without a file suffix.

    The entry is the longest beginning that is an entry name followed by a slot word, so module paths may contain slot
    words.

    Raises:
        NameSyntaxError: no such head exists.
    """
    parts = text.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        slot = _SLOTS.get(parts[cut])
        if slot is None:
            continue
        try:
            entry = parse_entry(".".join(parts[:cut]))
        except NameSyntaxError:
            continue
        return TensorName(entry, slot, tuple(parts[cut + 1 :]))
    raise NameSyntaxError(text, 0, "ENTRY.input|kwargs|output|parameters")


def _split_module(text: str, parts: list[str]) -> tuple[str, str, int | None]:
    call = int(parts[-1]) if is_number(parts[-1]) else None
    tail = len(parts) - (1 if call is None else 2)
    phase = parts[tail] if tail > 0 else ""
    if phase not in _MODULE_PHASES:
        raise NameSyntaxError(text, _offset(parts, max(tail, 0)), "forward, backward or parameters_grad")
    if call is None and phase != Phase.PARAMETERS_GRAD.value:
        raise NameSyntaxError(text, len(text), "a call number")
    if tail < 2:
        raise NameSyntaxError(text, _offset(parts, tail), "a class name before the phase")
    return ".".join(parts[:tail]), phase, call


def _offset(parts: list[str], index: int) -> int:
    return sum(len(part) + 1 for part in parts[:index])
