"""Import kernel dumps into the format of msprobe, which compare, analysis and graphs read."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

from msprobe.core.dump.record.call_record import CallRecord, StackRecord
from msprobe.core.errors import ReadError
from msprobe.core.kernel_dumps.dump_folder import STATISTIC, Iteration, NativeFolder, files_of, find_ranks
from msprobe.core.kernel_dumps.kernel_names import KernelFile, flat
from msprobe.core.kernel_dumps.kernel_statistics import (
    COLUMNS,
    StatisticRow,
    measure,
    read_statistics,
    write_statistics,
)
from msprobe.core.kernel_dumps.records import KernelRun, KernelTensor, body, kernel_runs, numbered
from msprobe.core.kernel_dumps.runtime_request import find_exception_request
from msprobe.core.store.layout import TENSORS, file_name, process_folder, step_folder
from msprobe.core.store.sink import DirectorySink, writer_mark
from msprobe.core.store.tensor_reader import read_tensor
from msprobe.core.tensors.dtypes import find_dtype

MAIN_STATISTICS = ("max", "min", "avg", "l2norm")


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """How a kernel dump is imported.

    Args:
        task: ``tensor`` keeps the elements, ``statistics`` the numbers alone.
        categories: the statistics to compute from elements (see ``categories.COLUMNS``).
        header: more fields for the head of dump.json, such as ``producer``.
        non_finite: record only kernels with NaN or an infinity in an output.
        reduce: replace the runtime's tensor files by its statistic.csv.
        choose: returns which of the records (name -> body) to write, each with what is added to it; None for all.
    """

    task: str
    categories: tuple[str, ...] = MAIN_STATISTICS
    header: dict[str, Any] = field(default_factory=dict)
    non_finite: bool = False
    reduce: bool = False
    choose: Callable[[Mapping[str, Any]], Mapping[str, dict[str, Any]]] | None = None


def import_iterations(native: NativeFolder, runs: Sequence[Iteration], folder: Path, plan: ImportPlan) -> int:
    """Write the records of ``runs`` as one step into ``folder``; return the number of records.

    Raises:
        ReadError: a file of the kernel dump cannot be understood.
    """
    tensors = plan.task != "statistics"
    measured = [(run, _tensors(run, plan)) for run in runs]
    measured.sort(key=lambda pair: (pair[0].number, min((tensor.time for tensor in pair[1]), default=0)))
    kernels = [kernel for run, held in measured for kernel in kernel_runs(native, run.graph, run.number, held)]
    header = {
        "task": plan.task,
        "level": "L2",
        "framework": "mindspore",
        "dump_data_dir": str(folder / TENSORS) if tensors else None,
        "written_by": writer_mark(""),
        **plan.header,
    }
    sink = DirectorySink(folder, header, extra_info=True, tensors=tensors)
    count = _write(sink, numbered(kernels), plan)
    sink.close()
    if plan.reduce:
        for run, held in measured:
            _reduce(run, held, list(dict.fromkeys(COLUMNS[name] for name in plan.categories)))
    return count


def import_dump(source: Path, target: Path, checksums: bool = False) -> list[Path]:
    """Import every iteration of every process as ``target/step{iteration}/rank{rank}``; return these folders.

    Where the runtime was asked for kernels that fail, the header of dump.json names that ``request``.

    Args:
        source: the kernel dump.
        target: the folder of the new dump.
        checksums: also compute an MD5 of each tensor.

    Raises:
        ReadError: there is no kernel dump, or nothing readable in it.
    """
    written: list[Path] = []
    request = find_exception_request(source)
    header = {"request": request.name} if request is not None else {}
    for native in find_ranks(source):
        by_number: dict[int, list[Iteration]] = {}
        for run in native.iterations():
            by_number.setdefault(run.number, []).append(run)
        for number, runs in by_number.items():
            task = "statistics" if all((run.folder / STATISTIC).is_file() for run in runs) else "tensor"
            folder = process_folder(step_folder(target, number), native.rank, os.getpid())
            categories = (*MAIN_STATISTICS, "hash:md5") if checksums else MAIN_STATISTICS
            if import_iterations(native, runs, folder, ImportPlan(task, categories, header)):
                written.append(folder)
    if not written:
        fault = f"nothing to import: neither .npy files nor {STATISTIC} below rank_N/NET/GRAPH"
        raise ReadError(f"{source}: {fault}; run the step again at level L2")
    return written


def _write(sink: DirectorySink, records: Iterable[tuple[str, KernelRun]], plan: ImportPlan) -> int:
    stack_numbers: dict[tuple[str, ...], int] = {}
    count = 0
    chosen: Mapping[str, dict[str, Any]] | None = None
    if plan.choose is not None:
        records = list(records)
        chosen = plan.choose({name: body(run, {}) for name, run in records})
    for name, run in records:
        if (plan.non_finite and not _overflowed(run)) or (chosen is not None and name not in chosen):
            continue
        data_names = _link(sink.folder / TENSORS, name, run) if plan.task != "statistics" else {}
        record = CallRecord(name, {**body(run, data_names), **(chosen or {}).get(name, {})})
        record.parent = None
        frames = tuple(run.stack) or ("The source line is not known.",)
        if frames not in stack_numbers:
            stack_numbers[frames] = len(stack_numbers)
            sink.write(StackRecord(stack_numbers[frames], list(frames)))
        record.stack = stack_numbers[frames]
        sink.write(record)
        count += 1
    return count


def _overflowed(run: KernelRun) -> bool:
    return any(
        tensor.values.get(column)
        for (side, _), tensor in run.tensors.items()
        if side == "output"
        for column in ("NaN Count", "Positive Inf Count", "Negative Inf Count")
    )


def _link(folder: Path, name: str, run: KernelRun) -> dict[tuple[str, int], str]:
    """Link the tensor files of one run into ``folder`` under the names of dump.json; copy where links do not work.

    Returns the file names by side and slot.
    """
    names: dict[tuple[str, int], str] = {}
    for (side, slot), tensor in run.tensors.items():
        if tensor.path is None:
            continue
        names[side, slot] = file_name(f"{name}.{side}.{slot}", tensor.path.suffix)
        target = folder / names[side, slot]
        target.unlink(missing_ok=True)
        try:
            os.link(tensor.path, target)
        except OSError:
            shutil.copyfile(tensor.path, target)
    return names


def _tensors(run: Iteration, plan: ImportPlan) -> list[KernelTensor]:
    table = run.folder / STATISTIC
    rows = [_from_row(row) for row in read_statistics(table) if run.holds(row.time)] if table.is_file() else []
    return [*rows, *(_measured(file, plan.categories) for file in files_of(run))]


def _from_row(row: StatisticRow) -> KernelTensor:
    return KernelTensor(row.op, row.name, row.side, row.slot, row.time, row.dtype, row.shape, row.values)


def _measured(file: KernelFile, categories: Sequence[str]) -> KernelTensor:
    array = read_tensor(file.path)
    dtype = file.dtype or str(array.dtype)
    values = measure(array, dtype, categories)
    return KernelTensor(
        file.op, file.name, file.side, file.slot, file.time, dtype, tuple(array.shape), values, file.path
    )


def _reduce(run: Iteration, held: Sequence[KernelTensor], columns: Sequence[str]) -> None:
    """Replace the tensor files of ``run`` by rows of its statistic.csv."""
    table = run.folder / STATISTIC
    rows = list(read_statistics(table)) if table.is_file() else []
    rows += [
        StatisticRow(
            *(tensor.op, flat(tensor.name), "0", "0", tensor.time, tensor.side, tensor.slot),
            *(_byte_count(tensor), tensor.dtype, tensor.shape, tensor.values),
        )
        for tensor in held
        if tensor.path is not None
    ]
    write_statistics(table, sorted(rows, key=lambda row: row.time), columns)
    for tensor in held:
        if tensor.path is not None:
            tensor.path.unlink(missing_ok=True)


def _byte_count(tensor: KernelTensor) -> int:
    dtype = find_dtype(tensor.dtype)
    return prod(tensor.shape) * (dtype.itemsize if dtype else 0)
