"""All exemptions, each loaded where it has something to say: most comparisons need hardly any of them.

Reading the code of all of them takes as long as comparing a thousand calls. So beside each stands what tells, of two
dumps or of their table, whether it may exempt anything: a superset, found without looking at the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msprobe.compare.exemptions.commuted_operands import CommutedOperands
from msprobe.compare.exemptions.protocol import ComparedDumps, Exemption
from msprobe.compare.exemptions.uninitialised import Uninitialised
from msprobe.compare.records.recorder import side_of_another_tool
from msprobe.compare.records.run_end import ended_early
from msprobe.compare.table.table import LeafTable
from msprobe.core.naming.names import Phase
from msprobe.core.store.record_walk import is_tensor, lost_arguments
from msprobe.core.tensors.statistics import NORM
from msprobe.numerics.verdict import Ints, Measured, RowKind

_OTHER_SHAPES = RowKind.SHAPE, RowKind.OTHER_LAYOUT


class OnDemand(Exemption):
    """An exemption whose file is loaded on demand.

    Args:
        load: imports it.
        before: whether it may change the table of two dumps.
        after: whether it may exempt something in a table to which all have been applied, or says something of it. The
            kinds of all rows come with it where they are known, and None where only notes are wanted.
    """

    def __init__(
        self,
        load: Callable[[], Exemption],
        before: Callable[[LeafTable, ComparedDumps], bool] | None,
        after: Callable[[LeafTable, Ints | None], bool] | None,
    ) -> None:
        self._load = load
        self._before, self._after = before, after

    def apply(self, table: LeafTable, dumps: ComparedDumps) -> LeafTable:
        """Return the table with what the exemption changes."""
        wanted = self._before is not None and self._before(table, dumps)
        return self._load().apply(table, dumps) if wanted else table

    def _speaks(self, table: LeafTable, kinds: Ints | None) -> bool:
        return self._after is not None and self._after(table, kinds)

    def relax(self, table: LeafTable, kinds: Ints) -> None:
        """Lower the kinds of differences that are none."""
        if self._speaks(table, kinds):
            self._load().relax(table, kinds)

    def meaningless_rows(self, table: LeafTable, measured: Measured) -> Sequence[int]:
        """Return the rows whose differences mean nothing."""
        return self._load().meaningless_rows(table, measured) if self._speaks(table, measured.kind) else ()

    def rows_without_effect(self, table: LeafTable, measured: Measured) -> Sequence[int]:
        """Return the rows of inputs that differ and change no result."""
        return self._load().rows_without_effect(table, measured) if self._speaks(table, measured.kind) else ()

    def remarks(self, table: LeafTable) -> list[str]:
        """Return the sentences of the exemption about values that are recorded in another way."""
        return self._load().remarks(table) if self._speaks(table, None) else []

    def notes(self, table: LeafTable) -> list[str]:
        """Return the sentences of the exemption about values that were not judged."""
        return self._load().notes(table) if self._speaks(table, None) else []


def _other_optimizers() -> Exemption:
    from msprobe.compare.exemptions.other_optimizers import OtherOptimizers

    return OtherOptimizers()


def _sliced_tensors() -> Exemption:
    from msprobe.compare.exemptions.sliced_tensors import SlicedTensors

    return SlicedTensors()


def _layouts() -> Exemption:
    from msprobe.compare.exemptions.tensor_layouts import Layouts

    return Layouts()


def _calls_in_pieces() -> Exemption:
    from msprobe.compare.exemptions.calls_in_pieces import CallsInPieces

    return CallsInPieces()


def _other_program() -> Exemption:
    from msprobe.compare.exemptions.other_programs.other_program import OtherProgram

    return OtherProgram()


def _end_of_run() -> Exemption:
    from msprobe.compare.exemptions.dump_levels import EndOfRun

    return EndOfRun()


def _fused_layers() -> Exemption:
    from msprobe.compare.exemptions.fused_layers import FusedLayerJoins

    return FusedLayerJoins()


def _dump_levels() -> Exemption:
    from msprobe.compare.exemptions.dump_levels import DumpLevels

    return DumpLevels()


def _recompute() -> Exemption:
    from msprobe.compare.exemptions.recompute import Recompute

    return Recompute()


def _recorded_by_others() -> Exemption:
    from msprobe.compare.exemptions.recorded_by_others import RecordedByOthers

    return RecordedByOthers()


def _scaled_losses() -> Exemption:
    from msprobe.compare.exemptions.gradients.scaled_losses import ScaledLosses

    return ScaledLosses()


def _implementation_flags() -> Exemption:
    from msprobe.compare.exemptions.implementation_flags import ImplementationFlags

    return ImplementationFlags()


def _model_files() -> Exemption:
    from msprobe.compare.exemptions.other_programs.model_files import ModelFiles

    return ModelFiles()


def _exported_calls() -> Exemption:
    from msprobe.compare.exemptions.other_programs.exported_calls import ExportedCalls

    return ExportedCalls()


def gradients_begin_otherwise(table: LeafTable) -> bool:
    """Return whether the first gradient that both sides have differs: no other row is looked at."""
    phase = Phase.BACKWARD.value
    backward = (number for number, key in enumerate(table.keys) if key.phase == phase)
    for row in (row for number in backward for row in table.rows_of(number)):
        target, golden = table.target[row], table.golden[row]
        if target is not None and golden is not None and is_tensor(target.raw) and is_tensor(golden.raw):
            return bool(target.raw.get(NORM.name) != golden.raw.get(NORM.name))
    return False


def _unused_inputs() -> Exemption:
    from msprobe.compare.exemptions.other_programs.unused_inputs import UnusedInputs

    return UnusedInputs()


EXEMPTIONS: tuple[Exemption, ...] = (
    OnDemand(
        _other_optimizers,
        before=lambda _, dumps: any(dump.header.get("optimizers") for dump in (dumps.target, dumps.golden)),
        after=None,
    ),
    OnDemand(
        _scaled_losses,
        before=lambda table, _: gradients_begin_otherwise(table),
        after=lambda table, _: table.gradient_factor != 1.0,
    ),
    OnDemand(
        _sliced_tensors,
        before=lambda _, dumps: any(dumps.slices) or dumps.request is not None,
        after=lambda table, _: table.partial is not None,
    ),
    OnDemand(
        _layouts,
        before=None,
        after=lambda table, kinds: (
            table.loose or (kinds is not None and any((kinds == one).any() for one in _OTHER_SHAPES))
        ),
    ),
    OnDemand(
        _calls_in_pieces,
        before=lambda table, _: bool(table.alone),
        after=lambda table, _: bool(table.in_pieces or table.together),
    ),
    OnDemand(_other_program, before=lambda table, _: table.loose, after=lambda table, _: table.loose),
    OnDemand(
        _end_of_run,
        before=lambda _, dumps: ended_early(dumps.target, dumps.golden) or ended_early(dumps.golden, dumps.target),
        after=lambda table, _: table.ended_from is not None,
    ),
    OnDemand(
        _fused_layers,
        before=lambda table, _: bool(table.fused),
        after=lambda table, _: bool(table.unjoined_notes),
    ),
    OnDemand(
        _dump_levels,
        before=lambda _, dumps: dumps.target.level != dumps.golden.level,
        after=lambda table, _: bool(table.unrecorded),
    ),
    OnDemand(
        _recompute,
        before=lambda table, _: bool(table.alone),
        after=lambda table, _: bool(table.unmatched_recomputes),
    ),
    OnDemand(
        _recorded_by_others,
        before=lambda _, dumps: side_of_another_tool(dumps.target, dumps.golden) is not None,
        after=lambda table, _: table.other_tool is not None,
    ),
    OnDemand(
        _implementation_flags,
        before=None,
        after=lambda _, kinds: kinds is not None and bool((kinds == RowKind.ARGUMENT).any()),
    ),
    OnDemand(
        _model_files,
        before=lambda _, dumps: any("model_file" in dump.header for dump in (dumps.target, dumps.golden)),
        after=lambda table, _: table.model_file is not None,
    ),
    OnDemand(
        _exported_calls,
        before=lambda _, dumps: any(
            lost_arguments(record) for dump in (dumps.target, dumps.golden) for record in dump.data.values()
        ),
        after=lambda table, _: bool(table.lost_arguments),
    ),
    CommutedOperands(),
    Uninitialised(),
    OnDemand(_unused_inputs, before=None, after=lambda table, _: table.loose),
)
"""What is excused, in the order in which it is applied: later exemptions see the table that earlier ones returned."""
