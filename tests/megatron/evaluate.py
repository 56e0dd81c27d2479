"""Judge all cases: ``python -m tests.megatron.evaluate CACHE [--only PATTERN] [--wrong] [--text] [--gaps]``."""

from __future__ import annotations

import sys

from tests.layout_bed.evaluate import evaluate
from tests.megatron.cases import CASES
from tests.megatron.runs import GAPS, record_missing

if __name__ == "__main__":
    sys.exit(evaluate(CASES, record_missing, GAPS))
