"""All exemptions, each loaded where it has something to say: most comparisons need hardly any of them.

Reading the code of all of them takes as long as comparing a thousand calls. So beside each stands what tells, of two
dumps or of their table, whether it may exempt anything: a superset, found without looking at the rows.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple, cast

from msprobe.compare.exemptions.protocol import ComparedDumps, Exemption
from msprobe.compare.records.recorder import side_of_another_tool
from msprobe.compare.records.run_end import ended_early
from msprobe.compare.table.table import LeafTable
from msprobe.core.naming.names import Phase
from msprobe.core.store.record_walk import lost_arguments
from msprobe.core.tensors.statistics import NORM
from msprobe.numerics.verdict import Ints, RowKind


class OnDemand(NamedTuple):
    """An exemption whose file is loaded on demand.

    Attributes:
        place: the module below ``compare.exemptions`` and the name of its class, as ``unrecorded:Unrecorded``.
        before: whether it may change the table of two dumps; then it is asked about this table further on.
        after: whether one that was not applied may exempt something in a table, or says something of it. The kinds of
            all rows come with it where they are known, and None where only notes are wanted.
    """

    place: str
    before: Callable[[LeafTable, ComparedDumps], bool] = lambda *_: False
    after: Callable[[LeafTable, Ints | None], bool] = lambda *_: False

    def load(self) -> Exemption:
        """Return the exemption."""
        module, _, name = self.place.partition(":")
        return cast(Exemption, getattr(importlib.import_module(f"msprobe.compare.exemptions.{module}"), name)())


def apply_all(table: LeafTable, dumps: ComparedDumps) -> LeafTable:
    """Return the table with what all exemptions change, one after the other."""
    applied: dict[str, Exemption] = {}
    for one in EXEMPTIONS:
        if one.before(table, dumps):
            exemption = applied[one.place] = one.load()
            table = exemption.apply(table, dumps)
    return replace(table, exempted=applied) if applied else table


def speaking(table: LeafTable, kinds: Ints | None = None) -> Iterator[Exemption]:
    """Yield the exemptions that may say something about a table; ``kinds`` as ``OnDemand.after`` gets them."""
    for one in EXEMPTIONS:
        if (applied := table.exempted.get(one.place)) is not None:
            yield applied
        elif one.after(table, kinds):
            yield one.load()


def gradients_begin_otherwise(table: LeafTable) -> bool:
    """Return whether the first gradient that both sides have differs: no other row is looked at."""
    phase = Phase.BACKWARD.value
    backward = (number for number, key in enumerate(table.keys) if key.phase == phase)
    for row in (row for number in backward for row in table.rows_of(number)):
        if len(tensors := table.tensors(row)) == 2:
            return bool(tensors[0].get(NORM.name) != tensors[1].get(NORM.name))
    return False


EXEMPTIONS = (
    OnDemand(
        "other_optimizers:OtherOptimizers",
        before=lambda _, dumps: any(dump.header.get("optimizers") for dump in (dumps.target, dumps.golden)),
    ),
    OnDemand(
        "gradients.scaled_losses:ScaledLosses",
        before=lambda table, _: gradients_begin_otherwise(table),
    ),
    OnDemand(
        "sliced_tensors:SlicedTensors",
        before=lambda _, dumps: any(dumps.slices) or dumps.request is not None,
    ),
    OnDemand(
        "tensor_layouts:Layouts",
        after=lambda table, _: table.loose,
    ),
    OnDemand(
        "other_programs.other_program:OtherProgram",
        before=lambda table, _: table.loose,
    ),
    OnDemand(
        "fused_layers:FusedLayerJoins",
        before=lambda table, _: bool(table.fused),
    ),
    OnDemand(
        "unrecorded:Unrecorded",
        before=lambda _, dumps: (
            dumps.target.level != dumps.golden.level
            or ended_early(dumps.target, dumps.golden)
            or ended_early(dumps.golden, dumps.target)
        ),
    ),
    OnDemand(
        "recompute:Recompute",
        before=lambda table, _: bool(table.alone),
    ),
    OnDemand(
        "recorded_by_others:RecordedByOthers",
        before=lambda _, dumps: side_of_another_tool(dumps.target, dumps.golden) is not None,
    ),
    OnDemand(
        "implementation_flags:ImplementationFlags",
        after=lambda _, kinds: kinds is not None and bool((kinds == RowKind.ARGUMENT).any()),
    ),
    OnDemand(
        "other_programs.exported_programs:ExportedPrograms",
        before=lambda _, dumps: any(
            "model_file" in dump.header or any(map(lost_arguments, dump.data.values()))
            for dump in (dumps.target, dumps.golden)
        ),
    ),
    OnDemand("uninitialised:Uninitialised", after=lambda _, kinds: kinds is not None),
)
"""What is excused, in the order in which it is applied: later exemptions see the table that earlier ones returned."""
