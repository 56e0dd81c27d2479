"""Check the header of a dump.json for fields that this version of msprobe does not know, and say so.

Without such a note a reader would take them for understood.
"""

from __future__ import annotations

from msprobe.compare.alignment import cross_framework
from msprobe.core.store.reader import Dump

_KNOWN = frozenset({"task", "level", "framework", "dump_data_dir"})
_OWN = frozenset(  # msprobe adds them to the format; a test says when ``DumpDocument`` has others
    {
        *("kernel_source", "producer", "record_level", "request", "why_empty"),
        *("written_by", "run", "end", "process_groups", "shared_storage", "optimizers"),
        *("gradient_calls", "scheduled_tokens"),
        *("parameters_after_step", "gradients_of_step"),
    }
)
_FORMAT = ("version", "format_version", "schema_version", "dump_version")
_TEXTS = ("level", "framework")
_SHOWN = 5


def header_notes(dump: Dump) -> list[str]:
    """Return sentences to stand beside a verdict; none for the header of an ordinary dump."""
    header, document = dump.header, dump.place.document
    notes = [cross_framework.unknown(dump)]
    notes += [
        f"{document}: its `{name}` is not a text and says nothing"
        for name in _TEXTS
        if not isinstance(header.get(name), str | None)
    ]
    unknown = sorted(header.keys() - _KNOWN - _OWN - set(_FORMAT))
    if unknown:
        names = ", ".join(unknown[:_SHOWN]) + (f" and {len(unknown) - _SHOWN} more" if unknown[_SHOWN:] else "")
        notes.append(f"{document}: fields that this version does not know and leaves out: {names}")
    return [note for note in notes if note]


def version_notes(dump: Dump) -> list[str]:
    """Return a sentence for each version field of the header; the documented format has none."""
    return [
        f"{dump.place.document} says {name} {dump.header[name]!r} of the format, and this msprobe knows none: "
        "what else it says may be read wrongly; compare it with the msprobe that wrote it"
        for name in _FORMAT
        if dump.header.get(name) is not None
    ]
