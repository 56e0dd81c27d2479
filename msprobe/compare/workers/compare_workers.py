"""One pair of dumps compared by this process and copies of it.

Each reads its own part of both documents and says what its rows say by themselves. This process puts that together and
judges; then each writes the rows of its part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import numpy as np

from msprobe.compare.alignment import cross_framework
from msprobe.compare.comparison import StepHistory, titles
from msprobe.compare.inputs.construct_cycles import parent_cycle
from msprobe.compare.inputs.mode import Policy
from msprobe.compare.records.recorder import side_of_another_tool
from msprobe.compare.rows.cells import NO_FLOAT_COLUMNS, CellMaker, entry_blocks, float_columns
from msprobe.compare.table.table import LeafTable
from msprobe.compare.workers.fork_channel import Channel, UndividedError, exit_worker, worker_pool
from msprobe.compare.workers.partial_compare import (
    LocalPart,
    PartSummary,
    agree,
    joined,
    own_part,
    received,
)
from msprobe.compare.workers.row_workers import (
    Report,
    RowWorkers,
    part_blocks,
    part_cells,
    received_verdicts,
    send_rows,
    verdicts_of,
)
from msprobe.core.errors import ReadError
from msprobe.core.store.partial_reader import Part, opened_documents
from msprobe.core.store.reader import Dump, Place, dump_of

_TASK = "statistics"  # whole tensors have threads of their own
_CONCLUDING = 0.085  # of the work on all parts: what this process does alone meanwhile


@contextmanager
def start_compare_workers(
    places: tuple[Place, Place], policy: Policy, history: StepHistory, folder: Path, *, processes: int, report: Report
) -> Iterator[RowWorkers]:
    """Compare two dumps by that many processes, which end with the ``with`` block; their files lie in ``folder``.

    Raises:
        UndividedError: the dumps are to be compared by one process.
        LostError: a process is gone.
    """
    with ExitStack() as stack:
        outlines, parts = _parts(stack, places, processes)
        tasks = [partial(_serve, outlines, pair, policy, report) for pair in parts[1:]]
        others = stack.enter_context(worker_pool(tasks, folder))
        if not (_as_many(parts[0]) and all(channel.receive()[0] for channel in others)):
            raise UndividedError
        own = own_part(outlines, parts[0], dtype_gate=policy is Policy.REFERENCE)
        summaries = _summaries(own, others)
        comparison = joined(own, summaries, parts[1:], policy, history)
        reference = policy is Policy.REFERENCE
        types = [part.types for part in (own.summary, *summaries)]
        as_floats = float_columns(types) if reference else NO_FLOAT_COLUMNS
        starts = np.cumsum([0, *(int(part.starts[-1]) for part in (own.summary, *summaries))]).tolist()
        del summaries  # arrays as large as those of the comparison
        for channel, first, last in zip(others, starts[1:], starts[2:], strict=False):
            verdicts_of(comparison, first, last, as_floats).send(channel)
        verdicts = verdicts_of(comparison, 0, starts[1], as_floats)
        yield RowWorkers(comparison, partial(part_blocks, own, verdicts, part_cells(own, as_floats), policy), others)


def _parts(
    stack: ExitStack, places: tuple[Place, Place], processes: int
) -> tuple[tuple[Dump, Dump], list[tuple[Part, Part]]]:
    """Both dumps without records, and their records in as many parts as there are processes."""
    try:
        documents = stack.enter_context(opened_documents(places[0].document, places[1].document))
        if documents is None or {header.get("task") for header in documents.headers} != {_TASK}:
            raise UndividedError
        ours, theirs = (dump_of(place, header) for place, header in zip(places, documents.headers, strict=True))
    except (OSError, ValueError, ReadError) as error:  # told by who compares the whole
        raise UndividedError from error
    above = ours.construct
    if parent_cycle(above):
        raise UndividedError

    def may_end(name: str) -> bool:
        """Calls that a repeated call left early are told by the call behind them (see ``entry_keys``)."""
        return not above or name in above or not name.endswith("forward")

    apart = cross_framework.differ(ours, theirs) or side_of_another_tool(ours, theirs) is not None
    parts = None if apart else documents.parts(shares(processes), may_end)
    if parts is None:
        raise UndividedError
    return (ours, theirs), parts


def _as_many(pair: tuple[Part, Part]) -> bool:
    """Whether both sides have as many records; soon seen, and otherwise their calls differ."""
    return pair[0].count() == pair[1].count()


def shares(processes: int) -> list[float]:
    """How much of the records each process gets, this one first: it has more to do with them."""
    each = min((1.0 + _CONCLUDING) / processes, 0.98 / (processes - 1))
    return [1.0 - each * (processes - 1), *[each] * (processes - 1)]


def _summaries(own: LocalPart, others: Sequence[Channel]) -> list[PartSummary]:
    """Return what the other processes found in their parts."""
    found = []
    for channel in others:
        head, arrays = channel.receive()
        if head is None:
            raise UndividedError
        found.append(received(head, arrays))
    if not agree([own.summary, *found]):
        raise UndividedError
    return found


def _serve(
    outlines: tuple[Dump, Dump], parts: tuple[Part, Part], policy: Policy, report: Report, channel: Channel
) -> None:
    """What the others do."""
    same = _as_many(parts)
    channel.send(same)
    if not same:
        return
    try:
        own = own_part(outlines, parts, dtype_gate=policy is Policy.REFERENCE)
    except UndividedError:
        channel.send(None)
        return
    own.summary.send(channel)
    cells = part_cells(own, NO_FLOAT_COLUMNS)
    _prepare(cells, own.table, channel)
    verdicts = received_verdicts(*channel.receive())
    if True in verdicts.as_floats:
        cells = part_cells(own, verdicts.as_floats)
    columns = titles(own.target, own.summary.mode, policy)
    watch = report.watch(own.table, own.summary.mode, columns, 0)
    send_rows(channel, part_blocks(own, verdicts, cells, policy), verdicts.first, report.write, watch)
    exit_worker()


def _prepare(cells: CellMaker, table: LeafTable, channel: Channel) -> None:
    """Make what needs no verdict, block by block, until the verdicts have come."""
    for block in entry_blocks(table.starts, 0, len(table.entries)):
        if channel.waiting():
            break
        cells.prepare(*block)
