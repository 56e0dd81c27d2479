"""The set-ups that lie beside two dumps: what differs in them is told beside the first divergence."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from msprobe.core.errors import ReadError

if TYPE_CHECKING:
    from msprobe.setup_check.document import SetupDocument

NAME = "config_check_pack.zip"
_FOLDERS_UP = 3
"""A dump may be given as a document or a rank folder: ``run/step0/rank0/dump.json``; the set-up lies in ``run``."""
_EACH = 2


def differences_beside(target: Path, golden: Path) -> list[str]:
    """Return what differs between the set-ups of two dumps, a line each; nothing where a side has none.

    A set-up is the file ``config_check_pack.zip`` in the folder of the dump. One that cannot be read is a line too.
    """
    places = [find_setup(path) for path in (target, golden)]
    if places[0] is None or places[1] is None or places[0] == places[1]:
        return []
    from msprobe.setup_check.comparison import compare_documents  # most dumps have no set-up beside them
    from msprobe.setup_check.pack import read_pack

    try:
        comparison = compare_documents(_without_tensors(read_pack(places[1])), _without_tensors(read_pack(places[0])))
    except ReadError as error:
        return [error.error_info]
    return [line for line in comparison.lines(_EACH) if not line.startswith("Set-up:")]


def find_setup(dump: Path) -> Path | None:
    """Return the set-up of a dump: in its folder, or one of the folders around it; None where there is none."""
    with contextlib.suppress(OSError, ValueError):
        for folder in [dump, *dump.parents][: _FOLDERS_UP + 1]:
            if (folder / NAME).is_file():
                return folder / NAME
    return None


def _without_tensors(document: SetupDocument) -> SetupDocument:
    """Leave out inputs and weights after the first step: they follow from what the dumps themselves show."""
    first = {"data": [one for one in document.data if one.step == 0]}
    return document.model_copy(update={**first, "weights": [one for one in document.weights if one.step == 0]})
