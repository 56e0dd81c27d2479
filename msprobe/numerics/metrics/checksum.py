"""Checksum cells: what stands in the digest columns, and when two digests agree."""

from __future__ import annotations

import zlib

ABSENT = ("N/A", "Nan", "None", "")


def text_checksum(text: str) -> str:
    """CRC-32 of ``text`` in UTF-8 as 8 hex digits: the digest of an argument that is no tensor."""
    return f"{zlib.crc32(text.encode('utf-8', 'backslashreplace')):08x}"


def is_digest(cell: str) -> bool:
    """False for the texts that say a digest is missing."""
    return cell not in ABSENT
