"""What the head of a dump.json says that this version of the tool does not know: it must not pass for understood."""

from __future__ import annotations

from msprobe.compare.alignment import cross_framework
from msprobe.core.store.reader import Dump

_KNOWN = frozenset({"task", "level", "framework", "dump_data_dir"})
_OWN = frozenset({"kernel_source", "producer", "record_level", "request"})  # of our own dumps
_FORMAT = ("version", "format_version", "schema_version", "dump_version")
_TEXTS = ("level", "framework")
_SHOWN = 5


def header_notes(dump: Dump) -> list[str]:
    """Sentences to stand beside a verdict; none for the header of an ordinary dump."""
    header, document = dump.header, dump.place.document
    found = [cross_framework.unknown(dump)]
    found += [
        f"{document}: its `{name}` is not a text and says nothing"
        for name in _TEXTS
        if not isinstance(header.get(name), str | None)
    ]
    strange = sorted(header.keys() - _KNOWN - _OWN - set(_FORMAT))
    if strange:
        names = ", ".join(strange[:_SHOWN]) + (f" and {len(strange) - _SHOWN} more" if strange[_SHOWN:] else "")
        found.append(f"{document}: fields that this version does not know and leaves out: {names}")
    return [note for note in found if note]


def version_notes(dump: Dump) -> list[str]:
    """A sentence for each format version that is said; the documented format has none."""
    return [
        f"{dump.place.document} says {name} {dump.header[name]!r} of the format, and this msprobe knows none: "
        "what else it says may be read wrongly; compare it with the msprobe that wrote it"
        for name in _FORMAT
        if dump.header.get(name) is not None
    ]
