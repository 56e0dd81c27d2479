"""All cases."""

from __future__ import annotations

from tests.real_models.benign import BENIGN
from tests.real_models.cases import Case
from tests.real_models.faults.combined import COMBINED, OTHER_DTYPES, SINGLE
from tests.real_models.fresh.catalogue import FRESH
from tests.real_models.held_back.catalogue import HELD_BACK
from tests.real_models.unseen.catalogue import UNSEEN

FAULTS: list[Case] = [*SINGLE.values(), *OTHER_DTYPES, *COMBINED]
IN_GOLDEN: list[Case] = [case.reversed() for case in FAULTS]
"""The faults in the run that is thought to be right: names and lines of both sides change places."""
CASES: list[Case] = [*BENIGN, *FAULTS, *IN_GOLDEN, *HELD_BACK, *UNSEEN, *FRESH]

__all__ = ["BENIGN", "CASES", "FAULTS", "FRESH", "HELD_BACK", "IN_GOLDEN", "UNSEEN"]
