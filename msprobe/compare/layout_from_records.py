"""Read from recorded placements (DTensor) or declared parts over how many ranks tensor parallelism spreads a model.

Inputs and outputs of functions inside modules lie on several ranks under tensor parallelism alone: fully sharded data
parallelism spreads parameters, and gathers them before they are used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe.compare.alignment.options import MappingOptions
from msprobe.compare.parallel.layout import Layout
from msprobe.compare.records.entries import parent_of
from msprobe.core.errors import ReadError
from msprobe.core.log import logger
from msprobe.core.naming.names import MODULE_PREFIXES
from msprobe.core.store.reader import Dump, Place, find_dumps, load_dump
from msprobe.core.store.record_walk import SHARD, values_below

if TYPE_CHECKING:
    from msprobe.compare.parallel.recorded_parts import Part

_KEYS = b'"placements"', f'"{SHARD}"'.encode()
_MODULES = tuple(f"{prefix}." for prefix in MODULE_PREFIXES)


def with_recorded_layouts(options: MappingOptions, target: Path, golden: Path) -> MappingOptions:
    """Return the options with the layouts that the dumps below two paths record, where the user gave none.

    The options stay as they are where the ranks do not make equally many whole models on both sides: then the
    placements do not record everything, or nothing is to be merged.

    Raises:
        ReadError: a path holds no dump.
    """
    if options.spread:
        return options
    targets, goldens = _ranks(target, options.runs[0]), _ranks(golden, options.runs[1])
    if len(targets) == len(goldens):
        return options
    layouts = recorded_layout(targets), recorded_layout(goldens)
    if len(targets) * layouts[1].tp != len(goldens) * layouts[0].tp or len(targets) % layouts[0].tp:
        return options
    for name, layout in zip(("target", "golden run"), layouts, strict=True):
        if layout.spread:
            logger.info(
                "compare: %d ranks of the %s hold one model, as its records say, and are merged",
                layout.tp,
                name,
            )
    return replace(options, target_parallel=layouts[0], golden_parallel=layouts[1])


def _ranks(path: Path, run: str | None) -> list[Place]:
    """Return the places of the first step; none where the ranks differ between steps."""
    steps: dict[int | None, list[Place]] = {}
    for place in find_dumps(path, run):
        steps.setdefault(place.step, []).append(place)
    first, *others = steps.values()
    numbers = [place.number for place in first]
    return first if all([place.number for place in places] == numbers for places in others) else []


def recorded_layout(places: Sequence[Place]) -> Layout:
    """Return the layout of the ranks of one step; one rank per model unless the first rank records something else."""
    if len(places) < 2 or [place.number for place in places] != list(range(len(places))):
        return Layout()
    document = places[0].document
    try:
        if not document.is_file() or not any(key in document.read_bytes() for key in _KEYS):
            return Layout()
        dump = load_dump(places[0])
        sizes = {*_group_sizes(dump), *_declared_sizes(dump)}
    except (OSError, ReadError):
        return Layout()  # the comparison reports what is wrong with the dump
    return Layout(tp=sizes.pop()) if len(sizes) == 1 else Layout()


def _group_sizes(dump: Dump) -> Iterator[int]:
    """Yield for each placed tensor of a function inside a module how many ranks, from 0 on, hold it together."""
    inside = (
        body
        for name, body in dump.data.items()
        if ".forward" in name
        and not name.startswith(_MODULES)
        and (parent_of(dump.construct, name) or "").startswith(_MODULES)
    )
    for mesh in (mesh for body in inside for mesh in _meshes(body)):
        while mesh and isinstance(mesh[0], list):
            mesh = mesh[0]
        if len(mesh) > 1 and mesh == list(range(len(mesh))):
            yield len(mesh)


def _declared_sizes(dump: Dump) -> Iterator[int]:
    """Yield for each declared part over how many ranks, from 0 on, its tensor is spread."""
    from msprobe.compare.parallel.recorded_parts import declared_parts  # loaded where records tell of parts

    recorded = (leaf.raw for body in dump.data.values() for leaf in values_below(body))
    sizes = (len(part.group) for raw in recorded for part in declared_parts(raw) if part.group == _first(part))
    yield from (size for size in sizes if size > 1)


def _first(part: Part) -> tuple[int, ...]:
    """Return the first ranks of all, as many as hold a part."""
    return tuple(range(len(part.group)))


def _meshes(body: Any) -> Iterator[list[Any]]:
    """Yield the device mesh of every placed tensor of a record: nested lists of ranks."""
    for leaf in values_below(body):
        mesh = leaf.raw.get("device_mesh")
        if "placements" in leaf.raw and isinstance(mesh, list):
            yield mesh
