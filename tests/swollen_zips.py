"""Members of zip files that unpack to much more than they take, whatever their headers say of it."""

from __future__ import annotations

import zipfile
import zlib


def add_swollen(
    archive: zipfile.ZipFile, name: str, block: bytes, times: int, begin: bytes = b"", told: bytes | None = None
) -> None:
    """Add a member of ``begin`` and so many blocks.

    ``told`` is what its size and its checksum in the headers are those of; None for a size that is true.
    """
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    first = packer.compress(begin) + packer.flush(zlib.Z_FULL_FLUSH)
    packed = packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH)
    member = zipfile.ZipInfo(name)
    archive.writestr(member, first + packed * times + packer.flush(), zipfile.ZIP_STORED)
    member.compress_type = zipfile.ZIP_DEFLATED
    member.file_size = len(begin) + times * len(block) if told is None else len(told)
    member.CRC = 0 if told is None else zlib.crc32(told)
    assert archive.fp is not None
    after = archive.fp.tell()
    archive.fp.seek(member.header_offset)
    archive.fp.write(member.FileHeader(zip64=False))
    archive.fp.seek(after)
