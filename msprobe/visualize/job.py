"""The whole job of ``msprobe graph_visualize``: find dumps, build graphs, compare them, write one database.

``visualize`` does it for a ``Request``. Graphs are drawn one pair after the other, so that at most one pair of dumps is
in memory. With ``--file_type json``, ranks that were merged are written as a dump instead (``export_dump``), which can
be read like any other dump.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe import __version__
from msprobe.compare.alignment.options import MappingOptions
from msprobe.compare.inputs.locations import local, opened
from msprobe.compare.layout_from_records import with_recorded_layouts
from msprobe.compare.parallel.layout import Layout
from msprobe.compare.records.run_end import end_text, ended_early
from msprobe.core.errors import MsprobeException, NotComparableError, ReadError
from msprobe.core.host import cpu_count, is_url, paused_gc
from msprobe.core.log import logger
from msprobe.core.store.layout import CONSTRUCT, DUMP, STACK, process_folder, step_folder
from msprobe.core.store.reader import Dump, damage_named
from msprobe.core.store.record_walk import leaves
from msprobe.core.store.safe_files import make_folder, write_atomic
from msprobe.visualize.database.database import GOLDEN, TARGET, Database, TextsOf
from msprobe.visualize.database.schema import settings_row
from msprobe.visualize.graph.build import build_graph
from msprobe.visualize.graph.communication_links import CommunicationLinks
from msprobe.visualize.graph.node import Graph, NameCache, Node, Work
from msprobe.visualize.graph.overflow_marks import mark_overflow
from msprobe.visualize.inputs import Sources, find_sources
from msprobe.visualize.progress import OpenBar, Progress, no_bar, progress
from msprobe.visualize.values.value_json import EMPTY_SIDES, ValueTexts, entry_json

if TYPE_CHECKING:
    from msprobe.visualize.compare.graph_compare import ComparisonResults, GraphComparer
    from msprobe.visualize.values.json_worker import TextWorker

FORMAT = 1
_LARGE = 4_000_000  # bytes; below, a copy of this process costs what it saves
_NO_MAPPING = MappingOptions()
_REFERENCE = "reference"
_READ, _DRAWN, _COMPARED = 0.1, 0.2, 0.6  # shares of a comparison's time, about


@dataclass(frozen=True, slots=True)
class Request:
    """What to draw.

    Attributes:
        target: the dump of the run under test.
        output: the folder of the database.
        golden: the dump to compare with; None draws the target alone.
        policy: ``default`` or ``reference``: whose rules decide about nodes and verdicts.
        mapping: what the user says about which entries, ranks and steps belong together.
        overflow: mark NaN and infinities.
        log_progress: log a line per dump.
        log_values: log a line per value that differs.
        layouts: one per side; the ranks of each step are merged.
        as_json: write merged dumps instead of a database.
    """

    target: str | os.PathLike[str]
    output: str | os.PathLike[str]
    golden: str | os.PathLike[str] | None = None
    policy: str = "default"
    mapping: MappingOptions = _NO_MAPPING
    overflow: bool = False
    log_progress: bool = False
    log_values: bool = False
    layouts: tuple[Layout, ...] | None = None
    as_json: bool = False


@dataclass(frozen=True, slots=True)
class _Tools:
    """What draws the graphs of one job. ``comparer`` and ``worker`` are None where nothing is compared."""

    database: Database
    progress: Progress
    comparer: GraphComparer | None = None
    worker: TextWorker | None = None
    names: NameCache = field(default_factory=NameCache)


@dataclass(slots=True)
class _Drawn:
    """What has been drawn so far."""

    micro_steps: int = 1
    folders: list[dict[str, Any]] = field(default_factory=list)
    links: CommunicationLinks = field(default_factory=CommunicationLinks)
    works: list[Work] = field(default_factory=list)


def visualize(request: Request, open_bar: OpenBar = no_bar) -> Path:
    """Make the database, or the merged dumps where they are asked for as files, and return its path.

    ``open_bar`` opens a progress bar when the work takes longer than a moment.

    Raises:
        ReadError: a path holds no dump, or a document is damaged.
        NotComparableError: no pair of dumps can be compared.
        MsprobeException: a layout does not fit the dumps, or the output folder is a URL or cannot be written.
    """
    local(request.output)
    golden = None if request.golden is None else opened(request.golden)
    if golden is None and request.mapping.given:
        logger.warning("%s: not used, a mapping needs a golden run to map to (-gp).", ", ".join(request.mapping.named))
    elif golden is not None and request.layouts is None:
        mapping = with_recorded_layouts(request.mapping, opened(request.target), golden)
        request = replace(request, mapping=mapping)
    sources = find_sources(opened(request.target), golden, request.layouts, request.mapping)
    if request.as_json and golden is None and request.layouts:
        return _export(request, sources, open_bar)
    if request.as_json:
        logger.warning("JSON is for merged graphs of one run; a database is written instead.")
    comparer = None if golden is None else _graph_comparer(request, sources)
    stem = f"{'build' if golden is None else 'compare'}_{datetime.now():%Y%m%d%H%M%S}"
    with ExitStack() as stack:
        worker = None if golden is None else stack.enter_context(_text_worker(request, sources))  # before any thread
        database = stack.enter_context(Database(Path(request.output), stem, sources.size))
        steps = stack.enter_context(progress(sources.total, sources.size, open_bar, lines=request.log_progress))
        stack.enter_context(paused_gc())
        tools, drawn = _Tools(database, steps, comparer, worker), _Drawn()
        with damage_named(*sources.places):
            _draw_all(request, tools, sources, drawn)
        _finish(request, tools, drawn)
    return database.path


def _text_worker(request: Request, sources: Sources) -> AbstractContextManager[TextWorker | None]:
    from msprobe.visualize.values.json_worker import text_worker

    places = [work.golden for work in sources.works if work.golden is not None]
    wanted = not request.layouts and sources.size > _LARGE and cpu_count() > 1
    return text_worker(places, Path(request.output), wanted=wanted)


def _graph_comparer(request: Request, sources: Sources) -> GraphComparer:
    from msprobe.compare.inputs.mode import Policy
    from msprobe.visualize.compare.graph_compare import (  # the verdict engine, only for two sides
        GraphComparer,
        PairingRules,
    )

    rules = PairingRules(Policy(request.policy), request.mapping, bool(request.layouts))
    return GraphComparer(rules, sources.works, log_values=request.log_values)


def _draw_all(request: Request, tools: _Tools, sources: Sources, drawn: _Drawn) -> None:
    """Draw all graphs. They are freed when this function ends, while the database makes its indexes."""
    first_golden = None if tools.worker is None else tools.worker.loaded
    for work, target, golden in sources.load(tools.names, first_golden, published=request.policy == _REFERENCE):
        tools.progress.begin(work.label)
        _draw(request, tools, (work, target, golden), drawn)
    tools.progress.stage(1.0, "finishing")
    tools.database.end_graphs()


def _draw(request: Request, tools: _Tools, loaded: tuple[Work, Dump, Dump | None], drawn: _Drawn) -> None:
    work, target_dump, golden_dump = loaded
    tools.progress.stage(_READ, "drawing")
    target = _graph(request, tools.names, work, target_dump)
    if golden_dump is None or tools.comparer is None:
        tools.progress.stage(_COMPARED, "writing")
        _write_target(request, tools.database, (work, target, _graph_texts(target)), drawn)
        return
    golden = _graph(request, tools.names, work, golden_dump)
    tools.progress.stage(_DRAWN, "comparing")
    texts = tools.comparer.compare(work, (target, golden), tools.names, tools.worker)
    if texts is not None:
        tools.progress.stage(_COMPARED, "writing")
        _write_target(request, tools.database, (work, target, texts.target_json), drawn)
        _write(request, tools.database, (GOLDEN, golden, texts.golden_json), drawn)
    if tools.worker is not None:
        tools.worker.end_dump()


def _graph(request: Request, names: NameCache, work: Work, dump: Dump) -> Graph:
    if not dump.data and not dump.construct:
        raise ReadError(
            f"{dump.place.document}: holds no records and no hierarchy; there is nothing to draw; "
            "check level, scope and list of its config.json"
        )
    graph = build_graph(dump, work, names, published=request.policy == _REFERENCE)
    folder = dump.place.document.parent
    for line in graph.warnings:
        logger.warning("%s: %s.", folder, line)
    if not dump.has_stacks:
        logger.warning("%s: no stack.json; nodes have no call stacks.", folder)
    if not dump.construct:
        logger.warning("%s: construct.json is empty or missing (level L1); the graph follows the names.", folder)
    if ended_early(dump, dump):
        logger.warning("%s.", end_text(dump, str(folder)))
    if request.overflow:
        mark_overflow(graph, parameters=request.policy != _REFERENCE)
    return graph


def _graph_texts(graph: Graph) -> TextsOf:
    """Return the function that makes the texts of a graph that is not compared."""
    texts, data = ValueTexts(), graph.dump.data

    def node_texts(node: Node) -> tuple[str, str]:
        name = node.name
        return entry_json(name, leaves(name, data[name]), texts) if name in data else EMPTY_SIDES

    return node_texts


def _write_target(request: Request, database: Database, content: tuple[Work, Graph, TextsOf], drawn: _Drawn) -> None:
    work, graph, texts = content
    _write(request, database, (TARGET, graph, texts), drawn)
    drawn.micro_steps = max(drawn.micro_steps, graph.micro_steps)
    drawn.works.append(work)


def _write(request: Request, database: Database, content: tuple[str, Graph, TextsOf], drawn: _Drawn) -> None:
    source, graph, texts = content
    folder = graph.dump.tensor_folder
    data_dir = str(folder) if graph.dump.task == "tensor" and folder.is_dir() else None
    database.write_graph(graph, source, data_dir, texts)
    drawn.links.add(graph, source)
    if data_dir is not None:
        path = data_dir if is_url(data_dir) else os.path.relpath(folder, Path(request.output).resolve())
        drawn.folders.append({"source": source, "step": graph.step, "rank": graph.rank, "path": path})


def _finish(request: Request, tools: _Tools, drawn: _Drawn) -> None:
    results = None if tools.comparer is None else tools.comparer.results
    if not drawn.works:
        refused = [] if results is None else results.refused
        raise NotComparableError(refused[0] if refused else "there is nothing to draw")
    if results is not None and results.unused_entries:
        from msprobe.compare.alignment.check_mappings import unused_entry_notes

        for line in unused_entry_notes(request.mapping, results.unused_entries):
            logger.warning("%s", line)
    task = None if results is None else results.task
    ranks, steps = [work.rank for work in drawn.works], [work.step for work in drawn.works]
    tools.database.write_links(drawn.links.links())
    tools.database.write_config(settings_row(task, drawn.micro_steps, request.overflow, ranks, steps))
    tools.database.write_meta(_metadata(request, results, drawn))


def _metadata(request: Request, results: ComparisonResults | None, drawn: _Drawn) -> dict[str, Any]:
    divergences = [] if results is None else sorted(results.divergences, key=lambda item: item[0])
    return {
        "format": FORMAT,
        "version": __version__,
        "made": datetime.now().astimezone().replace(microsecond=0).isoformat(),
        "policy": request.policy,
        "target": str(request.target),
        "golden": None if request.golden is None else str(request.golden),
        "summary": [] if results is None else results.summaries,
        "first_divergence": [document for _, document in divergences],
        "data_dirs": drawn.folders,
    }


def _export(request: Request, sources: Sources, open_bar: OpenBar) -> Path:
    output = Path(request.output)
    with progress(sources.total, sources.size, open_bar, lines=request.log_progress) as steps, paused_gc():
        for work, dump, _ in sources.load(NameCache()):
            steps.begin(work.label)
            export_dump(output, dump, work.step, work.rank)
    return output


def export_dump(output: Path, dump: Dump, step: int, rank: int) -> Path:
    """Write a dump to ``step{S}/rank{R}`` below ``output`` and return that folder.

    Raises:
        MsprobeException: the folder cannot be written.
    """
    folder = process_folder(step_folder(output, step), rank, os.getpid())
    header = {"task": dump.task, "level": dump.level, "framework": dump.framework}
    document = {**header, "is_merged": True, "dump_data_dir": None, "data": dump.data}
    by_frames: dict[tuple[str, ...], list[str]] = {}
    for name, frames in dump.stacks.items():
        by_frames.setdefault(tuple(frames), []).append(name)
    stacks = {str(number): [names, list(frames)] for number, (frames, names) in enumerate(by_frames.items())}
    try:
        make_folder(folder)
        for name, content in ((STACK, stacks), (CONSTRUCT, dump.construct), (DUMP, document)):
            write_atomic(folder / name, [_json_bytes(content)])
    except OSError as error:
        text = f"the merged dump cannot be written to {folder} ({error.strerror}); choose another folder with -o"
        raise MsprobeException(MsprobeException.INVALID_PARAM_ERROR, text) from error
    return folder


def _json_bytes(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, ensure_ascii=False, indent=1).encode("utf-8", "surrogatepass")
