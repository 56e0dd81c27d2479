"""The tools that take part in a benchmark, each by the python that has it."""

from __future__ import annotations

import argparse
import sys

OURS, REFERENCE = "ours", "reference"


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """A parser that knows which pythons to measure; ``tools_of`` gives them."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="python that has msprobe (default: this one)")
    parser.add_argument("--reference", help="python that has the tool to compare with; left out: only ours")
    return parser


def tools_of(options: argparse.Namespace) -> dict[str, str]:
    """The python of each tool."""
    return {OURS: options.python} | ({REFERENCE: options.reference} if options.reference else {})
