"""Two graphs compared: nodes paired, values judged by the one verdict engine.

``GraphComparer`` compares the pairs of graphs of one job, one after the other, and hands what a step showed on to the
next step.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msprobe.analyze.first_divergence import Divergence, first_divergence
from msprobe.compare.agreement import is_order_blind
from msprobe.compare.alignment import cross_framework
from msprobe.compare.alignment.options import MappingOptions
from msprobe.compare.comparison import Comparison, StepHistory, compare_dumps, counts
from msprobe.compare.coverage import any_checked, coverage_of
from msprobe.compare.differences.cancelled_gradients import CancelledGradients
from msprobe.compare.dump_pairs import following
from msprobe.compare.inputs.mode import Mode, Policy
from msprobe.compare.records.run_end import end_notes
from msprobe.compare.rows.columns import METRICS
from msprobe.compare.rows.levels import LEVEL_NAMES
from msprobe.compare.rows.summary import CompareSummary, FirstDivergence, verdict_text
from msprobe.core.errors import NotComparableError
from msprobe.core.log import logger
from msprobe.core.tensors.statistics import LARGEST, NORM, SMALLEST, STATISTICS
from msprobe.visualize.compare.node_pairs import NodePairs, pair_by_entries, pair_exactly, pair_fuzzily, pair_merged
from msprobe.visualize.compare.node_verdicts import set_verdicts
from msprobe.visualize.graph.micro_steps import follow_target
from msprobe.visualize.graph.node import Graph, NameCache, Work
from msprobe.visualize.merge.tensor_parallel import fit_shapes
from msprobe.visualize.values.comparison_json import statistic_pairs
from msprobe.visualize.values.node_json import ComparedTexts
from msprobe.visualize.values.row_verdicts import RowVerdicts, difference_lines, row_verdicts

if TYPE_CHECKING:
    from msprobe.visualize.values.json_worker import TextWorker

_NO_MAPPING = MappingOptions()
_WORDS = {LARGEST: "largest element", SMALLEST: "smallest element", NORM: "L2 norm"}
_TASKS = {
    Mode.STATISTICS: (
        "summary",
        {
            title: f"{_WORDS.get(spec, spec.title)}: target minus golden"
            for title, spec in zip(METRICS[Mode.STATISTICS], STATISTICS, strict=False)  # the first ones are differences
        },
    ),
    Mode.CHECKSUM: ("md5", {"md5": "checksum of the data; equal checksums mean equal data"}),
    Mode.TENSOR: ("all", dict.fromkeys(METRICS[Mode.TENSOR], "")),
}


@dataclass(frozen=True, slots=True)
class PairingRules:
    """How nodes pair.

    ``policy`` says whose rules, ``mapping`` is what the user gave, ``merged`` says whether ranks were merged.
    """

    policy: Policy = Policy.DEFAULT
    mapping: MappingOptions = _NO_MAPPING
    merged: bool = False


@dataclass(frozen=True, slots=True)
class GraphComparison:
    """One pair of graphs: the comparison, the verdicts of its rows, and the JSON of both sides."""

    comparison: Comparison
    rows: RowVerdicts
    texts: ComparedTexts


@dataclass(slots=True)
class ComparisonResults:
    """The results of all comparisons of a job, for the settings and the metadata of its database.

    Attributes:
        task: the name of the kind of comparison in the published format, and what each of its figures means; None
            before the first comparison.
        refused: why pairs of graphs were not compared.
        summaries: a summary per pair of graphs, as JSON.
        unused_entries: the entries of mappings that fit nothing, per pair of graphs.
        divergences: (step, position in the dump) and the first divergence as JSON, of the pairs that have one.
    """

    task: tuple[str, dict[str, str]] | None = None
    refused: list[str] = field(default_factory=list)
    summaries: list[dict[str, Any]] = field(default_factory=list)
    unused_entries: list[list[tuple[str, str, str]]] = field(default_factory=list)
    divergences: list[tuple[tuple[int, int], dict[str, Any]]] = field(default_factory=list)


class GraphComparer:
    """Compares pair after pair, in the order of the steps, and collects their ``results``."""

    def __init__(self, rules: PairingRules, works: Sequence[Work], *, log_values: bool) -> None:
        """``works`` are all pairs of the job, in their order; ``log_values`` logs a line per value that differs."""
        self.results = ComparisonResults()
        pairs = [(work.target, work.golden) for work in works if work.golden is not None]
        self._after = dict(zip(pairs, following(pairs), strict=True))
        self._shown: set[str] = set()
        self._rules, self._log_values = rules, log_values
        self._noise: dict[str, float] = {}
        self._cancelled_gradients: dict[str, CancelledGradients] = {}
        self._without_divergence: set[str] = set()

    def compare(
        self, work: Work, graphs: tuple[Graph, Graph], names: NameCache, worker: TextWorker | None
    ) -> ComparedTexts | None:
        """Compare a target and a golden graph; their nodes get partners and verdicts.

        Return the JSON of their values; None where the two hold different kinds of values, which is logged. ``worker``
        makes texts meanwhile.
        """
        history = StepHistory(
            self._noise.get(work.history_key, 0.0),
            self._cancelled_gradients.setdefault(work.history_key, CancelledGradients()),
            shown=work.history_key in self._shown,
        )
        if work.golden is not None and not self._rules.merged:
            history.look_ahead(self._after[work.target, work.golden], self._rules.policy, self._rules.mapping)
        try:
            compared = compare_graphs(graphs, names, self._rules, history, worker)
        except NotComparableError as error:
            self.results.refused.append(error.error_info)
            logger.warning("%s: %s; not drawn.", work.label, error.error_info)
            return None
        if history.shown:
            self._shown.add(work.history_key)
        mapping = self._rules.mapping
        if mapping.given:
            from msprobe.compare.alignment.check_mappings import unused_mapping_entries  # reads YAML

            self.results.unused_entries.append(unused_mapping_entries(mapping, graphs[0].dump, graphs[1].dump))
        self._conclude(work, graphs[0], compared)
        return compared.texts

    def _conclude(self, work: Work, target: Graph, compared: GraphComparison) -> None:
        """Keep the summary and the first divergence of one pair, as ``msprobe compare`` gives them."""
        comparison, rows = compared.comparison, compared.rows
        key, results = work.history_key, self.results
        results.task = _TASKS[comparison.mode]
        inferred = comparison.table.layer_map
        if inferred is not None:
            logger.info("%s: layers were paired by inference, %d pairs.", work.label, len(inferred.pairs))
        divergence = first_divergence(comparison, later_step=key in self._without_divergence)
        if divergence is None:
            self._noise[key] = comparison.judged.noise
            self._without_divergence.add(key)
        else:
            self._without_divergence.discard(key)
            results.divergences.append(((work.step, divergence.entry), _divergence_document(work, divergence)))
            _note_culprit(target, divergence.description)
        if self._log_values:
            for line in difference_lines(comparison, rows):
                logger.info("%s: %s", work.label, line)
        coverage = coverage_of(comparison)
        not_covered = [*end_notes(comparison.target, comparison.golden), *coverage.incomplete]
        lines = not_covered + coverage.notes
        for line in lines:
            logger.warning("%s: %s.", work.label, line)
        summary = CompareSummary(
            verdict=verdict_text(
                checked=any_checked(comparison), diverged=divergence is not None, lost=bool(coverage.lost)
            ),
            target=str(work.target.document),
            golden=str(work.golden.document if work.golden is not None else ""),
            policy=self._rules.policy.value,
            counts=counts(comparison, [LEVEL_NAMES[level] for level in rows.levels]),
            first_divergence=None if divergence is None else divergence.description,
            reason="; ".join(lines),
            incomplete=not_covered,
            order_blind=is_order_blind(comparison),
        )
        results.summaries.append({"step": work.step, "rank": work.rank, **summary.document()})


def _divergence_document(work: Work, divergence: Divergence) -> dict[str, Any]:
    first = divergence.description
    return {
        "step": work.step,
        "rank": work.rank,
        "node": first.target,
        "golden_node": first.golden,
        "slot": first.slot,
        "reason": first.reason,
        "stack": first.stack,
        "source": first.source,
        "golden_stack": first.golden_stack,
        "golden_source": first.golden_source,
        "ranks": first.ranks,
        "blame": first.blame,
        "script": first.script_command(str(work.target.document.parent)),
    }


def _note_culprit(graph: Graph, first: FirstDivergence) -> None:
    """Say at the node of the first divergence which of the merged ranks are to blame, and which line."""
    node = graph.nodes.get(first.target or "")
    if node is not None and first.ranks:
        lines = [f"ranks to blame: {first.ranks_text}"]
        node.merged = [*node.merged, *lines, *([f"source: {first.source}"] if first.source else [])]


def compare_graphs(
    graphs: tuple[Graph, Graph],
    names: NameCache,
    rules: PairingRules,
    history: StepHistory,
    worker: TextWorker | None = None,
) -> GraphComparison:
    """Pair and judge a target and a golden graph; their nodes get partners and verdicts.

    Args:
        graphs: target and golden graph.
        names: the parsed names of both.
        rules: how nodes pair.
        history: what the steps before showed.
        worker: makes texts meanwhile.

    Raises:
        NotComparableError: the dumps hold different kinds of values.
    """
    target, golden = graphs
    pairs = _pair_first(target, golden, names, rules)
    dump = dataclasses.replace(target.dump, has_stacks=False)  # rows need no column of stacks
    comparison = compare_dumps(
        dump,
        golden.dump,
        rules.policy,
        mapping=pairs or rules.mapping,
        history=history,
    )
    numbers = statistic_pairs(comparison)
    if worker is not None:
        worker.begin(numbers)
    if pairs is None:
        pair_by_entries(target, golden, comparison.table.entries)
    if not target.megatron:
        follow_target(golden, None if rules.policy is Policy.REFERENCE else target.micro_steps)
    rows = row_verdicts(comparison)
    set_verdicts(graphs, comparison, rows, merged=rules.merged and rules.policy is not Policy.REFERENCE)
    return GraphComparison(comparison, rows, ComparedTexts(graphs, comparison, rows, numbers, worker))


def _pair_first(target: Graph, golden: Graph, names: NameCache, rules: PairingRules) -> NodePairs | None:
    """Return the pairs where the graphs decide about them; None where the comparison of the entries does."""
    mapping = rules.mapping
    published = rules.policy is Policy.REFERENCE and not cross_framework.differ(target.dump, golden.dump)
    if rules.merged:
        pair_merged(target, golden, names)
        fit_shapes(target, golden)
    elif published and mapping == MappingOptions(True, pair=mapping.pair, rank=mapping.rank, step=mapping.step):
        pair_fuzzily(target, golden, names)
    elif published and not mapping.given:
        pair_exactly(target, golden)
    else:
        return None
    return NodePairs(target)
