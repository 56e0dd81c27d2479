"""Two graphs compared: nodes paired, values judged by the one verdict engine."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msprobe.compare.alignment import frameworks
from msprobe.compare.alignment.options import MappingOptions
from msprobe.compare.mode import Mode, Policy
from msprobe.compare.run import Comparison, Past, compare_dumps
from msprobe.visualize.compared_texts import ComparedTexts
from msprobe.visualize.findings import find
from msprobe.visualize.merge.shapes import fit_shapes
from msprobe.visualize.micro_steps import follow_target
from msprobe.visualize.names import Names
from msprobe.visualize.node import Graph
from msprobe.visualize.pairing import NodePairs, pair_by_entries, pair_exactly, pair_fuzzily, pair_merged
from msprobe.visualize.row_verdicts import RowVerdicts, row_verdicts
from msprobe.visualize.statistic_pairs import statistic_pairs

if TYPE_CHECKING:
    from msprobe.visualize.text_maker import TextMaker

NOTHING_SAID = MappingOptions()
TASKS = {Mode.STATISTICS: "summary", Mode.CHECKSUM: "md5", Mode.TENSOR: "all"}


@dataclass(frozen=True, slots=True)
class Matching:
    """How nodes pair: ``policy`` whose rules, ``mapping`` what the user said; ``merged`` when ranks were merged."""

    policy: Policy = Policy.DEFAULT
    mapping: MappingOptions = NOTHING_SAID
    merged: bool = False


@dataclass(frozen=True, slots=True)
class Compared:
    """One pair of graphs: the comparison, the verdicts of its rows, and the texts of both sides."""

    comparison: Comparison
    rows: RowVerdicts
    texts: ComparedTexts


def compare_graphs(
    graphs: tuple[Graph, Graph], names: Names, matching: Matching, past: Past, maker: TextMaker | None = None
) -> Compared:
    """Pair and judge a target and a golden graph; nodes get their partners and findings. ``past`` is what the steps
    before showed, ``maker`` makes texts meanwhile.

    Raises:
        NotComparableError: the dumps hold different kinds of values.
    """
    target, golden = graphs
    pairs = _pair_first(target, golden, names, matching)
    dump = dataclasses.replace(target.dump, has_stacks=False)  # rows need no column of stacks
    comparison = compare_dumps(
        dump,
        golden.dump,
        matching.policy,
        mapping=pairs or matching.mapping,
        past=past,
    )
    numbers = statistic_pairs(comparison)
    if maker is not None:
        maker.begin(numbers)
    if pairs is None:
        pair_by_entries(target, golden, comparison.table.entries)
    if not target.megatron:
        follow_target(golden, None if matching.policy is Policy.REFERENCE else target.micro_steps)
    rows = row_verdicts(comparison)
    find(target, golden, comparison, rows, merged=matching.merged)
    return Compared(comparison, rows, ComparedTexts(graphs, comparison, rows, numbers, maker))


def _pair_first(target: Graph, golden: Graph, names: Names, matching: Matching) -> NodePairs | None:
    """The pairs where the graphs decide about them; None where the comparison of the entries does."""
    mapping = matching.mapping
    published = matching.policy is Policy.REFERENCE and not frameworks.differ(target.dump, golden.dump)
    if matching.merged:
        pair_merged(target, golden, names)
        fit_shapes(target, golden)
    elif published and mapping == MappingOptions(True, pair=mapping.pair, rank=mapping.rank, step=mapping.step):
        pair_fuzzily(target, golden, names)
    elif published and not mapping.given:
        pair_exactly(target, golden)
    else:
        return None
    return NodePairs(target)
