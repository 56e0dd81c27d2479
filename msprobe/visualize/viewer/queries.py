"""What the front end asks a graph database: what is in it, one graph, facts about its nodes, the data of one node.

Works on every database of the published layout. Verdicts come from our extra tables where they are, otherwise from
``precision_index`` of the published layout.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from msprobe.core.errors import ReadError
from msprobe.visualize.viewer.databases import opened
from msprobe.visualize.viewer.facts import Fact, fact_of
from msprobe.visualize.viewer.parents import parent_indexes

Json = dict[str, Any]
SIDES = {"target": "NPU", "golden": "Bench"}
VERDICTS = ("same", "pass", "warning", "error", "unmatched", "not_compared", "no_data")
_CODES = {name: code for code, name in enumerate(VERDICTS)}
_NO_DATA, _NOT_COMPARED, _UNMATCHED = (_CODES[name] for name in ("no_data", "not_compared", "unmatched"))
_DECODER = json.JSONDecoder(parse_constant=str)  # browsers know no NaN in JSON
_LARGEST = 1e300  # stands for infinity, which JSON cannot say
_COMPARED = "CASE WHEN precision_index IS NULL THEN input_data = '{}' AND output_data = '{}' END"
_GRAPH = f"""SELECT node_name, up_node, node_type, micro_step_id, overflow_level, matched_node_link, precision_index,
    {_COMPARED}, id FROM tb_nodes WHERE step = ? AND rank = ? AND data_source = ? ORDER BY node_order"""
_GRID_OURS = """SELECT step, rank, own_verdict, count(*) FROM tb_nodes JOIN tb_msprobe_nodes USING (id)
    WHERE data_source = ? GROUP BY step, rank, own_verdict"""
_GRID_PUBLISHED = """SELECT step, rank, CASE WHEN matched_node_link IN ('[]', '') THEN 'unmatched'
    WHEN precision_index IS NULL THEN 'not_compared' WHEN precision_index < 0.3 THEN 'pass'
    WHEN precision_index < 0.6 THEN 'warning' ELSE 'error' END AS verdict, count(*)
    FROM tb_nodes WHERE data_source = ? GROUP BY step, rank, verdict"""
_DATA = """SELECT input_data, output_data, stack_info, parallel_merge_info, matched_distributed, dump_data_dir
    FROM tb_nodes LEFT JOIN tb_stack ON tb_stack.id = tb_nodes.stack_id
    WHERE step = ? AND rank = ? AND data_source = ?"""
_STACK = """SELECT stack_info FROM tb_nodes LEFT JOIN tb_stack ON tb_stack.id = tb_nodes.stack_id
    WHERE step = ? AND rank = ? AND data_source = ?"""


class GraphDatabase:
    """One .vis.db. Every method opens it for itself, so that threads may share the object."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def overview(self) -> Json:
        """Kind, task, steps, ranks, and the document of our meta table (empty for a database of another writer)."""
        with opened(self.path) as connection:
            row = _rows(connection, "SELECT graph_type, task, overflow_check, step_list, rank_list FROM tb_config")[0]
            meta = {}
            if _has(connection, "tb_msprobe_meta"):
                meta = {key: _value(text) for key, text in connection.execute("SELECT key, value FROM tb_msprobe_meta")}
        return {
            "name": self.path.name,
            "kind": row[0],
            "task": row[1] or "",
            "overflow": bool(row[2]),
            "steps": _value(row[3]) or [0],
            "ranks": _value(row[4]) or [0],
            "verdicts": VERDICTS,
            "meta": meta,
        }

    def graph(self, step: int, rank: int) -> Json:
        """Both sides of one step and rank as columns; ``golden`` is None where only one run was drawn.

        Columns, one value per node in stored order (children before their parent): names; parents, the index of the
        parent or -1; types; micro; overflow; verdicts, an index into ``verdicts`` of the overview; errors, in
        multiples of the tolerance or null; order, the place in the execution or null; reasons; matches, the index of
        the partner on the other side or -1.
        """
        with opened(self.path) as connection:
            judged = _judgements(connection, step, rank)
            sides = {
                name: _side(_rows(connection, _GRAPH, step, rank, source), judged) for name, source in SIDES.items()
            }
        target, golden = sides["target"], sides["golden"]
        _link(target, golden)
        for side in (target, golden):
            del side["links"], side["judged"]
        return {"step": step, "rank": rank, "target": target, "golden": golden if golden["names"] else None}

    def grid(self) -> list[Json]:
        """For each step and rank how many target nodes have each verdict, in the order of ``verdicts``."""
        with opened(self.path) as connection:
            ours = _has(connection, "tb_msprobe_nodes")
            rows = _rows(connection, _GRID_OURS if ours else _GRID_PUBLISHED, SIDES["target"])
        cells: dict[tuple[int, int], list[int]] = {}
        for step, rank, verdict, count in rows:
            cells.setdefault((step, rank), [0] * len(VERDICTS))[_CODES.get(verdict, _NOT_COMPARED)] += count
        return [{"step": step, "rank": rank, "counts": counts} for (step, rank), counts in sorted(cells.items())]

    def facts(self, step: int, rank: int) -> Json:
        """Per target node, in the order of :meth:`graph`: the dtypes in its data and its worst relative difference.

        ``dtypes`` lists sets of dtypes, ``dtype`` the index of each node's set; ``errors`` are fractions or null.
        """
        query = "SELECT input_data, output_data FROM tb_nodes WHERE step = ? AND rank = ? AND data_source = ?"
        with opened(self.path) as connection:
            found: list[Fact] = [
                fact_of(f"{inputs}{outputs}")
                for inputs, outputs in connection.execute(f"{query} ORDER BY node_order", (step, rank, SIDES["target"]))
            ]
        sets = {dtypes: number for number, dtypes in enumerate(dict.fromkeys(fact.dtypes for fact in found))}
        return {
            "dtypes": [list(dtypes) for dtypes in sets],
            "dtype": [sets[fact.dtypes] for fact in found],
            "errors": [fact.error for fact in found],
        }

    def stacks(self, step: int, rank: int) -> Json:
        """The call stacks of both sides: ``texts`` holds each one once, as a list of frames; ``target`` and ``golden``
        have the place of each node's stack in it, in the order of :meth:`graph`, or -1."""
        query = f"{_STACK} ORDER BY node_order"
        known: dict[str, int] = {}
        with opened(self.path) as connection:
            places = {
                name: [
                    known.setdefault(text, len(known)) if text else -1
                    for (text,) in connection.execute(query, (step, rank, source))
                ]
                for name, source in SIDES.items()
            }
        return {"texts": [_value(text) for text in known], **places}

    def node(self, step: int, rank: int, side: str, name: str) -> Json:
        """The data of one node: input, output, stack, merged, links, folder.

        Raises:
            ReadError: there is no such node.
        """
        with opened(self.path) as connection:
            rows = _rows(connection, f"{_DATA} AND node_name = ?", step, rank, _source(side), name)
        if not rows:
            raise ReadError(f"{self.path.name} has no node {name} on the {side} side of step {step}, rank {rank}")
        return _detail(rows[0])

    def children(self, step: int, rank: int, side: str, name: str) -> list[Json]:
        """The data of all nodes directly below one, in stored order."""
        with opened(self.path) as connection:
            query = f"{_DATA} AND up_node = ? ORDER BY node_order"
            return [_detail(row) for row in _rows(connection, query, step, rank, _source(side), name)]

    def all_nodes(self, step: int, rank: int, side: str) -> Iterable[Json]:
        """The data of every node of a side, in stored order."""
        with opened(self.path) as connection:
            for row in connection.execute(f"{_DATA} ORDER BY node_order", (step, rank, _source(side))):
                yield _detail(row)


def _side(rows: list[Any], judged: dict[str, Any]) -> Json:
    names, ups, types, micro, overflow, links, levels, empty, ids = zip(*rows, strict=True) if rows else ((),) * 9
    known = [judged.get(name) for name in ids]
    partners = [_partner(text, name) for text, name in zip(links, names, strict=True)]
    verdicts = [
        one[0] if one else _published(level, bool(partner), bool(bare))
        for one, level, partner, bare in zip(known, levels, partners, empty, strict=True)
    ]
    return {
        "names": list(names),
        "parents": parent_indexes(names, ups),
        "types": list(types),
        "micro": list(micro),
        "overflow": list(overflow),
        "verdicts": verdicts,
        "errors": [_finite(one[1]) if one else None for one in known],
        "order": [one[2] if one else None for one in known],
        "reasons": [one[3] if one else None for one in known],
        "links": partners,
        "judged": [one is not None for one in known],
    }


def _finite(error: float | None) -> float | None:
    return error if error is None else min(error, _LARGEST)


def _published(level: float | None, matched: bool, bare: bool) -> int:
    """The verdict that the published colour ranges give: below 0.3 pass, below 0.6 warning, else error."""
    if not matched:
        return _UNMATCHED
    if level is None:
        return _NO_DATA if bare else _NOT_COMPARED
    return VERDICTS.index("pass" if level < 0.3 else "warning" if level < 0.6 else "error")


def _link(target: Json, golden: Json) -> None:
    """Partners as indexes, and the published verdicts of nodes whose partner is not there, or on the golden side."""
    places = {name: index for index, name in enumerate(golden["names"])}
    target["matches"] = matches = [places.get(link, -1) for link in target["links"]]
    golden["matches"] = back = [-1] * len(places)
    for index, partner in enumerate(matches):
        if partner >= 0:
            back[partner] = index
    for index, partner in enumerate(matches):
        if partner < 0 and not target["judged"][index]:
            target["verdicts"][index] = _UNMATCHED if places else _NOT_COMPARED
    for index, partner in enumerate(back):
        if not golden["judged"][index]:
            golden["verdicts"][index] = _UNMATCHED if partner < 0 else target["verdicts"][partner]


def _partner(text: str | None, name: str) -> str:
    """The last name of a stored chain of ancestors; empty where there is none. ``name`` is what it most often is."""
    if not text or text == "[]":
        return ""
    if text.endswith((f' "{name}"]', f',"{name}"]', f'["{name}"]')):
        return name  # decoding a hundred thousand chains takes longer than all the rest
    chain = _value(text)
    return str(chain[-1]) if isinstance(chain, list) and chain else ""


def _judgements(connection: sqlite3.Connection, step: int, rank: int) -> dict[str, Any]:
    """Node id -> (verdict, error, execution order, reason) from our table."""
    if not _has(connection, "tb_msprobe_nodes"):
        return {}
    query = """SELECT own.id, own_verdict, error, execution_order, reason FROM tb_msprobe_nodes AS own
        JOIN tb_nodes ON tb_nodes.id = own.id WHERE step = ? AND rank = ?"""
    return {
        name: (_CODES.get(verdict, _NOT_COMPARED), error, order, reason)
        for name, verdict, error, order, reason in connection.execute(query, (step, rank))
    }


def _detail(row: tuple[Any, ...]) -> Json:
    inputs, outputs, stack, merged, links, folder = row
    return {
        "input": _value(inputs) or {},
        "output": _value(outputs) or {},
        "stack": _value(stack) or [],
        "merged": _value(merged) or [],
        "links": _value(links) or {},
        "folder": folder,
    }


def _value(text: str | None) -> Any:
    """Stored JSON; text that is none is shown as it is."""
    if not text:
        return None
    try:
        return _DECODER.decode(text)
    except ValueError:
        return text


def _source(side: str) -> str:
    if side not in SIDES:
        raise ReadError(f"side {side!r}; use target or golden")
    return SIDES[side]


def _rows(connection: sqlite3.Connection, query: str, *values: object) -> list[tuple[Any, ...]]:
    return connection.execute(query, values).fetchall()


def _has(connection: sqlite3.Connection, table: str) -> bool:
    return bool(_rows(connection, "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", table))
