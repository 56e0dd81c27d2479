"""Sentences that count things become one where they say the same."""

from __future__ import annotations

import copy
import pickle

from msprobe.compare.records.note import Note, merged_notes

DIFFER = "1 call differs", "{} calls differ"


def test_what_several_steps_say_is_said_once() -> None:
    notes = [Note(1, *DIFFER, "a"), "the target ended early", Note(2, *DIFFER, "b"), "the target ended early"]
    assert merged_notes(notes) == ["3 calls differ (first: a)", "the target ended early"]


def test_other_things_are_said_by_themselves() -> None:
    notes = [Note(1, *DIFFER, "a", "; x"), Note(1, *DIFFER, "a", "; y"), Note(1, "1 row", "{} rows")]
    assert merged_notes(notes) == ["1 call differs (first: a); x", "1 call differs (first: a); y", "1 row"]


def test_a_note_of_another_process_can_be_added_to() -> None:
    note = Note(2, *DIFFER, "a")
    for same in (pickle.loads(pickle.dumps(note)), copy.deepcopy(note)):
        assert merged_notes([note, same]) == ["4 calls differ (first: a)"]
