"""What the change of a single fact has to lead to, worked out from the fact alone and without msprobe.

``allowed`` returns the outcomes that are right: a verdict, ``note`` for the verdict ``same`` with a sentence beside it,
``same`` for a silent pass, and ``unreadable`` for an error that says why. A silent pass is allowed only where this
module gives the reason.
"""

from __future__ import annotations

import io
import math
from typing import Any

import numpy as np

from tests.compare.single_facts import Fact

DIVERGED = frozenset({"diverged"})
INCOMPLETE = frozenset({"incomplete"})
NOTE = frozenset({"note"})
SILENT = frozenset({"same"})
SAID = frozenset({"diverged", "incomplete", "not_comparable", "note", "unreadable"})
"""Everything but a silent pass."""

_FIXED = {
    # Another shape or dtype is another result. In a tensor dump the file also contradicts its record.
    "shape": DIVERGED,
    # The same elements in another shape are another layout; the calls after it have the right order.
    "axis": DIVERGED | NOTE,
    "dtype": DIVERGED,
    # MindSpore records no flags, and keys that nobody knows say nothing about values.
    "no requires_grad": SILENT,
    "unknown key": SILENT,
    # Values and arguments.
    "argument value": DIVERGED,
    "argument type": DIVERGED,
    "argument no value": DIVERGED,
    "argument null value": DIVERGED,
    "leaf null": DIVERGED,
    "leaf filled": DIVERGED,
    "leaf number": DIVERGED,
    "leaf gone": DIVERGED | {"note"},  # a null that is gone is recorded otherwise
    "leaf doubled": DIVERGED | {"note"},
    "leaf renamed": DIVERGED | {"note"},
    "section removed": DIVERGED,
    "training": NOTE,
    # Whole calls: a call of one side alone is a divergence, or a note where the values after it agree.
    "entry removed": DIVERGED | NOTE,
    "entry added": DIVERGED | NOTE,
    "entry renamed": DIVERGED | NOTE,
    "entry renumbered": SILENT | SAID,  # the number of a call pairs nothing where it is the only one
    "entry moved": SILENT | SAID,  # calls that do not use each other's results may stand in any order
    "entry emptied": DIVERGED,
    "entry null": DIVERGED | {"unreadable"},
    # The header.
    "header task": frozenset({"not_comparable", "unreadable"}),
    "header level": NOTE,
    "header no level": NOTE,
    "header framework": NOTE,  # names and dtypes of the other framework fit as well
    "header dump_data_dir": SILENT,
    "header unknown field": NOTE,
    "header version": NOTE,
    # Tensor files.
    "file cut": INCOMPLETE,
    "file empty": INCOMPLETE,
    "file gone": INCOMPLETE,
    "file shape": INCOMPLETE,
    "file dtype": INCOMPLETE | DIVERGED,  # float64 rounded to float32 differs
    "file nan": DIVERGED,
    "file value": DIVERGED,
    "file name none": INCOMPLETE,
    "file name null": INCOMPLETE,
    "file name minus one": INCOMPLETE,
    "file name unknown": INCOMPLETE,
}

_TRAINED = "Module.encoder.fc."
"""The module of which the dumps have the gradients of all parameters: who had any of them is no matter then."""
_AT_DEFAULT = "Functional.embedding.0.forward.input_kwargs"
"""Arguments that have the values which PyTorch gives them where a call leaves them out."""


def allowed(kind: str, fact: Fact) -> frozenset[str]:
    """Return the right outcomes of a comparison of two dumps of a kind that differ in one fact.

    A module may get something else and return the same, results and gradients alike: that is said beside the verdict.
    NaN and infinity, other than the minus infinity of a mask, are never a note.
    """
    right = _allowed(kind, fact)
    if fact.what == "section removed" and fact.where.startswith("Module.") and fact.where.endswith(".input_args"):
        return right | INCOMPLETE  # the record lacks what the call was given, and everything else agrees
    given_to_module = fact.where.startswith("Module.") and ".input" in fact.where
    if not (right & DIVERGED and given_to_module) or _overflows(fact):
        return right
    return right | NOTE | (INCOMPLETE if kind == "tensor" else frozenset())  # the file may contradict its record


def _overflows(fact: Fact) -> bool:
    return fact.what == "statistic nan" or (fact.what == "statistic infinite" and fact.where.endswith(".Max"))


def _allowed(kind: str, fact: Fact) -> frozenset[str]:
    if fact.what.startswith("statistic "):
        return _statistic(kind, fact)
    if fact.what == "requires_grad":
        is_verdict = fact.slot == "parameters" and not fact.where.startswith(_TRAINED)
        return DIVERGED if is_verdict else NOTE
    if fact.what in ("leaf gone", "section removed") and fact.where.startswith(_AT_DEFAULT):
        return SILENT | _FIXED[fact.what]
    if fact.what == "argument hair":  # rounding of a number; checksums ask for the same bits
        return DIVERGED if kind in ("md5", "xor") else SILENT
    if fact.what in ("file bit", "file head"):
        return _bit(fact)
    if fact.what.startswith("file name") and fact.before.get("shape") and 0 in fact.before["shape"]:
        return INCOMPLETE | SILENT  # a tensor without elements needs no file
    if fact.what in ("file cut", "file empty", "file gone", "file shape", "file dtype") and _is_empty(fact.before):
        return INCOMPLETE | SILENT
    return _FIXED[fact.what]


def _statistic(kind: str, fact: Fact) -> frozenset[str]:
    way, name = fact.what.removeprefix("statistic "), fact.where.rpartition(".")[2]
    if way == "text" and name != "md5" and kind != "tensor":
        return INCOMPLETE  # a damaged record is not compared
    if name != "md5" and kind == "md5":
        return SILENT  # the checksums, which see every bit, agree
    if way in ("null", "removed"):
        if fact.before[name] is None:
            return SILENT  # null and absent are the same
        if name == "md5" and 0 in fact.before["shape"]:
            return SILENT  # nothing is there to be compared
        if name == "Projection":
            return SILENT if kind == "tensor" else NOTE  # whole tensors see the order themselves
        return SILENT if kind == "tensor" else INCOMPLETE  # the whole tensors were compared
    if way in ("digest", "hair"):
        return DIVERGED if way == "digest" else SILENT  # rounding
    return _strange(kind, fact, name, way)


def _strange(kind: str, fact: Fact, name: str, way: str) -> frozenset[str]:
    """Return the outcomes of a statistic that is far off or no finite number."""
    if name == "Projection" and way in ("nan", "infinite", "text"):
        return SAID  # an order that cannot be judged is not silently good
    if kind == "tensor" and fact.before[name] is None:
        return SILENT | INCOMPLETE  # the files agree, and what they hold has no such statistic
    if kind == "tensor":
        return frozenset({"incomplete", "diverged"})  # the record says another thing than the file
    if fact.before[name] is None:  # Mean of bool, any statistic without elements: a value where none can be
        return frozenset({"incomplete", "diverged", "note"})
    return DIVERGED


def _bit(fact: Fact) -> frozenset[str]:
    """A flipped bit may damage the file, change its shape, change a value much or by rounding, or change nothing."""
    before = np.load(io.BytesIO(fact.before))
    try:
        after: Any = np.load(io.BytesIO(fact.after), allow_pickle=False)
    except Exception:  # noqa: BLE001 - numpy raises what it likes for a damaged head
        return INCOMPLETE | (SILENT if not before.size else frozenset())
    if not before.size:
        return INCOMPLETE | SILENT
    if after.shape != before.shape or after.dtype != before.dtype:
        return frozenset({"incomplete", "diverged"})
    if after.tobytes() == before.tobytes():
        return SILENT
    if before.dtype == bool and (after.view(np.uint8) != 0).tolist() == before.tolist():
        return SILENT  # every byte but 0 is true
    if before.dtype.kind in "ib":
        return DIVERGED
    with np.errstate(all="ignore"):
        apart = np.abs(after.astype(np.float64) - before.astype(np.float64)).max()
        share = apart / np.abs(before.astype(np.float64)).max()
    if not math.isfinite(share) or share > 0.1:
        return DIVERGED
    precision = float(np.finfo(before.dtype).eps)
    return SILENT if share < precision else DIVERGED | SILENT  # between: as the tolerance of the sum says


def _is_empty(content: bytes) -> bool:
    return not np.load(io.BytesIO(content)).size
