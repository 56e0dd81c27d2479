"""Matching strategies by name."""

from msprobe.compare.match.exact import ExactMatch
from msprobe.compare.match.protocol import Match, Positions
from msprobe.compare.match.sequence import SequenceMatch

STRATEGIES: dict[str, Match] = {"exact": ExactMatch(), "sequence": SequenceMatch()}

__all__ = ["STRATEGIES", "ExactMatch", "Match", "Positions", "SequenceMatch"]
