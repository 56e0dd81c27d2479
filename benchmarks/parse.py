"""What ``msprobe parse`` takes for large files of ATB and ACL, in ratio to reading and writing as many bytes.

python benchmarks/parse.py [--size MB] [--rounds N] [--folder DIR] [--cold]

Each round reads the file in pieces of 1 MB and writes them to another one, then converts it to ``.npy``; both files lie
in the page cache before. Likewise the file is read alone, and then shown (``--show``). The rows are medians of the
ratios within a round; the CPU ratio is that of the seconds of the processor, which other work disturbs less. With
``--cold`` the file is taken out of the page cache before each of the four. In bfloat16 a ``.npy`` has twice the bytes
of the file, and the plain copy writes as many.
"""

from __future__ import annotations

import argparse
import os
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import numpy as np
import table

from msprobe.core.tensor_files.npu_layouts import to_blocks
from msprobe.kernel_parse.convert import parse_files
from msprobe.kernel_parse.show import described

_PIECE = 1 << 20


def varint(value: int) -> bytes:
    """A number of a protobuf message."""
    data = bytearray()
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*data, value])


def sized(number: int, content: bytes) -> bytes:
    """A field of bytes."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def acl(path: Path, kind: int, layout: int, stored: np.ndarray, original: Sequence[int]) -> Path:  # type: ignore[type-arg]
    """Write a dump of one output."""
    shapes = [sized(1, b"".join(map(varint, shape))) for shape in (stored.shape, original)]
    tensor = b"\x08" + varint(kind) + b"\x10" + varint(layout) + sized(3, shapes[0])
    header = sized(3, tensor + b"\x30" + varint(stored.nbytes) + sized(7, shapes[1]))
    path.write_bytes(struct.pack("<Q", len(header)) + header + stored.tobytes())
    return path


def atb(path: Path, kind: int, values: np.ndarray) -> Path:  # type: ignore[type-arg]
    """Write a file of ATB."""
    dims = ",".join(map(str, values.shape))
    path.write_bytes(f"$Version=1.0\ndtype={kind}\nformat=2\ndims={dims}\n$End=1\n".encode() + values.tobytes())
    return path


def cases(folder: Path, size: int) -> dict[str, tuple[Path, int]]:
    """Files of about ``size`` bytes, and how many bytes are written for each that is read."""
    rows = size // (4 * 4096)
    floats = np.random.default_rng(0).standard_normal((rows, 4096), np.float32)
    halves = np.concatenate([floats.astype(np.float16)] * 2)
    bits = (np.concatenate([floats] * 2).view(np.uint32) >> 16).astype(np.uint16)
    odd, small = floats[:-3, :-5], halves[:-3, :-5]
    return {
        "ATB, ND, float32": (atb(folder / "a.bin", 0, floats), 1),
        "ATB, ND, bfloat16": (atb(folder / "b.bin", 27, bits), 2),
        "ACL, ND, float32": (acl(folder / "MatMul.nd.1.2.1700000000000000", 1, 2, floats, floats.shape), 1),
        "ACL, NZ, float16": (
            acl(folder / "MatMul.half.1.2.1700000000000000", 2, 29, to_blocks(small, "FRACTAL_NZ"), small.shape), 1),
        "ACL, NZ, float32": (
            acl(folder / "MatMul.nz.1.2.1700000000000000", 1, 29, to_blocks(odd, "FRACTAL_NZ", 16), odd.shape), 1),
        "ACL, NZ, bfloat16": (
            acl(folder / "MatMul.bf.1.2.1700000000000000", 27, 29, to_blocks(bits, "FRACTAL_NZ"), bits.shape), 2),
    }  # fmt: skip


def forget(path: Path) -> None:
    """Take a file out of the page cache."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def seconds(work: Callable[[], object], cold: Path | None) -> tuple[float, float]:
    """Wall time and CPU time of one call; with a file in ``cold`` its bytes come from the disk."""
    if cold is not None:
        forget(cold)
    begin, spent = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - begin, time.process_time() - spent


def copy(source: Path, target: Path | None, times: int = 1) -> None:
    """Read a file in pieces, and write each as often as ``times`` says."""
    target_file = None if target is None else target.open("wb")
    with source.open("rb") as file:
        while piece := file.read(_PIECE):
            for _ in range(times if target_file else 0):
                assert target_file is not None
                target_file.write(piece)
    if target_file is not None:
        target_file.close()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=256, help="MB of a file")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--cold", action="store_true", help="read from the disk")
    parser.add_argument("--folder", type=Path, help="where the files go: by default the folder of temporary files")
    options = parser.parse_args(arguments)
    rows = []
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        for title, (path, times) in cases(folder, options.size << 20).items():
            figures = measured(path, times, options.rounds, options.cold)
            rows.append([title, table.figure(path.stat().st_size / 1e6, 0), *(table.figure(one, 2) for one in figures)])
            path.unlink()
    head = ("file", "MB", "copy s", "parse s", "ratio", "CPU ratio", "read s", "--show s", "ratio", "CPU ratio")
    print(table.markdown(head, rows))
    return 0


def measured(path: Path, times: int, rounds: int, cold: bool) -> list[float]:
    """The columns of a row: medians of the seconds, and of the ratios within a round."""
    target, output = path.parent / "copy", path.parent / "out"
    gone = path if cold else None
    turns: list[tuple[tuple[float, float], ...]] = []
    for number in range(rounds + 1):
        for result in (target, *output.glob("*")):
            result.unlink(missing_ok=True)
        found = (
            seconds(lambda: copy(path, target, times), gone),
            seconds(lambda: parse_files(path, output, "npy"), gone),
            seconds(lambda: copy(path, None), gone),
            seconds(lambda: list(described(path, False)), gone),
        )
        if number:  # the first round fills the page cache
            turns.append(found)
    return [*_columns(turns, 0), *_columns(turns, 2)]


def _columns(turns: list[tuple[tuple[float, float], ...]], plain: int) -> list[float]:
    """Seconds of the plain way and of ours, the one after it, and the ratios of wall time and CPU time."""
    wall, cpu = ([(turn[plain][kind], turn[plain + 1][kind]) for turn in turns] for kind in (0, 1))
    seconds_of_both = [median(pair[side] for pair in wall) for side in (0, 1)]
    return [*seconds_of_both, *(median(ours / other for other, ours in pairs) for pairs in (wall, cpu))]


if __name__ == "__main__":
    sys.exit(main())
