"""The pairs of graphs of one job, compared one after the other, with what a step hands on to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msprobe.analyze.first_divergence import Divergence, first_divergence
from msprobe.compare.alignment.options import MappingOptions
from msprobe.compare.incomplete import incomplete
from msprobe.compare.mode import Policy
from msprobe.compare.natural_scale import Vanished
from msprobe.compare.run import Comparison, Past, counts
from msprobe.compare.summary import CompareSummary
from msprobe.core.errors import NotComparableError
from msprobe.core.log import logger
from msprobe.visualize.compared import TASKS, Matching, compare_graphs
from msprobe.visualize.compared_texts import ComparedTexts
from msprobe.visualize.found import Found
from msprobe.visualize.names import Names
from msprobe.visualize.node import Graph, Work
from msprobe.visualize.row_verdicts import RowVerdicts, lines_of

if TYPE_CHECKING:
    from msprobe.visualize.text_maker import TextMaker


class Comparing:
    """Compares pair after pair, in the order of the steps."""

    def __init__(self, policy: str, mapping: MappingOptions, *, merged: bool, log_values: bool, found: Found) -> None:
        self._matching = Matching(Policy(policy), mapping, merged)
        self._log_values, self._found = log_values, found
        self._noise: dict[str, float] = {}
        self._vanished: dict[str, Vanished] = {}
        self._agreed: set[str] = set()

    def compare(
        self, work: Work, graphs: tuple[Graph, Graph], names: Names, maker: TextMaker | None
    ) -> ComparedTexts | None:
        """The values of a target and a golden graph; their nodes get partners and findings. None where the two hold
        different kinds of values, which is told. ``maker`` makes texts meanwhile."""
        past = Past(self._noise.get(work.history_key, 0.0), self._vanished.setdefault(work.history_key, {}))
        try:
            compared = compare_graphs(graphs, names, self._matching, past, maker)
        except NotComparableError as error:
            self._found.refused.append(error.error_info)
            logger.warning("%s: %s; not drawn.", work.label, error.error_info)
            return None
        if self._matching.mapping.given:
            from msprobe.compare.alignment.unapplied import unapplied  # mapping files, only where there is one

            self._found.unapplied.append(unapplied(self._matching.mapping, graphs[0].dump, graphs[1].dump))
        self._conclude(work, compared.comparison, compared.rows)
        return compared.texts

    def _conclude(self, work: Work, comparison: Comparison, rows: RowVerdicts) -> None:
        """Summary and first divergence of one pair, as ``msprobe compare`` gives them."""
        label = work.history_key
        self._found.task = TASKS[comparison.mode]
        inferred = comparison.table.layer_map
        if inferred is not None:
            logger.info("%s: layers were paired by inference, %d pairs.", work.label, len(inferred.pairs))
        found = first_divergence(comparison, later_step=label in self._agreed)
        if found is None:
            self._noise[label] = comparison.judged.noise
            self._agreed.add(label)
        else:
            self._agreed.discard(label)
            self._found.divergences.append(((work.step, found.entry), _divergence(work, found)))
        if self._log_values:
            for line in lines_of(comparison, rows):
                logger.info("%s: %s", work.label, line)
        left_out = incomplete(comparison)
        for line in left_out:
            logger.warning("%s: %s.", work.label, line)
        names = ("pass", "warning", "error")
        levels = [names[level] for level in rows.levels]
        summary = CompareSummary(
            verdict="same" if found is None else "diverged",
            target=str(work.target.document),
            golden=str(work.golden.document if work.golden is not None else ""),
            policy=self._matching.policy.value,
            counts=counts(comparison, levels),
            first_divergence=None if found is None else found.found,
            reason="; ".join(left_out),
            incomplete=left_out,
        )
        self._found.summaries.append({"step": work.step, "rank": work.rank, **summary.document()})


def _divergence(work: Work, found: Divergence) -> dict[str, Any]:
    told = found.found
    return {
        "step": work.step,
        "rank": work.rank,
        "node": told.target,
        "golden_node": told.golden,
        "slot": told.slot,
        "reason": told.reason,
        "stack": told.stack,
    }
