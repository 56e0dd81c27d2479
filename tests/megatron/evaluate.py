"""Judge all cases: ``python -m tests.megatron.evaluate CACHE [--only PATTERN] [--wrong] [--text] [--gaps]``.

What is missing in CACHE is recorded, and the recordings there are used again as long as program, layout and fault are
the same. After a change of the collection, remove the folder.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from tests.layouts.evaluate import totals, write_gaps
from tests.megatron.cases import CASES
from tests.megatron.judge import judge
from tests.megatron.runs import record_missing

GAPS = Path(__file__).resolve().parent / "known_gaps.json"
"""Name of each case that is judged wrongly -> why, or what is said instead."""


def main() -> int:
    """Print a line per case and the totals; returns 1 where an answer is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cache", type=Path)
    parser.add_argument("--only", default="", help="regular expression that the name of a case holds")
    parser.add_argument("--wrong", action="store_true", help="only lines of wrong answers")
    parser.add_argument("--text", action="store_true", help="with what the terminal shows")
    parser.add_argument("--gaps", action="store_true", help="write known_gaps.json: wrong answers, and what was said")
    options = parser.parse_args()
    cases = [case for case in CASES if re.search(options.only, case.name)]
    cache = options.cache.resolve()
    record_missing([run for case in cases for run in (case.golden, case.target)], cache)
    answers = []
    for case in cases:
        answer = judge(case, cache)
        answers.append(answer)
        if not (options.wrong and answer.right):
            mark = "ok   " if answer.right else "WRONG"
            module, line = ("ok" if right else "--" for right in (answer.module, answer.line))
            print(f"{mark} {answer.name:44} {answer.verdict:14} module {module} line {line}  {answer.said}", flush=True)
            if not answer.right and case.fault is not None:
                print(
                    f"      expected {case.fault.module or 'no module'} or {case.fault.function} {case.fault.functions}"
                )
        if options.text:
            print(answer.text)
    print(totals(answers))
    if options.gaps:
        write_gaps(answers, GAPS)
    return int(any(not answer.right for answer in answers))


if __name__ == "__main__":
    sys.exit(main())
