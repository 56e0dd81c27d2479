"""``msprobe compare -da``: per rank whether each call agrees, and the calls of the first difference of all ranks.

    result = diff_analyze(Path("bad/step0"), Path("good/step0"), Path("output"))
    result.document          # {"rank_1": [{"op_name": "Tensor.__mul__.0.forward", "data_info": {...}, ...}]}

The numbers are those of the statistics mode, also for tensor dumps. With the policy ``default`` a call agrees when all
its rows do. With ``reference`` it agrees when no relative difference of a result is above one half; a value without a
percentage (a call on one side only, ``inf``, ``Nan``, ``Diff``) never agrees.

The models at the end describe the documents of ``compare -da`` and of ``overflow_check``; ``schemas/`` is made from
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe.analyze.accepted_differences import accept_differences
from msprobe.analyze.ended_run import stopped_first_notes
from msprobe.analyze.first_divergence import Divergence, first_divergence
from msprobe.analyze.overflow import write_document
from msprobe.analyze.rank_order import RankFinding, earliest, rank_finding
from msprobe.compare.agreement import AS_FAR, WHY, is_order_blind
from msprobe.compare.alignment.check_mappings import UnusedEntry, unused_entry_notes, unused_mapping_entries
from msprobe.compare.alignment.options import MappingOptions
from msprobe.compare.comparison import Comparison, StepHistory, compare_dumps
from msprobe.compare.coverage import any_checked, coverage_of
from msprobe.compare.dump_pairs import following, locate
from msprobe.compare.extensions import Extras, load_extras
from msprobe.compare.header_checks import header_notes, version_notes
from msprobe.compare.inputs.locations import PathLike, local, opened
from msprobe.compare.inputs.mode import Policy
from msprobe.compare.layout_from_records import with_recorded_layouts
from msprobe.compare.parallel.layout import members_of
from msprobe.compare.parallel.merged_pair import load_pair
from msprobe.compare.records.call_source import PairSource, source_of_pair
from msprobe.compare.records.entries import EntryPair
from msprobe.compare.records.run_end import end_notes
from msprobe.compare.rows.columns import columns
from msprobe.compare.rows.rows import CompareRow
from msprobe.compare.rows.summary import AcceptedFinding, AcceptedUse, FirstDivergence, set_place, verdict_text
from msprobe.core.errors import MsprobeException
from msprobe.core.host import paused_gc
from msprobe.core.log import logger
from msprobe.core.store.process_folders import rank_numbers
from msprobe.core.store.reader import Dump, Place, damage_named
from msprobe.core.store.record_walk import OUTPUT, Leaf
from msprobe.core.tensors.statistics import STATISTICS
from msprobe.numerics.metrics.statistics import Cell
from msprobe.trace.leaves import RANK_KEYS, describe

if TYPE_CHECKING:
    from msprobe.compare.accepted import AcceptOption

_IGNORED = ("Torch.empty", "Torch.fill", "Tensor.__setitem__")
"""How names of calls begin that the reference policy does not report: their results are memory without values yet."""
_RELATIVE = tuple(f"{spec.name}RelativeErr" for spec in STATISTICS)
_HALF = 50.0
_SHOWN = (("source", "source"), ("golden source", "golden_source"), ("module", "module"), ("reason", "reason"))
_UNREAD = " in the recorded statistics; tensor files are not read here, compare without -da reads them"
_TITLES = tuple(spec.title for spec in STATISTICS)


@dataclass(slots=True)
class DiffAnalysis:
    """The result of an analysis.

    Args:
        document: the calls of the first difference by rank; empty where all ranks agree.
        files: the documents that were written.
        incomplete: sentences about what was not compared; ``lost`` are those about data that a record says it holds.
        files_unread: whether there are tensor files, which are not read.
        checked: whether a value could be checked on both sides.
        order_blind: whether the order of elements was not compared.
        accepted: what became of each accepted difference.
    """

    document: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    files: list[Path] = field(default_factory=list)
    incomplete: list[str] = field(default_factory=list)
    files_unread: bool = False
    lost: list[str] = field(default_factory=list)
    checked: bool = False
    order_blind: bool = False
    accepted: list[AcceptedUse] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        """Return the verdict, as ``msprobe compare`` gives it for recorded statistics."""
        return verdict_text(checked=self.checked, diverged=bool(self.document), lost=bool(self.lost))

    @property
    def lines(self) -> Iterator[str]:
        """Yield the result in words."""
        if self.verdict == "not_comparable":
            yield "Not comparable: no value could be checked on both sides."
        elif not self.document:
            found = f"No {'other ' if any(use.count for use in self.accepted) else ''}difference was found"
            found += " in what could be compared" if self.lost else ""
            yield f"{found}{_UNREAD if self.files_unread else ''}."
            if self.order_blind:
                yield f"This holds {AS_FAR}: {WHY}."
        for rank, calls in self.document.items():
            for call in calls:
                ranks = ", ".join(map(str, call["ranks"]))
                yield f"First difference: {call['name']} ({f'of ranks {ranks}' if ranks else rank.replace('_', ' ')})"
                sides = {"source": call["source_side"]}
                yield from (f"  {title}: {call[key]}{sides.get(key, '')}" for title, key in _SHOWN if call[key])
                yield from [f"  ranks: {ranks} ({call['blame']})"] if ranks else []
        for use in self.accepted:
            yield f"{'Accepted' if use.state == 'used' else 'Not accepted'}: {use.text}"
        for what in self.incomplete:
            yield f"Not compared: {what}"
        for file in self.files:
            yield f"Result: {file}"


def diff_analyze(
    target: PathLike,
    golden: PathLike,
    output: PathLike,
    policy: str = "default",
    mapping: MappingOptions | None = None,
    accept: AcceptOption = None,
) -> DiffAnalysis:
    """Compare all ranks, step by step up to the first step that differs, and write the documents.

    Args:
        target: path or URL of the dumps to be judged.
        golden: path or URL of the dumps to compare with.
        output: the folder for the documents.
        policy: ``default`` or ``reference``.
        mapping: the options that say which entries, ranks and steps belong together.
        accept: a file of accepted differences, or its content.

    Raises:
        ReadError: a path holds no dump, or one is damaged, or the file of accepted differences is wrong.
        NotComparableError: the dumps cannot be compared.
        MsprobeException: the output folder cannot be written, or a request is to be compared.
    """
    if mapping is not None and mapping.of_request:
        reason = "-da reads recorded statistics, which do not tell of the rows of one request; compare without -da"
        raise MsprobeException(MsprobeException.INVALID_PARAM_ERROR, reason)
    left, right, folder, extras = opened(target), opened(golden), local(output), load_extras(accept=accept)
    mapping = with_recorded_layouts(mapping or MappingOptions(), left, right)
    located = locate(left, right, mapping)
    result = DiffAnalysis(incomplete=list(located.unpaired), lost=list(located.missing))
    analysis = _Analysis(Policy(policy), mapping, folder, result, extras)
    with paused_gc():
        analysis.after.update(zip(located.pairs, following(located.pairs), strict=True))
        for step, pairs in groupby(located.pairs, key=lambda pair: pair[0].step):
            of_step = list(pairs)
            with damage_named(*(member for pair in of_step for place in pair for member in members_of(place))):
                analysis.compare_step(of_step, f"_step{step}" if located.several_steps else "")
            if analysis.result.document:
                break
    for line in unused_entry_notes(mapping, analysis.unused_entries):  # an error leaves no documents behind
        logger.warning("%s", line)
    analysis.write_pending()
    analysis.result.incomplete += stopped_first_notes(located.places)
    if extras.accepted:
        from msprobe.compare.accepted import uses_of  # YAML, only where differences are accepted

        result.accepted = uses_of(extras.accepted, analysis.accepted)
    return analysis.result


@dataclass(slots=True)
class _RankHistory(StepHistory):
    """What earlier steps of one rank showed; ``agreed``: there was an earlier step, and the last one agreed."""

    agreed: bool = False


@dataclass(slots=True)
class _Analysis:
    """An analysis while it runs.

    Args:
        extras: what the user accepts; ``accepted`` are the findings that were accepted.
        history: what earlier steps showed, by label of the rank.
        after: the pair of the next step of each pair; None for the last ones.
        unused_entries: the entries of mappings that do not apply, by pair of dumps.
        pending: documents and the beginnings of their file names. They are written when some entry of each mapping has
            applied.
    """

    policy: Policy
    mapping: MappingOptions
    folder: Path
    result: DiffAnalysis
    extras: Extras = field(default_factory=Extras)
    accepted: list[AcceptedFinding] = field(default_factory=list)
    history: dict[str, _RankHistory] = field(default_factory=dict)
    after: dict[tuple[Place, Place], tuple[Place, Place] | None] = field(default_factory=dict)
    unused_entries: list[list[UnusedEntry]] = field(default_factory=list)
    pending: list[tuple[dict[str, Any], str]] = field(default_factory=list)

    def compare_step(self, pairs: list[tuple[Place, Place]], suffix: str) -> None:
        """Compare the dumps of one step; ``suffix`` goes into the names of its documents."""
        findings: list[RankFinding] = []
        first_calls: dict[int, dict[str, Any]] = {}
        numbers = rank_numbers((target.kind, target.number) for target, _ in pairs)
        for rank, (left, right) in zip(numbers, pairs, strict=True):
            history = self.history.setdefault(left.label, _RankHistory())
            history.look_ahead(self.after[left, right], self.policy, self.mapping)
            comparison = self._comparison(left, right, history)
            records = entry_records(comparison)
            divergence = _divergence(comparison, records, later_step=history.agreed)
            named = -1 if divergence is None else _number_of(divergence, comparison, records)
            records = _with_named(records, named)
            self._write(calls_by_name(comparison, records), f"compare_result_rank{rank}{suffix}")
            history.agreed = divergence is None and history.accepted_spread == 0.0
            history.noise = comparison.judged.noise
            findings.append(rank_finding(comparison, rank, divergence))
            if divergence is not None:
                first = divergence.description
                pair = EntryPair(first.target, first.golden)
                source = source_of_pair(pair, comparison.target, comparison.golden)
                first_calls[rank] = _first_call(first, records.get(named, {"op_items": []}), source)
        standings = earliest(findings)
        causes = [standing for standing in standings if standing.first] or standings[:1]
        for standing in causes:
            if standing.layer == causes[0].layer:
                self.result.document[f"rank_{standing.rank}"] = [first_calls[standing.rank]]
        if self.result.document:
            self._write(self.result.document, "diff_analyze")

    def _comparison(self, left: Place, right: Place, history: _RankHistory) -> Comparison:
        target, golden, notes = load_pair(left, right)
        for note in (*notes, *header_notes(target), *header_notes(golden)):
            logger.warning("%s", note)
        self.result.incomplete += [*version_notes(target), *version_notes(golden)]
        if self.mapping.given:
            self.unused_entries.append(unused_mapping_entries(self.mapping, target, golden))
        self.result.files_unread = self.result.files_unread or target.task == "tensor"
        comparison = compare_dumps(
            _as_statistics(target),
            _as_statistics(golden),
            self.policy,
            mapping=self.mapping,
            history=history,
            extras=self.extras,
        )
        done = accept_differences(comparison, self.extras.accepted, history, later_step=history.agreed)
        comparison = done.comparison
        self.accepted += done.findings
        self.result.lost += done.hidden
        self.result.incomplete += done.hidden
        coverage = coverage_of(comparison)
        self.result.checked = self.result.checked or any_checked(comparison)
        self.result.order_blind = self.result.order_blind or is_order_blind(comparison)
        self.result.lost += coverage.lost
        self.result.incomplete += [*end_notes(target, golden), *coverage.incomplete]
        for note in coverage.notes:
            logger.warning("%s", note)
        return comparison

    def _write(self, document: dict[str, Any], stem: str) -> None:
        self.pending.append((document, stem))
        if not self.mapping.given:
            self.write_pending()

    def write_pending(self) -> None:
        """Write the documents that are not written yet."""
        self.result.files += [write_document(document, self.folder, stem) for document, stem in self.pending]
        self.pending.clear()


def _as_statistics(dump: Dump) -> Dump:
    return replace(dump, task="statistics") if dump.task == "tensor" else dump


def _divergence(comparison: Comparison, records: dict[int, dict[str, Any]], *, later_step: bool) -> Divergence | None:
    """Return the first divergence under the policy: of the reference policy, the first call that does not agree."""
    divergence = first_divergence(comparison, later_step=later_step)
    if comparison.policy is Policy.DEFAULT or divergence is None:
        return divergence
    for number, pair in enumerate(comparison.table.entries):
        ignored = pair.benign or pair.name.startswith(_IGNORED)
        if not ignored and number in records and not records[number]["is_same"]:
            return Divergence(number, _described(comparison, divergence, number))
    return None


def _described(comparison: Comparison, divergence: Divergence, entry: int) -> FirstDivergence:
    """Return the description of an entry that another policy names, with the name and the place of that entry."""
    pair, first = comparison.table.entries[entry], divergence.description
    if (first.target, first.golden) == (pair.target, pair.golden):
        return first
    source = source_of_pair(pair, comparison.target, comparison.golden)
    described = replace(
        first,
        target=pair.target,
        golden=pair.golden,
        slot=None,
        reason="a relative difference is above one half",
        module=source.own.module,
    )
    set_place(described, source)
    return described


def _number_of(divergence: Divergence, comparison: Comparison, records: Mapping[int, Any]) -> int:
    """Return the entry that is named: of a call without values that which shows the difference."""
    first = divergence.description
    entries = enumerate(comparison.table.entries)
    named = (number for number, pair in entries if (pair.target, pair.golden) == (first.target, first.golden))
    return next((number for number in named if number in records), divergence.entry)


def _with_named(records: dict[int, dict[str, Any]], named: int) -> dict[int, dict[str, Any]]:
    """Return the records in which the call that is named does not agree: one run alone may make it."""
    return {number: {**record, "is_same": False} if number == named else record for number, record in records.items()}


def entry_records(comparison: Comparison) -> dict[int, dict[str, Any]]:
    """Return for each entry of the table that has rows, by its number, ``is_same`` and ``op_items``: whether it agrees,
    and its rows as objects with the titles of the columns."""
    titles = columns(comparison.mode, comparison.target.has_stacks)
    rows = comparison.rows()
    table = comparison.table
    records: dict[int, dict[str, Any]] = {}
    for number, pair in enumerate(table.entries):
        items = [
            _item(titles, next(rows), pair.name, (table.target[row], table.golden[row]))
            for row in table.rows_of(number)
        ]
        if items and pair.target is not None and items[0].get("NPU_Stack_Info", "N/A") != "N/A":
            items[0]["NPU_Stack_Info"] = comparison.target.stacks[pair.target]
        if comparison.policy is Policy.REFERENCE:
            same = pair.benign or all(_agrees(item) for item in items)
        else:
            same = not comparison.row_levels.diverging[number]
        if items:
            records[number] = {"is_same": bool(same), "op_items": items}
    return records


def calls_by_name(comparison: Comparison, records: dict[int, dict[str, Any]]) -> dict[str, Any]:
    """Return the records by the name of the call, as the document has them.

    The two sides may have different calls of one name, neither of which is the partner of the other. The rows of both
    stand under that name, and it agrees when both calls do.
    """
    calls: dict[str, Any] = {}
    for number, record in records.items():
        name = comparison.table.entries[number].name
        other = calls.get(name)
        calls[name] = (
            record
            if other is None
            else {
                "is_same": other["is_same"] and record["is_same"],
                "op_items": other["op_items"] + record["op_items"],
            }
        )
    return calls


def _item(
    titles: tuple[str, ...], row: CompareRow, name: str, sides: tuple[Leaf | None, Leaf | None]
) -> dict[str, Any]:
    """Return a row as an object with the titles of the columns."""
    item: dict[str, Any] = dict(zip(titles, row.cells, strict=False))
    item["Requires_grad Consistent"] = item["Requires_grad Consistent"] == "True"
    item["Result"], item["Err_message"] = row.level, "; ".join(row.messages)
    leaf = sides[0] or sides[1]
    for title in titles:
        if title.endswith(("diff", "Err")):
            item[title] = str(item[title])
    for title, side in (("NPU", sides[0]), ("Bench", sides[1])):
        if side is not None and f"{title} max" in item:
            item.update(zip([f"{title} {name}" for name in _TITLES], _statistics(side), strict=True))
    item["state"] = leaf.slot if leaf is not None else "N/A"
    item["api_origin_name"] = name
    for key in ("op", "peer"):
        for title, side in (("NPU", sides[0]), ("Bench", sides[1])):
            raw = side.raw if side is not None and isinstance(side.raw, dict) else {}
            item[f"{title} P2POp {key}"] = str(raw.get("p2p", {}).get(key))
    return item


def _statistics(leaf: Leaf) -> tuple[Any, ...]:
    """Return the statistics of an item: numbers as numbers, a flag as the flag, and ranks as texts, as readers of
    this document know them."""
    value = leaf.raw.get("value") if isinstance(leaf.raw, dict) else None
    if isinstance(value, bool):
        return (value,) * len(_TITLES)
    shown = describe(leaf).statistics
    return tuple(map(str, shown)) if leaf.suffix.endswith(RANK_KEYS) else shown


def _agrees(item: dict[str, Any]) -> bool:
    """Return whether a row agrees under the reference policy."""
    if "N/A" in (item["NPU Name"], item["Bench Name"]):
        return False
    if item["state"] != OUTPUT or "NPU MD5" in item:
        return "NPU MD5" not in item or bool(item["NPU MD5"] == item["BENCH MD5"])
    return all(_is_below_half(item[title]) for title in _RELATIVE)


def _is_below_half(cell: Cell) -> bool:
    text = str(cell)
    return float(text[:-1]) <= _HALF if text.endswith("%") else text in ("0", "0.0")


def _first_call(first: FirstDivergence, record: dict[str, Any], source: PairSource) -> dict[str, Any]:
    """Return the document of the call of a first difference: its statistics, and where each run made it."""
    info: dict[str, dict[str, Any]] = {"input": {}, "output": {}}
    for item in record["op_items"]:
        side, title = ("NPU", "NPU Name") if item["NPU Name"] != "N/A" else ("Bench", "Bench Name")
        wanted = [f"{side} {statistic}" for statistic in _TITLES] + [f"{side} MD5", "BENCH MD5"]
        values = {key: item[key] for key in wanted if key in item and (side != "NPU" or key != "BENCH MD5")}
        values["NPU P2POp peer"] = item["NPU P2POp peer"]
        info["output" if item["state"] == OUTPUT else "input"][item[title]] = values
    whole = list(source.own.stack)
    return {
        "op_name": first.target or first.golden,
        "data_info": info,
        "stack_info": whole if not first.stack or whole[-len(first.stack) :] == first.stack else first.stack,
        "name": first.name,
        "reason": first.reason,
        "module": first.module,
        "source": first.source,
        "source_side": first.source_side,
        "golden_stack_info": list(source.golden.stack) if source.golden is not None else [],
        "golden_source": "".join(call.source for call in first.calls[1:] if call.run == "golden run"),
        "ranks": first.ranks,
        "blame": first.blame,
    }
