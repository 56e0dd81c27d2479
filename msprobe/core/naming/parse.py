"""Text to name: the only place that splits entry names at dots.

API names end in ``<int>.<phase>``, module names in ``<phase>[.<int>]``; the leading word and the shape of the tail
decide.
"""

from __future__ import annotations

from msprobe.core.naming.model import (
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
    """A text that is no entry name; ``position`` is the offset of the first wrong part."""

    def __init__(self, text: str, position: int, expected: str) -> None:
        super().__init__(f"{text!r} is not an entry name: expected {expected} at offset {position}")
        self.text = text
        self.position = position


def is_number(part: str) -> bool:
    """True for the ASCII decimal numbers used as call numbers (no sign, no other script's digits)."""
    return part.isascii() and part.isdigit()


def parse_entry(text: str) -> EntryName:
    """Parse a key of dump.json.

    Raises:
        NameSyntaxError: the text is neither an API, a module nor a debug name.
    """
    parts = text.split(".")
    if "" in parts:
        raise NameSyntaxError(text, _offset(parts, parts.index("")), "a non-empty part")
    if parts[0] in MODULE_PREFIXES:
        return _parse_module(text, parts)
    if len(parts) >= 3 and parts[-1] == "debug" and is_number(parts[-2]):
        return DebugName(".".join(parts[:-2]), int(parts[-2]))
    phase = _CALL_PHASES.get(parts[-1])
    if phase is None:
        raise NameSyntaxError(text, _offset(parts, len(parts) - 1), "forward or backward")
    if len(parts) < 4 or not is_number(parts[-2]):
        raise NameSyntaxError(text, _offset(parts, max(len(parts) - 2, 0)), "PREFIX.API.NUMBER.PHASE")
    return ApiName(parts[0], ".".join(parts[1:-2]), int(parts[-2]), phase)


def parse_tensor(text: str) -> TensorName:
    """Parse a tensor place such as ``Torch.max.0.forward.output.1`` (no file suffix).

    The entry is the longest head that is an entry name followed by a slot word, so module paths may contain slot words.

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


def _parse_module(text: str, parts: list[str]) -> ModuleName:
    call = int(parts[-1]) if is_number(parts[-1]) else None
    tail = len(parts) - (1 if call is None else 2)
    phase = _MODULE_PHASES.get(parts[tail]) if tail > 0 else None
    if phase is None:
        raise NameSyntaxError(text, _offset(parts, max(tail, 0)), "forward, backward or parameters_grad")
    if call is None and phase is not Phase.PARAMETERS_GRAD:
        raise NameSyntaxError(text, len(text), "a call number")
    if tail < 2:
        raise NameSyntaxError(text, _offset(parts, tail), "a class name before the phase")
    return ModuleName(parts[0], ".".join(parts[1 : tail - 1]), parts[tail - 1], phase, call)


def _offset(parts: list[str], index: int) -> int:
    return sum(len(part) + 1 for part in parts[:index])
