"""``msprobe compare -da``: per rank whether each call agrees, and the calls of the first difference of all ranks.

    result = diff_analyze(Path("bad/step0"), Path("good/step0"), Path("output"))
    result.document          # {"rank_1": [{"op_name": "Tensor.__mul__.0.forward", "data_info": {...}, ...}]}

The numbers are those of the statistics mode, also for tensor dumps. With the policy ``default`` a call agrees when
all its rows do; with ``reference`` when no relative difference of a result is above one half, where a value that has
no percentage (a call on one side only, ``inf``, ``Nan``, ``Diff``) never agrees.

What the result documents of ``compare -da`` and ``overflow_check`` hold; their JSON Schemas are made from here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from msprobe.analyze.first_divergence import Divergence, first_divergence
from msprobe.analyze.overflow import write_finding
from msprobe.analyze.rank_order import RankFinding, earliest, rank_finding, rank_numbers
from msprobe.compare.alignment.check_mappings import Unapplied, unapplied, unapplied_notes
from msprobe.compare.alignment.options import MappingOptions
from msprobe.compare.comparison import Comparison, StepHistory, compare_dumps
from msprobe.compare.coverage import incomplete
from msprobe.compare.dump_pairs import locate
from msprobe.compare.header_checks import header_notes, version_notes
from msprobe.compare.inputs.locations import PathLike, local, opened
from msprobe.compare.inputs.mode import Policy
from msprobe.compare.layout_from_records import with_recorded_layouts
from msprobe.compare.parallel.layout import load_pair
from msprobe.compare.records.call_source import CallSource, source_of_pair
from msprobe.compare.records.leaves import RANK_KEYS, describe
from msprobe.compare.rows.columns import columns
from msprobe.compare.rows.rows import CompareRow
from msprobe.core.log import logger
from msprobe.core.store.reader import Dump, Place, paused_gc
from msprobe.core.store.record_walk import OUTPUT, Leaf
from msprobe.core.tensors.statistics import STATISTICS
from msprobe.numerics.metrics.statistics import Cell

_IGNORED = ("Torch.empty", "Torch.fill", "Tensor.__setitem__")
_RELATIVE = tuple(f"{spec.name}RelativeErr" for spec in STATISTICS)
_HALF = 50.0
_UNREAD = " in the recorded statistics; tensor files are not read here, compare without -da reads them"
_STATISTICS = tuple(spec.title for spec in STATISTICS)


@dataclass(slots=True)
class DiffAnalysis:
    """The answer: ``document`` is empty where all ranks agree; ``files`` are the documents written;
    ``incomplete`` says what was not compared, ``files_unread`` that there are tensor files, which are not read."""

    document: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    files: list[Path] = field(default_factory=list)
    incomplete: list[str] = field(default_factory=list)
    files_unread: bool = False

    @property
    def lines(self) -> Iterator[str]:
        """The answer in words."""
        if not self.document:
            yield f"No difference was found{_UNREAD if self.files_unread else ''}."
        for rank, calls in self.document.items():
            for call in calls:
                yield f"First difference: {call['op_name']} ({rank.replace('_', ' ')})"
        for what in self.incomplete:
            yield f"Not compared: {what}"
        for file in self.files:
            yield f"Result: {file}"


def diff_analyze(
    target: PathLike, golden: PathLike, output: PathLike, policy: str = "default", mapping: MappingOptions | None = None
) -> DiffAnalysis:
    """Compare all ranks of the first step that differs and write the documents into ``output``. ``mapping`` says which
    entries, ranks and steps belong together; the dumps are paths or URLs.

    Raises:
        ReadError: a path holds no dump, or one is damaged.
        NotComparableError: the dumps cannot be compared.
        MsprobeException: the output folder cannot be written.
    """
    left, right, folder = opened(target), opened(golden), local(output)
    mapping = with_recorded_layouts(mapping or MappingOptions(), left, right)
    located = locate(left, right, mapping)
    result = DiffAnalysis(incomplete=list(located.unpaired))
    history: dict[str, _AnalysisHistory] = {}
    how = _How(Policy(policy), mapping, folder, result.files)
    with paused_gc():
        for step, pairs in groupby(located.pairs, key=lambda pair: pair[0].step):
            how.stem = f"_step{step}" if located.several_steps else ""
            _step(result, list(pairs), how, history)
            if result.document:
                break
    for line in unapplied_notes(mapping, how.lost):  # an error leaves no documents behind
        logger.warning("%s", line)
    how.write_waiting()
    return result


@dataclass(slots=True)
class _AnalysisHistory(StepHistory):
    later: bool = False


@dataclass(slots=True)
class _How:
    """``lost`` are the entries of mappings that do not apply, by pair. Until it is known that some do, documents are
    ``waiting`` with their names; ``files`` are those written."""

    policy: Policy
    mapping: MappingOptions
    folder: Path
    files: list[Path]
    stem: str = ""
    lost: list[list[Unapplied]] = field(default_factory=list)
    waiting: list[tuple[dict[str, Any], str]] = field(default_factory=list)

    def write(self, document: dict[str, Any], stem: str) -> None:
        self.waiting.append((document, stem))
        if not self.mapping.given:
            self.write_waiting()

    def write_waiting(self) -> None:
        self.files += [write_finding(document, self.folder, stem) for document, stem in self.waiting]
        self.waiting.clear()


def _step(
    result: DiffAnalysis, pairs: list[tuple[Place, Place]], how: _How, history: dict[str, _AnalysisHistory]
) -> None:
    findings: list[RankFinding] = []
    records: dict[int, dict[str, Any]] = {}
    for rank, (left, right) in zip(rank_numbers((p.kind, p.number) for p, _ in pairs), pairs, strict=True):
        known = history.setdefault(left.label, _AnalysisHistory())
        ours, theirs, notes = load_pair(left, right)
        for note in (*notes, *header_notes(ours), *header_notes(theirs)):
            logger.warning("%s", note)
        result.incomplete += [*version_notes(ours), *version_notes(theirs)]
        if how.mapping.given:
            how.lost.append(unapplied(how.mapping, ours, theirs))
        result.files_unread = result.files_unread or ours.task == "tensor"
        comparison = compare_dumps(
            _as_statistics(ours), _as_statistics(theirs), how.policy, mapping=how.mapping, history=known
        )
        result.incomplete += incomplete(comparison)
        calls = call_records(comparison)
        how.write(calls, f"compare_result_rank{rank}{how.stem}")
        found = _first(comparison, calls, known)
        known.later, known.noise = found is None, comparison.judged.noise
        findings.append(rank_finding(comparison, rank, found))
        if found is not None:
            pair = comparison.table.entries[found.entry]
            name = pair.target or pair.golden or ""
            source = source_of_pair(pair, comparison.target, comparison.golden)
            records[rank] = _record(name, calls[name], source)
    causes = [standing for standing in earliest(findings) if standing.first] or earliest(findings)[:1]
    for standing in causes:
        if standing.layer == causes[0].layer:
            result.document[f"rank_{standing.rank}"] = [records[standing.rank]]
    if result.document:
        how.write(result.document, "diff_analyze")


def _as_statistics(dump: Dump) -> Dump:
    return replace(dump, task="statistics") if dump.task == "tensor" else dump


def _first(comparison: Comparison, calls: dict[str, Any], history: _AnalysisHistory) -> Divergence | None:
    found = first_divergence(comparison, later_step=history.later)
    if comparison.policy is Policy.DEFAULT or found is None:
        return found
    for number, pair in enumerate(comparison.table.entries):
        name = pair.target or pair.golden or ""
        if not pair.benign and not name.startswith(_IGNORED) and name in calls and not calls[name]["is_same"]:
            return Divergence(number, found.found)
    return None


def call_records(comparison: Comparison) -> dict[str, Any]:
    """Of each call, by its name: whether it agrees, and its rows as objects with the titles of the columns."""
    titles = columns(comparison.mode, comparison.target.has_stacks)
    rows = comparison.rows()
    table, found = comparison.table, {}
    for number, pair in enumerate(table.entries):
        name = pair.target or pair.golden or ""
        here = range(int(table.starts[number]), int(table.starts[number + 1]))
        items = [_item(titles, next(rows), name, (table.target[row], table.golden[row])) for row in here]
        if items and items[0].get("NPU_Stack_Info", "N/A") != "N/A":
            items[0]["NPU_Stack_Info"] = comparison.target.stacks[name]
        if comparison.policy is Policy.REFERENCE:
            same = pair.benign or all(_agrees(item) for item in items)
        else:
            same = not comparison.row_levels.diverging[number]
        if items:
            found[name] = {"is_same": bool(same), "op_items": items}
    return found


def _item(
    titles: tuple[str, ...], row: CompareRow, name: str, sides: tuple[Leaf | None, Leaf | None]
) -> dict[str, Any]:
    item: dict[str, Any] = dict(zip(titles, row.cells, strict=False))
    item["Requires_grad Consistent"] = item["Requires_grad Consistent"] == "True"
    item["Result"], item["Err_message"] = row.level, "; ".join(row.messages)
    leaf = sides[0] or sides[1]
    for title in titles:
        if title.endswith(("diff", "Err")):
            item[title] = str(item[title])
    for title, side in (("NPU", sides[0]), ("Bench", sides[1])):
        if side is not None and f"{title} max" in item:
            item.update(zip([f"{title} {name}" for name in _STATISTICS], _statistics(side), strict=True))
    item["state"] = leaf.slot if leaf is not None else "N/A"
    item["api_origin_name"] = name
    for key in ("op", "peer"):
        for title, side in (("NPU", sides[0]), ("Bench", sides[1])):
            raw = side.raw if side is not None and isinstance(side.raw, dict) else {}
            item[f"{title} P2POp {key}"] = str(raw.get("p2p", {}).get(key))
    return item


def _statistics(leaf: Leaf) -> tuple[Any, ...]:
    """Numbers as numbers; flags stay flags and ranks are texts, as readers of this document know them."""
    value = leaf.raw.get("value") if isinstance(leaf.raw, dict) else None
    if isinstance(value, bool):
        return (value,) * len(STATISTICS)
    shown = describe(leaf).statistics
    return tuple(map(str, shown)) if leaf.suffix.endswith(RANK_KEYS) else shown


def _agrees(item: dict[str, Any]) -> bool:
    if "N/A" in (item["NPU Name"], item["Bench Name"]):
        return False
    if item["state"] != OUTPUT or "NPU MD5" in item:
        return "NPU MD5" not in item or bool(item["NPU MD5"] == item["BENCH MD5"])
    return all(_within(item[title]) for title in _RELATIVE)


def _within(cell: Cell) -> bool:
    text = str(cell)
    return float(text[:-1]) <= _HALF if text.endswith("%") else text in ("0", "0.0")


def _record(name: str, call: dict[str, Any], source: CallSource) -> dict[str, Any]:
    info: dict[str, dict[str, Any]] = {"input": {}, "output": {}}
    for item in call["op_items"]:
        side, title = ("NPU", "NPU Name") if item["NPU Name"] != "N/A" else ("Bench", "Bench Name")
        wanted = [f"{side} {statistic}" for statistic in _STATISTICS] + [f"{side} MD5", "BENCH MD5"]
        values = {key: item[key] for key in wanted if key in item and (side != "NPU" or key != "BENCH MD5")}
        values["NPU P2POp peer"] = item["NPU P2POp peer"]
        info["output" if item["state"] == OUTPUT else "input"][item[title]] = values
    return {"op_name": name, "data_info": info, "stack_info": list(source.stack)}


_ROWS = "The columns of the result table by title, and state, api_origin_name, the op and peer of batched transfers."


class ComparedCall(BaseModel):
    """One call in ``compare_result_rank{N}_{time}.json``."""

    model_config = ConfigDict(extra="forbid")

    is_same: bool = Field(description="every value within its tolerance, and on both sides")
    op_items: list[dict[str, Any]] = Field(description=_ROWS)


class FirstCall(BaseModel):
    """One call in ``diff_analyze_{time}.json``."""

    model_config = ConfigDict(extra="forbid")

    op_name: str
    data_info: dict[str, dict[str, dict[str, Any]]] = Field(
        description="below input and output: name of a value, to its statistics or checksums by title"
    )
    stack_info: list[str] = Field(description="frames, innermost first; empty where none were recorded")


class OverflowCall(BaseModel):
    """One call in ``anomaly_analyze_{time}.json``."""

    model_config = ConfigDict(extra="forbid")

    op_name: str
    data_info: dict[str, Any] | list[Any] = Field(description="the recorded sections of the call, as in dump.json")
    construct_info: list[str] = Field(description="the modules around the call from the root on, and the call")
    stack_info: list[str] | dict[str, Any] = Field(description="frames, innermost first; {} where none were recorded")
    reason: str


ComparedCalls = TypeAdapter(dict[str, ComparedCall])
"""By name of the call."""
FirstCalls = TypeAdapter(dict[str, list[FirstCall]])
"""By rank, as rank_0."""
OverflowCalls = TypeAdapter(dict[str, list[OverflowCall]])
"""By rank, as rank_0."""


def compared_calls_schema() -> dict[str, Any]:
    """JSON Schema of ``compare_result_rank{N}_{time}.json``."""
    return ComparedCalls.json_schema()


def first_calls_schema() -> dict[str, Any]:
    """JSON Schema of ``diff_analyze_{time}.json``."""
    return FirstCalls.json_schema()


def overflow_calls_schema() -> dict[str, Any]:
    """JSON Schema of ``anomaly_analyze_{time}.json``."""
    return OverflowCalls.json_schema()
