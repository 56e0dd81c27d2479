"""Two graphs compared: nodes paired, values judged by the one verdict engine, texts of both put into the nodes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from msprobe.compare.alignment import frameworks
from msprobe.compare.alignment.options import MappingOptions
from msprobe.compare.items import Leaf, leaves
from msprobe.compare.mode import Mode
from msprobe.compare.natural_scale import Vanished
from msprobe.compare.run import Comparison, Policy, compare_dumps
from msprobe.visualize.difference_text import DifferenceTexts
from msprobe.visualize.findings import RowVerdicts, find, row_verdicts
from msprobe.visualize.merge.shapes import fit_shapes
from msprobe.visualize.micro_steps import follow_target
from msprobe.visualize.names import Names
from msprobe.visualize.node import Graph, Node
from msprobe.visualize.pairing import NodePairs, pair_by_entries, pair_exactly, pair_fuzzily, pair_merged
from msprobe.visualize.value_text import ValueTexts, fill_values, quoted, side_texts

NOTHING_SAID = MappingOptions()
TASKS = {Mode.STATISTICS: "summary", Mode.CHECKSUM: "md5", Mode.TENSOR: "all"}
_LEVELS = ("pass", "warning", "error")


@dataclass(frozen=True, slots=True)
class Matching:
    """How nodes pair: ``policy`` whose rules, ``mapping`` what the user said; ``merged`` when ranks were merged."""

    policy: Policy = Policy.DEFAULT
    mapping: MappingOptions = NOTHING_SAID
    merged: bool = False


def compare_graphs(
    graphs: tuple[Graph, Graph], names: Names, matching: Matching, noise: float, vanished: Vanished
) -> tuple[Comparison, RowVerdicts]:
    """Pair and judge a target and a golden graph, and fill all nodes; returns the comparison and its rows' verdicts.

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
        noise=noise,
        vanished=vanished,
    )
    if pairs is None:
        pair_by_entries(target, golden, comparison.table.entries)
    if not target.megatron:
        follow_target(golden, names)
    rows = row_verdicts(comparison)
    find(target, golden, comparison, rows, merged=matching.merged)
    _Filler(target, golden, comparison, rows).fill()
    return comparison, rows


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


class _Filler:
    """Writes the texts of all recorded nodes."""

    def __init__(self, target: Graph, golden: Graph, comparison: Comparison, rows: RowVerdicts) -> None:
        self._target, self._golden, self._table = target, golden, comparison.table
        self._checksums = comparison.mode is Mode.CHECKSUM
        self._rows = rows
        self._differences = DifferenceTexts(comparison.mode, comparison.table, comparison.tensors)
        self._texts = ValueTexts(checksums=self._checksums)
        self._tails: dict[tuple[bool, int], str] = {}

    def fill(self) -> None:
        """Rows know the values of both sides; golden values that rows took elsewhere are read from the dump."""
        table = self._table
        starts = table.starts.tolist()
        for number, pair in enumerate(table.entries):
            rows = range(starts[number], starts[number + 1])
            ours = self._target.nodes[pair.target] if pair.target is not None else None
            theirs = self._golden.nodes[pair.golden] if pair.golden is not None else None
            paired = ours is not None and theirs is not None and ours.match is theirs
            if ours is not None:
                self._node(ours, table.target[rows.start : rows.stop], rows if paired else None)
            if theirs is not None and not table.foreign:
                self._node(theirs, table.golden[rows.start : rows.stop], None)
        if table.foreign:
            for name, body in self._golden.dump.data.items():
                self._node(self._golden.nodes[name], leaves(name, body), None)

    def _node(self, node: Node, values: Sequence[Leaf | None], rows: range | None) -> None:
        if rows is None:
            node.inputs, node.outputs = fill_values(node.name, (leaf for leaf in values if leaf), self._texts)
            return
        opened, fields = self._texts.opened, self._fields
        made = [
            (leaf, opened(leaf), "," + fields(row)) for leaf, row in zip(values, rows, strict=True) if leaf is not None
        ]
        node.inputs, node.outputs = side_texts(node.name, made)

    def _fields(self, row: int) -> str:
        ours, theirs = self._table.target[row], self._table.golden[row]
        left, right = ours[2] if ours is not None else None, theirs[2] if theirs is not None else None
        same = (left.get("requires_grad") if type(left) is dict else None) == (
            right.get("requires_grad") if type(right) is dict else None
        )
        messages = self._rows.messages.get(row)
        if messages is None:
            key = same, self._rows.levels[row]
            tail = self._tails.get(key)
            if tail is None:
                tail = self._tails[key] = self._tail(*key, [])
        else:
            tail = self._tail(same, self._rows.levels[row], messages)
        difference = self._differences.of(row)
        return f"{difference},{tail}" if difference else tail

    def _tail(self, same: bool, level: int, messages: list[str]) -> str:
        consistent, result = f'"Requires_grad Consistent":"{same}"', f'"Result":"{_LEVELS[level]}"'
        first = (result, consistent) if self._checksums else (consistent, result)
        listed = quoted(f"[{', '.join(map(quoted, messages))}]")
        return f'{first[0]},{first[1]},"Err_message":{listed}'
