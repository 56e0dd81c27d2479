"""Judge all cases: ``python -m tests.layouts.evaluate CACHE [--only PATTERN] [--wrong] [--text] [--gaps]``."""

from __future__ import annotations

import sys

from tests.layout_bed.evaluate import evaluate
from tests.layouts.cases import CASES
from tests.layouts.runs import GAPS, record_missing

if __name__ == "__main__":
    sys.exit(evaluate(CASES, record_missing, GAPS))
