"""Cell mapping (``-cm``): module paths and class names of the target become those of the golden run.

    fc1.Linear: proj.Dense                  # path and class of a module, whole
    RowParallelLinear: TERowParallelLinear  # or any part of it

A module whose whole ``path.Class`` is a key gets that value. Otherwise each line whose left text occurs replaces it
once, in the order of the file; what a line has written, a later one leaves alone. ``Cell`` at the front is ``Module``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from msprobe.compare.alignment.mapping_file import read_mapping
from msprobe.core.naming.model import MODULE_PREFIXES

_MODULE, _ = MODULE_PREFIXES


@dataclass(frozen=True, slots=True)
class CellMapping:
    """Translates names of modules; see the module text."""

    rules: dict[str, str] = field(default_factory=dict)

    def __call__(self, stem: str) -> str:
        prefix, dot, rest = stem.partition(".")
        if not dot or prefix not in MODULE_PREFIXES:
            return stem
        return f"{_MODULE}.{self.rules.get(rest) or self._replaced(rest)}"

    def _replaced(self, text: str) -> str:
        pieces = [(text, False)]
        for left, right in self.rules.items():
            for at, (piece, done) in enumerate(pieces):
                start = -1 if done else piece.find(left)
                if start >= 0:
                    rest = piece[start + len(left) :]
                    pieces[at : at + 1] = [(piece[:start], False), (right, True), (rest, False)]
                    break
        return "".join(piece for piece, _ in pieces)


def cell_mapping(given: Any) -> CellMapping:
    """From a file or a dict; True means the change of the prefix alone.

    Raises:
        ReadError: the mapping cannot be read; names the line.
    """
    if given is True:
        return CellMapping()
    table = read_mapping(given, "cell").table("a cell mapping")
    return CellMapping({left: value.text(f"the cell for {left!r}") for left, value in table.items()})
