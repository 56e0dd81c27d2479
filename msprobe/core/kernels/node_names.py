"""Match the names in files with the kernels of the graph.

Names are looked up as a whole, in a dictionary, and never by substring, so ``op1`` is not ``op10``. In a function that
``jit`` compiled under a gradient the files have ``MatMul-op1`` where the graph has ``MatMul-op2``. There, kernels of
one scope and type are matched by their order, provided that there are as many on both sides.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from msprobe.core.kernels.file_names import flat

_NUMBERED = re.compile(r"(?P<stem>.*)-op(?P<number>\d+)\Z", re.DOTALL)
_GENERATED = re.compile(r"Parameter_\d+\Z")


def resolve(flat_names: Iterable[str], full_names: Iterable[str]) -> dict[str, str]:
    """Return full names (``Default/fc1-Dense/MatMul-op0``) by the flat names of files that have a match.

    Two full names with the same flat name match nothing: a wrong source line is worse than none.
    """
    by_flat: dict[str, set[str]] = {}
    for name in full_names:
        by_flat.setdefault(flat(name), set()).add(name)
    wanted = set(flat_names)
    result = {name: next(iter(by_flat[name])) for name in wanted if len(by_flat.get(name, ())) == 1}
    unused = {name: next(iter(full)) for name, full in by_flat.items() if len(full) == 1 and name not in result}
    in_files, in_graph = _by_stem(wanted - set(by_flat)), _by_stem(unused)
    for stem, names in in_files.items():
        others = in_graph.get(stem, [])
        if len(others) == len(names):
            result.update(zip(names, (unused[other] for other in others), strict=True))
    return result


def _by_stem(names: Iterable[str]) -> dict[str, list[str]]:
    """Group names by their part before the number; the names of a group are ordered by number."""
    grouped: dict[str, list[tuple[int, str]]] = {}
    for name in names:
        if numbered := _NUMBERED.match(name):
            grouped.setdefault(numbered["stem"], []).append((int(numbered["number"]), name))
    return {stem: [name for _, name in sorted(group)] for stem, group in grouped.items()}


def graph_inputs(positions: Mapping[str, int]) -> dict[str, tuple[str, int]]:
    """Return the name and the position of a graph's inputs by flat name.

    An input that the compiler numbered itself (``Parameter_30``) is named by its position, which is stable.
    """
    return {
        flat(name): (f"input_{position}" if _GENERATED.match(name) else name, position)
        for name, position in positions.items()
    }


def entry_stem(full_name: str, op: str) -> tuple[str, str]:
    """Return the name and the phase of a kernel's record: ``Kernel.Default.fc1-Dense.MatMul`` and ``forward``.

    The number after ``-op`` counts compilations, so it is left out; the call number distinguishes equal kernels.
    """
    parts = [part for part in full_name.split("/") if part]
    numbered = _NUMBERED.match(parts[-1]) if parts else None
    if numbered:
        parts[-1] = numbered["stem"] or op
    phase = "backward" if parts[0] == "Gradients" and len(parts) > 1 else "forward"
    return ".".join(["Kernel", *(parts[1:] if phase == "backward" else parts)]), phase
