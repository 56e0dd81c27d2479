"""Reads the summary of `msprobe compare --json`, prints the culprit, and checks that it is the planted fault.

    python culprit.py summary.json attention-scale

Exit status 0 when the named module is the one the fault was planted in, 1 otherwise.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from faults import FAULTS


def describe(culprit: dict[str, Any]) -> str:
    return "\n".join([
        f"  step       {culprit['step']}",
        f"  operation  {culprit['target'] or culprit['golden']}",
        f"  module     {culprit['module']}",
        f"  reason     {culprit['reason']}",
        f"  source     {culprit['source'] or 'not recorded'}",
    ])


def main() -> int:
    parser = argparse.ArgumentParser(description="Print the culprit and check that it is the planted fault.")
    parser.add_argument("summary", type=Path)
    parser.add_argument("fault", choices=sorted(FAULTS))
    options = parser.parse_args()
    fault = FAULTS[options.fault]
    summary = json.loads(options.summary.read_text(encoding="utf-8"))
    culprit = summary["first_divergence"]
    print(f"planted:  {fault.module}.{fault.attribute} = {fault.value} ({fault.story})")
    if culprit is None:
        print(f"msprobe names no culprit; its verdict is {summary['verdict']}")
        return 1
    print(f"msprobe names:\n{describe(culprit)}")
    found = f".{fault.module}." in f".{culprit['module']}."
    print("That is the planted fault." if found else "That is NOT the planted fault.")
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main())
