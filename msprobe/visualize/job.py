"""The whole job of ``msprobe graph_visualize``: find dumps, build, compare, write one database."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe import __version__
from msprobe.compare.alignment.options import MappingOptions
from msprobe.compare.items import leaves
from msprobe.compare.locations import is_url, local, opened
from msprobe.compare.parallel_layout import Layout
from msprobe.core.cores import cores
from msprobe.core.errors import NotComparableError, ReadError
from msprobe.core.log import logger
from msprobe.core.store.reader import Dump, paused_gc
from msprobe.visualize.build import build_graph
from msprobe.visualize.database import GOLDEN, TARGET, Database, TextsOf
from msprobe.visualize.export import export_dump
from msprobe.visualize.found import Found
from msprobe.visualize.links import Links
from msprobe.visualize.names import Names
from msprobe.visualize.node import Graph, Node, Work
from msprobe.visualize.overflow import mark_overflow
from msprobe.visualize.progress import OpenBar, Progress, no_bar, progress
from msprobe.visualize.settings_row import settings_row
from msprobe.visualize.sources import Sources, find_sources
from msprobe.visualize.value_text import NOTHING, ValueTexts, fill_values

if TYPE_CHECKING:
    from msprobe.visualize.comparing import Comparing
    from msprobe.visualize.text_maker import TextMaker

FORMAT = 1
_LARGE = 4_000_000  # bytes; below, a copy of this process costs what it saves
NOTHING_SAID = MappingOptions()
_REFERENCE = "reference"
_READ, _DRAWN, _COMPARED = 0.1, 0.2, 0.6  # of a comparison's time, about


@dataclass(frozen=True, slots=True)
class Request:
    """What to draw. ``golden`` None builds only; ``policy`` is default or reference; ``mapping`` says what belongs
    together; ``layouts`` (one per side) merges the ranks of each step; ``as_json`` writes merged dumps instead of a
    database.
    """

    target: str | os.PathLike[str]
    output: str | os.PathLike[str]
    golden: str | os.PathLike[str] | None = None
    policy: str = "default"
    mapping: MappingOptions = NOTHING_SAID
    overflow: bool = False
    log_progress: bool = False
    log_values: bool = False
    layouts: tuple[Layout, ...] | None = None
    as_json: bool = False


@dataclass(slots=True)
class _State:
    """What is carried from one pair of dumps to the next."""

    request: Request
    comparing: Comparing | None
    found: Found
    names: Names = field(default_factory=Names)
    micro_steps: int = 1
    folders: list[dict[str, Any]] = field(default_factory=list)
    links: Links = field(default_factory=Links)
    written: list[Work] = field(default_factory=list)
    maker: TextMaker | None = None
    progress: Progress = field(default_factory=Progress)


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
    sources = find_sources(opened(request.target), golden, request.layouts, request.mapping)
    found = Found()
    state = _State(request, None if golden is None else _comparing(request, found), found)
    if request.as_json and golden is None and request.layouts:
        return _export(state, sources, open_bar)
    if request.as_json:
        logger.warning("JSON is for merged graphs of one run; a database is written instead.")
    stem = f"{'build' if golden is None else 'compare'}_{datetime.now():%Y%m%d%H%M%S}"
    with ExitStack() as stack:
        if golden is not None:
            state.maker = stack.enter_context(_maker(request, sources))  # before there are threads
        database = stack.enter_context(Database(Path(request.output), stem, sources.size))
        state.progress = stack.enter_context(
            progress(sources.total, sources.size, open_bar, lines=request.log_progress)
        )
        stack.enter_context(paused_gc())
        _draw_all(state, sources, database)
        _finish(state, database)
    return database.path


def _maker(request: Request, sources: Sources) -> AbstractContextManager[TextMaker | None]:
    from msprobe.visualize.text_maker import text_maker

    places = [work.golden for work in sources.works if work.golden is not None]
    wanted = not request.layouts and sources.size > _LARGE and cores() > 1
    return text_maker(places, Path(request.output), wanted=wanted)


def _comparing(request: Request, found: Found) -> Comparing:
    from msprobe.visualize.comparing import Comparing  # numpy and the verdict engine, only where there are two sides

    merged = bool(request.layouts)
    return Comparing(request.policy, request.mapping, merged=merged, log_values=request.log_values, found=found)


def _export(state: _State, sources: Sources, open_bar: OpenBar) -> Path:
    output = Path(state.request.output)
    with progress(sources.total, sources.size, open_bar, lines=state.request.log_progress) as told, paused_gc():
        for work, dump, _ in sources.loaded(state.names):
            told.begin(work.label)
            export_dump(output, dump, work.step, work.rank)
    return output


def _draw_all(state: _State, sources: Sources, database: Database) -> None:
    """What is drawn is let go of at the end of this function, while the database makes its indexes."""
    for work, target, other in sources.loaded(state.names, None if state.maker is None else state.maker.loaded):
        state.progress.begin(work.label)
        _draw(state, work, (target, other), database)
    state.progress.stage(1.0, "finishing")
    database.end_graphs()


def _draw(state: _State, work: Work, dumps: tuple[Dump, Dump | None], database: Database) -> None:
    state.progress.stage(_READ, "drawing")
    target = _graph(state, work, dumps[0])
    if dumps[1] is None or state.comparing is None:
        state.progress.stage(_COMPARED, "writing")
        _write(state, work, database, target, _texts(target))
        return
    golden = _graph(state, work, dumps[1])
    state.progress.stage(_DRAWN, "comparing")
    texts = state.comparing.compare(work, (target, golden), state.names, state.maker)
    if texts is not None:
        state.progress.stage(_COMPARED, "writing")
        _write(state, work, database, target, texts.of_target)
        _write(state, work, database, golden, texts.of_golden, source=GOLDEN)
    if state.maker is not None:
        state.maker.done()


def _graph(state: _State, work: Work, dump: Dump) -> Graph:
    if not dump.data and not dump.construct:
        raise ReadError(
            f"{dump.place.document}: holds no records and no hierarchy; there is nothing to draw; "
            "check level, scope and list of its config.json"
        )
    graph = build_graph(dump, state.names, published=state.request.policy == _REFERENCE)
    graph.step, graph.rank = work.step, work.rank
    folder = dump.place.document.parent
    for line in graph.warnings:
        logger.warning("%s: %s.", folder, line)
    if not dump.has_stacks:
        logger.warning("%s: no stack.json; nodes have no call stacks.", folder)
    if not dump.construct:
        logger.warning("%s: construct.json is empty or missing (level L1); the graph follows the names.", folder)
    if dump.recovered:
        logger.warning("%s: read from its journal, the run is not finished or died.", folder)
    if state.request.overflow:
        mark_overflow(graph, parameters=state.request.policy != _REFERENCE)
    return graph


def _texts(graph: Graph) -> TextsOf:
    """The texts of a graph that is not compared."""
    texts, data = ValueTexts(), graph.dump.data

    def of(node: Node) -> tuple[str, str]:
        name = node.name
        return fill_values(name, leaves(name, data[name]), texts) if name in data else NOTHING

    return of


def _write(
    state: _State, work: Work, database: Database, graph: Graph, texts: TextsOf, *, source: str = TARGET
) -> None:
    folder = graph.dump.tensor_folder
    data_dir = str(folder) if graph.dump.task == "tensor" and folder.is_dir() else None
    database.write_graph(graph, source, data_dir, texts)
    state.links.note(graph, source)
    if source == TARGET:
        state.micro_steps = max(state.micro_steps, graph.micro_steps)
        state.written.append(work)
    if data_dir is not None:
        there = is_url(data_dir)
        text = data_dir if there else os.path.relpath(folder, Path(state.request.output).resolve())
        state.folders.append({"source": source, "step": graph.step, "rank": graph.rank, "path": text})


def _finish(state: _State, database: Database) -> None:
    request, written, found = state.request, state.written, state.found
    if not written:
        raise NotComparableError(found.refused[0] if found.refused else "there is nothing to draw")
    if found.unapplied:
        from msprobe.compare.alignment.unapplied import unapplied_notes

        for line in unapplied_notes(request.mapping, found.unapplied):
            logger.warning("%s", line)
    database.write_links(state.links.found())
    ranks, steps = [work.rank for work in written], [work.step for work in written]
    database.write_config(settings_row(found.task, state.micro_steps, request.overflow, ranks, steps))
    meta: dict[str, Any] = {
        "format": FORMAT,
        "version": __version__,
        "policy": request.policy,
        "target": str(request.target),
        "golden": None if request.golden is None else str(request.golden),
        "summary": found.summaries,
        "first_divergence": [one for _, one in sorted(found.divergences, key=lambda item: item[0])],
        "data_dirs": state.folders,
    }
    database.write_meta(meta)
