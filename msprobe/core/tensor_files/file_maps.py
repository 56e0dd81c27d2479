"""Where a file is mapped into the memory of this process: from an address to the place in the file (Linux)."""

from __future__ import annotations

import os
from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path

_MAPS = Path("/proc/self/maps")


@dataclass(frozen=True, slots=True)
class FileMaps:
    """The maps of one file, in the order of their addresses: begin, end, and the place in the file of the begin.

    It is empty where the system does not list maps; elements are then read through the map.
    """

    maps: tuple[tuple[int, int, int], ...] = ()

    @classmethod
    def of(cls, path: Path) -> FileMaps:
        """Return the maps that exist now.

        The format of the list (proc_pid_maps(5)): ``begin-end permissions offset major:minor inode path``.
        """
        try:
            status = path.stat()
            lines = _MAPS.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return cls()
        device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
        found = []
        for line in lines:
            span, _, offset, on, inode, *_ = line.split(maxsplit=5)
            if inode == str(status.st_ino) and on == device:
                begin, end = (int(address, 16) for address in span.split("-"))
                found.append((begin, end, int(offset, 16)))
        return cls(tuple(sorted(found)))

    def place_of(self, address: int, size: int) -> int | None:
        """Return the place in the file of the bytes at an address; None where they are not all in one map of it."""
        index = bisect_right(self.maps, (address, 1 << 64, 0)) - 1
        if index < 0:
            return None
        begin, end, offset = self.maps[index]
        return offset + address - begin if begin <= address and address + size <= end else None
