"""From the name in a file to the kernel in the graph.

Names are looked up whole, in a dictionary: never by substring, so ``op1`` is not ``op10``. In a function compiled by
``jit`` under a gradient the files say ``MatMul-op1`` where the graph says ``MatMul-op2``; there, kernels of one scope
and type are matched by their order, provided that there are as many on both sides.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from msprobe.core.kernels.file_names import flat

_NUMBERED = re.compile(r"(?P<stem>.*)-op(?P<number>\d+)\Z", re.DOTALL)
_GENERATED = re.compile(r"Parameter_\d+\Z")


def resolve(flat_names: Iterable[str], full_names: Iterable[str]) -> dict[str, str]:
    """Full names (``Default/fc1-Dense/MatMul-op0``) by the flat names of files; those without a match are left out.

    Two full names that are the same when flat match nothing: a wrong source line is worse than none.
    """
    by_flat: dict[str, set[str]] = {}
    for name in full_names:
        by_flat.setdefault(flat(name), set()).add(name)
    wanted = set(flat_names)
    found = {name: next(iter(by_flat[name])) for name in wanted if len(by_flat.get(name, ())) == 1}
    clear = {name: next(iter(full)) for name, full in by_flat.items() if len(full) == 1 and name not in found}
    ours, theirs = _by_stem(wanted - set(by_flat)), _by_stem(clear)
    for stem, names in ours.items():
        others = theirs.get(stem, [])
        if len(others) == len(names):
            found.update(zip(names, (clear[other] for other in others), strict=True))
    return found


def _by_stem(names: Iterable[str]) -> dict[str, list[str]]:
    """Names without their number, each with the names that have it, by number."""
    grouped: dict[str, list[tuple[int, str]]] = {}
    for name in names:
        if numbered := _NUMBERED.match(name):
            grouped.setdefault(numbered["stem"], []).append((int(numbered["number"]), name))
    return {stem: [name for _, name in sorted(found)] for stem, found in grouped.items()}


def graph_inputs(positions: Mapping[str, int]) -> dict[str, tuple[str, int]]:
    """Name and position of a graph's inputs by flat name.

    An input that the compiler numbered itself (``Parameter_30``) is named by its position, which is stable.
    """
    return {
        flat(name): (f"input_{position}" if _GENERATED.match(name) else name, position)
        for name, position in positions.items()
    }


def entry_stem(full_name: str, op: str) -> tuple[str, str]:
    """Name and phase of a kernel's record: ``Kernel.Default.fc1-Dense.MatMul`` and ``forward``.

    The number behind ``-op`` counts compilations, so it is left out; the call number tells equal kernels apart.
    """
    parts = [part for part in full_name.split("/") if part]
    numbered = _NUMBERED.match(parts[-1]) if parts else None
    if numbered:
        parts[-1] = numbered["stem"] or op
    phase = "backward" if parts[0] == "Gradients" and len(parts) > 1 else "forward"
    return ".".join(["Kernel", *(parts[1:] if phase == "backward" else parts)]), phase
