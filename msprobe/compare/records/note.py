"""Sentences beside a verdict that count things: those of several steps and ranks become one."""

from __future__ import annotations

from collections.abc import Iterable


class Note(str):
    """A sentence about things of one kind, which can be added to others of its kind; everywhere else it is a text.

    Args:
        count: how many there are.
        one: what is said of a single one: ``1 call differs``; "" for the same as of several.
        many: what is said of several, with braces for their number: ``{} calls differ``.
        first: the first of them; "" where none is named.
        after: what is said behind it.
    """

    _parts: tuple[int, str, str, str, str]

    def __new__(cls, count: int, one: str, many: str, first: str = "", after: str = "") -> Note:
        text = one if one and count == 1 else many.format(count)
        note = super().__new__(cls, f"{text} (first: {first}){after}" if first else f"{text}{after}")
        note._parts = count, one, many, first, after
        return note

    def __getnewargs__(self) -> tuple[int, str, str, str, str]:  # type: ignore[override]  # those of ``__new__``
        return self._parts

    @property
    def kind(self) -> tuple[str, str]:
        """What is said, whatever the number and the first of the things."""
        return self._parts[2], self._parts[4]


def merged_notes(notes: Iterable[str]) -> list[str]:
    """Return each sentence once, and one for all that say the same of other things, in the order of the first."""
    found: dict[object, str] = {}
    for note in notes:
        key = note.kind if isinstance(note, Note) else note
        before = found.get(key)
        if isinstance(note, Note) and isinstance(before, Note):
            count, *words = before._parts
            found[key] = Note(count + note._parts[0], *words)
        else:
            found.setdefault(key, note)
    return list(found.values())
