"""The tools that take part in a benchmark, each by the python that has it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

OURS, REFERENCE, BEFORE, AGAIN = "ours", "reference", "before", "again"


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """A parser that knows which pythons to measure; ``tools_of`` gives them."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="python that has msprobe (default: this one)")
    parser.add_argument("--reference", help="python that has the tool to compare with; left out: only ours")
    return parser


def tools_of(options: argparse.Namespace) -> dict[str, str]:
    """The python of each tool."""
    return {OURS: options.python} | ({REFERENCE: options.reference} if options.reference else {})


def add_before(parser: argparse.ArgumentParser) -> None:
    """Let ``parser`` take another source tree of msprobe; ``before_of`` gives it."""
    parser.add_argument(
        "--before",
        metavar="TREE",
        type=Path,
        help="a source tree of msprobe to compare with, run by the python of ours; it takes part twice",
    )


def before_of(options: argparse.Namespace) -> dict[str, dict[str, str]]:
    """The environment variables of each tool that is another source tree, with its compiled kernel in it."""
    if options.before is None:
        return {}
    path = {"PYTHONPATH": str(options.before.resolve(strict=True))}
    return {BEFORE: path, AGAIN: path}
