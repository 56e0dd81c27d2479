"""The queries of the front end: what a graph database holds, one graph, facts about its nodes, the data of one node.

``GraphDatabase`` answers them on every database of the published format. Verdicts come from the extra tables of this
tool where they exist, otherwise from ``precision_index`` of the published format.

``fact_of`` searches the stored text of a node for its dtypes and its worst relative difference, instead of parsing it:
a step of 50 000 nodes holds some hundred megabytes of text. ``parent_indexes`` replaces unknown parents and circles, so
that every node is below a root.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msprobe.core.errors import ReadError
from msprobe.core.tensors.statistics import STATISTIC_NAMES
from msprobe.visualize.viewer.databases import REMEDY, open_read_only, rows_of

_DTYPE = re.compile(r'"dtype": ?"((?:[^"\\]|\\.)*)"')
_RELATIVE = re.compile(rf'"(?:{"|".join(STATISTIC_NAMES)})RelativeErr": ?"([^"]*)"')
Json = dict[str, Any]
SIDES = {"target": "NPU", "golden": "Bench"}
VERDICTS = ("same", "pass", "warning", "error", "unmatched", "not_compared", "no_data")
_CODES = {name: code for code, name in enumerate(VERDICTS)}
_NO_DATA, _NOT_COMPARED, _UNMATCHED = (_CODES[name] for name in ("no_data", "not_compared", "unmatched"))
_DECODER = json.JSONDecoder(parse_constant=str)  # browsers know no NaN in JSON
LARGEST_INTEGER = 2**63 - 1
"""The largest integer that SQLite can compare with."""
_SHOWN = 40
_LARGEST = 1e300  # stands for infinity, which JSON cannot say
_COMPARED = "CASE WHEN precision_index IS NULL THEN input_data = '{}' AND output_data = '{}' END"
_GRAPH = f"""SELECT node_name, up_node, node_type, micro_step_id, overflow_level, matched_node_link, precision_index,
    {_COMPARED}, id FROM tb_nodes WHERE step = ? AND rank = ? AND data_source = ? ORDER BY node_order"""
_GRAPH_KINDS = "Ttaaatnnt"
_CONFIG = "SELECT graph_type, task, overflow_check, step_list, rank_list FROM tb_config"
_GRID_VERDICTS = """SELECT step, rank, own_verdict, count(*) FROM tb_nodes JOIN tb_msprobe_nodes USING (id)
    WHERE data_source = ? GROUP BY step, rank, own_verdict"""
_GRID_PUBLISHED = """SELECT step, rank, CASE WHEN matched_node_link IN ('[]', '') THEN 'unmatched'
    WHEN precision_index IS NULL THEN 'not_compared' WHEN precision_index < 0.3 THEN 'pass'
    WHEN precision_index < 0.6 THEN 'warning' ELSE 'error' END AS verdict, count(*)
    FROM tb_nodes WHERE data_source = ? GROUP BY step, rank, verdict"""
_DATA = """SELECT input_data, output_data, stack_info, parallel_merge_info, matched_distributed, dump_data_dir, %s
    FROM tb_nodes LEFT JOIN tb_stack ON tb_stack.id = tb_nodes.stack_id
    WHERE step = ? AND rank = ? AND data_source = ?"""
_DATA_KINDS = "ttttttt"
_VALUES = "(SELECT data FROM tb_msprobe_values AS own WHERE own.id = tb_nodes.id)"
_STACK = """SELECT stack_info FROM tb_nodes LEFT JOIN tb_stack ON tb_stack.id = tb_nodes.stack_id
    WHERE step = ? AND rank = ? AND data_source = ?"""


class GraphDatabase:
    """One .vis.db. Every method opens it for itself, so that threads may share the object."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def overview(self) -> Json:
        """Return kind, task, steps, ranks, and the metadata (empty for a database that another tool wrote)."""
        with open_read_only(self.path) as connection:
            row = next(rows_of(connection, _CONFIG, "Ttntt"))
            meta = {}
            if _has(connection, "tb_msprobe_meta"):
                pairs = rows_of(connection, "SELECT key, value FROM tb_msprobe_meta", "Tt")
                meta = {key: _value(text) for key, text in pairs}
        return {
            "name": self.path.name,
            "kind": row[0],
            "task": row[1] or "",
            "overflow": bool(row[2]),
            "steps": self._numbers("step_list", row[3]),
            "ranks": self._numbers("rank_list", row[4]),
            "verdicts": VERDICTS,
            "meta": meta,
        }

    def _numbers(self, column: str, text: str | None) -> list[int]:
        """Return the steps or ranks of tb_config; [0] where there are none."""
        numbers = _value(text) or [0]
        if not (isinstance(numbers, list) and set(map(type, numbers)) == {int}):
            raise ReadError(f"{self.path.name}: its {column} {shortened(text)} is no list of numbers; {REMEDY}")
        if max(numbers) > LARGEST_INTEGER or min(numbers) < -LARGEST_INTEGER:
            raise ReadError(f"{self.path.name}: a number in its {column} is too large; {REMEDY}")
        return numbers

    def graph(self, step: int, rank: int) -> Json:
        """Return both sides of one step and rank as columns; ``golden`` is None where only one run was drawn.

        Columns, one value per node in stored order (children before their parent): names; parents, the index of the
        parent or -1; types; micro; overflow; verdicts, an index into ``verdicts`` of the overview; errors, in
        multiples of the tolerance or null; order, the place in the execution or null; reasons; matches, the index of
        the partner on the other side or -1.
        """
        with open_read_only(self.path) as connection:
            judged = _judgements(connection, step, rank)
            sides = {
                name: _side(list(rows_of(connection, _GRAPH, _GRAPH_KINDS, (step, rank, source))), judged)
                for name, source in SIDES.items()
            }
        target, golden = sides["target"], sides["golden"]
        _link(target, golden)
        for side in (target, golden):
            del side["links"], side["judged"]
        return {"step": step, "rank": rank, "target": target, "golden": golden if golden["names"] else None}

    def grid(self) -> list[Json]:
        """Return for each step and rank how many target nodes have each verdict, in the order of ``verdicts``."""
        with open_read_only(self.path) as connection:
            has_verdicts = _has(connection, "tb_msprobe_nodes")
            query = _GRID_VERDICTS if has_verdicts else _GRID_PUBLISHED
            rows = list(rows_of(connection, query, "iiti", (SIDES["target"],)))
        cells: dict[tuple[int, int], list[int]] = {}
        for step, rank, verdict, count in rows:
            cells.setdefault((step, rank), [0] * len(VERDICTS))[_CODES.get(verdict, _NOT_COMPARED)] += count
        return [{"step": step, "rank": rank, "counts": counts} for (step, rank), counts in sorted(cells.items())]

    def facts(self, step: int, rank: int) -> Json:
        """Return the dtypes and the worst relative difference of each target node, in the order of :meth:`graph`.

        ``dtypes`` lists sets of dtypes, ``dtype`` the index of each node's set; ``errors`` are fractions or null.
        """
        query = "SELECT input_data, output_data FROM tb_nodes WHERE step = ? AND rank = ? AND data_source = ?"
        with open_read_only(self.path) as connection:
            facts: list[Fact] = [
                fact_of(f"{inputs}{outputs}")
                for inputs, outputs in rows_of(
                    connection, f"{query} ORDER BY node_order", "tt", (step, rank, SIDES["target"])
                )
            ]
        sets = {dtypes: number for number, dtypes in enumerate(dict.fromkeys(fact.dtypes for fact in facts))}
        return {
            "dtypes": [list(dtypes) for dtypes in sets],
            "dtype": [sets[fact.dtypes] for fact in facts],
            "errors": [fact.error for fact in facts],
        }

    def stacks(self, step: int, rank: int) -> Json:
        """Return the call stacks of both sides.

        ``texts`` holds each stack once, as a list of frames; ``target`` and ``golden`` have the index of each node's
        stack in it, in the order of :meth:`graph`, or -1.
        """
        query = f"{_STACK} ORDER BY node_order"
        numbers: dict[str, int] = {}
        with open_read_only(self.path) as connection:
            indexes = {
                name: [
                    numbers.setdefault(text, len(numbers)) if text else -1
                    for (text,) in rows_of(connection, query, "t", (step, rank, source))
                ]
                for name, source in SIDES.items()
            }
        return {"texts": [_value(text) for text in numbers], **indexes}

    def node(self, step: int, rank: int, side: str, name: str) -> Json:
        """Return the data of one node: input, output, stack, merged, links, folder, and the values that it gets and
        gives (None in a database without them).

        Raises:
            ReadError: there is no such node.
        """
        with open_read_only(self.path) as connection:
            values = (step, rank, _source(side), name)
            rows = list(rows_of(connection, f"{_data(connection)} AND node_name = ?", _DATA_KINDS, values))
        if not rows:
            raise ReadError(f"{self.path.name} has no node {name} on the {side} side of step {step}, rank {rank}")
        return _detail(rows[0])

    def children(self, step: int, rank: int, side: str, name: str) -> list[Json]:
        """Return the data of all nodes directly below a node, in stored order."""
        with open_read_only(self.path) as connection:
            query = f"{_data(connection)} AND up_node = ? ORDER BY node_order"
            values = (step, rank, _source(side), name)
            return [_detail(row) for row in rows_of(connection, query, _DATA_KINDS, values)]

    def all_nodes(self, step: int, rank: int, side: str) -> Iterable[Json]:
        """Yield the data of every node of a side, in stored order."""
        with open_read_only(self.path) as connection:
            values = (step, rank, _source(side))
            for row in rows_of(connection, f"{_data(connection)} ORDER BY node_order", _DATA_KINDS, values):
                yield _detail(row)


def _side(rows: list[Any], judged: dict[str, Any]) -> Json:
    names, ups, types, micro, overflow, links, levels, empty, ids = zip(*rows, strict=True) if rows else ((),) * 9
    records = [judged.get(name) for name in ids]
    partners = [_partner(text, name) for text, name in zip(links, names, strict=True)]
    verdicts = [
        record[0] if record else _published_verdict(level, bool(partner), bool(bare))
        for record, level, partner, bare in zip(records, levels, partners, empty, strict=True)
    ]
    return {
        "names": list(names),
        "parents": parent_indexes(names, ups),
        "types": list(types),
        "micro": list(micro),
        "overflow": list(overflow),
        "verdicts": verdicts,
        "errors": [_finite(record[1]) if record else None for record in records],
        "order": [record[2] if record else None for record in records],
        "reasons": [record[3] if record else None for record in records],
        "links": partners,
        "judged": [record is not None for record in records],
    }


def _finite(error: float | None) -> float | None:
    return error if error is None else min(error, _LARGEST)


def _published_verdict(level: float | None, matched: bool, bare: bool) -> int:
    """Return the verdict of the published colour ranges: below 0.3 pass, below 0.6 warning, else error."""
    if not matched:
        return _UNMATCHED
    if level is None:
        return _NO_DATA if bare else _NOT_COMPARED
    return VERDICTS.index("pass" if level < 0.3 else "warning" if level < 0.6 else "error")


def _link(target: Json, golden: Json) -> None:
    """Set partners as indexes, and the published verdicts of nodes without a partner and of the golden side."""
    golden_index = {name: index for index, name in enumerate(golden["names"])}
    target["matches"] = matches = [golden_index.get(link, -1) for link in target["links"]]
    golden["matches"] = back = [-1] * len(golden["names"])
    for index, partner in enumerate(matches):
        if partner >= 0:
            back[partner] = index
    for index, partner in enumerate(matches):
        if partner < 0 and not target["judged"][index]:
            target["verdicts"][index] = _UNMATCHED if golden_index else _NOT_COMPARED
    for index, partner in enumerate(back):
        if not golden["judged"][index]:
            golden["verdicts"][index] = _UNMATCHED if partner < 0 else target["verdicts"][partner]


def _partner(text: str | None, name: str) -> str:
    """Return the last name of a stored chain of ancestors; "" for none. ``name`` is what it is in most cases."""
    if not text or text == "[]":
        return ""
    if text.endswith((f' "{name}"]', f',"{name}"]', f'["{name}"]')):
        return name  # decoding a hundred thousand chains takes longer than all the rest
    chain = _value(text)
    return str(chain[-1]) if isinstance(chain, list) and chain else ""


def _judgements(connection: sqlite3.Connection, step: int, rank: int) -> dict[str, Any]:
    """Return node id -> (verdict, error, execution order, reason) from the table of this tool."""
    if not _has(connection, "tb_msprobe_nodes"):
        return {}
    query = """SELECT own.id, own_verdict, error, execution_order, reason FROM tb_msprobe_nodes AS own
        JOIN tb_nodes ON tb_nodes.id = own.id WHERE step = ? AND rank = ?"""
    return {
        name: (_CODES.get(verdict, _NOT_COMPARED), error, order, reason)
        for name, verdict, error, order, reason in rows_of(connection, query, "ttnnt", (step, rank))
    }


def _data(connection: sqlite3.Connection) -> str:
    return _DATA % (_VALUES if _has(connection, "tb_msprobe_values") else "NULL")


def _detail(row: tuple[Any, ...]) -> Json:
    inputs, outputs, stack, merged, links, folder, values = row
    return {
        "input": _value(inputs) or {},
        "output": _value(outputs) or {},
        "stack": _value(stack) or [],
        "merged": _value(merged) or [],
        "links": _value(links) or {},
        "folder": folder,
        "values": _value(values),
    }


def _value(text: str | None) -> Any:
    """Return stored JSON; text that is no JSON is shown as it is."""
    if not text:
        return None
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError):
        return text


def encode(content: Any) -> bytes:
    """Return an answer as compact JSON.

    Raises:
        ReadError: a stored value is nested too deeply.
    """
    try:
        return json.dumps(content, separators=(",", ":")).encode()
    except RecursionError as error:
        raise ReadError(f"a stored value is nested too deeply; {REMEDY}") from error


def shortened(text: str | None) -> str:
    """Return the beginning of a text, quoted, for a message."""
    return repr(text if text is None or len(text) <= _SHOWN else f"{text[:_SHOWN]}...")


def _source(side: str) -> str:
    if side not in SIDES:
        raise ReadError(f"side {side!r}; use target or golden")
    return SIDES[side]


def _has(connection: sqlite3.Connection, table: str) -> bool:
    query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
    return connection.execute(query, (table,)).fetchone() is not None


@dataclass(frozen=True, slots=True)
class Fact:
    """The facts of one node; ``error`` is a fraction (0.01 is one percent), None where no difference is stored."""

    dtypes: tuple[str, ...]
    error: float | None


def fact_of(text: str) -> Fact:
    """Return the facts in the stored values of a node; a difference that is no number counts as unknown."""
    dtypes = tuple(sorted({dtype for dtype in _DTYPE.findall(text) if dtype != "null"}))
    errors = [error for error in map(_fraction, _RELATIVE.findall(text)) if error is not None]
    return Fact(dtypes, max(errors, default=None))


def _fraction(shown: str) -> float | None:
    scale = 0.01 if shown.endswith("%") else 1.0
    try:
        value = abs(float(shown.rstrip("%"))) * scale
    except ValueError:
        return None
    return value if value < float("inf") else None


def parent_indexes(names: Sequence[str], ups: Sequence[str | None]) -> list[int]:
    """Return the index of each node's parent, -1 for a root.

    A node without a known parent is put below the root, and so is one member of each circle: no node is lost.
    """
    index_of = {name: index for index, name in enumerate(names)}
    root = next((index for index, up in enumerate(ups) if not up), -1)
    parents = [-1 if index == root else index_of.get(up or "", root) for index, up in enumerate(ups)]
    if any(0 <= parent <= index for index, parent in enumerate(parents)):  # never so where children come first
        _cut_circles(parents, root)
    return parents


def _cut_circles(parents: list[int], root: int) -> None:
    done = bytearray(len(parents))
    for start in range(len(parents)):
        path, node = set[int](), start
        while node >= 0 and not done[node]:
            if node in path:
                parents[node] = root if node != root else -1
                break
            path.add(node)
            node = parents[node]
        for node in path:
            done[node] = 1
