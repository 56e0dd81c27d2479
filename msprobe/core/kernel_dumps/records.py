"""Convert the tensors of runs of graphs to records of calls, in the order in which kernels were executed.

Kernel.Default.fc1-Dense.MatMul.0.forward              Default/fc1-Dense/MatMul-op0, its first run in the step
Kernel.Default.Grad_Tanh.TanhGrad.0.backward           Gradients/Default/Grad_Tanh/TanhGrad-op0
Kernel.Parameter.fc1.weight.0.forward                  an input of the graph; it has an output only
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msprobe.core.kernel_dumps.dump_folder import NativeFolder
from msprobe.core.kernel_dumps.graph_ir import frames
from msprobe.core.kernel_dumps.kernel_names import PARAMETER, entry_stem, flat, graph_inputs, resolve
from msprobe.core.kernel_dumps.kernel_statistics import HASHES
from msprobe.core.tensors.dtypes import find_dtype, mindspore_name

_NODE_KEYS = {"Max Value": "Max", "Min Value": "Min", "Avg Value": "Mean", "L2Norm Value": "Norm"}


@dataclass(frozen=True, slots=True)
class KernelTensor:
    """One measured tensor of one run of a kernel.

    ``name`` is the flat or the full name of the kernel, ``time`` is in microseconds, ``values`` are statistics by
    column.
    """

    op: str
    name: str
    side: str
    slot: int
    time: int
    dtype: str
    shape: tuple[int, ...]
    values: dict[str, Any] = field(default_factory=dict)
    path: Path | None = None
    checksum: str | None = None


@dataclass(slots=True)
class KernelRun:
    """One run of one kernel: its tensors by side and slot."""

    name: str
    op: str
    graph: str
    iteration: int
    stack: list[str]
    tensors: dict[tuple[str, int], KernelTensor] = field(default_factory=dict)

    @property
    def stem(self) -> tuple[str, str]:
        """The name of the record without call number, and its phase."""
        if self.op == PARAMETER:
            return f"Kernel.{PARAMETER}.{self.name}", "forward"
        return entry_stem(self.name, self.op)


def kernel_runs(native: NativeFolder, graph: str, iteration: int, tensors: Iterable[KernelTensor]) -> list[KernelRun]:
    """Return the runs of kernels that these tensors of one iteration of ``graph`` belong to, in execution order."""
    grouped: dict[tuple[str, str, int], dict[tuple[str, int], KernelTensor]] = {}
    repeats: dict[tuple[tuple[str, str], tuple[str, int]], int] = {}
    for tensor in sorted(tensors, key=lambda tensor: tensor.time):
        kernel, slot = (tensor.op, flat(tensor.name)), (tensor.side, tensor.slot)
        repeat = repeats[kernel, slot] = repeats.get((kernel, slot), -1) + 1
        grouped.setdefault((*kernel, repeat), {})[slot] = tensor
    order = native.order(graph)
    full = resolve({name for op, name, _ in grouped if op != PARAMETER}, order)
    position = {name: number for number, name in enumerate(order)}
    ir = native.graphs.get(graph)
    stacks = {node.name: frames(node.lines) for node in ir.nodes} if ir else {}
    inputs = graph_inputs(ir.parameters if ir else {})

    runs: list[tuple[tuple[int, int, int], KernelRun]] = []
    for (op, name, repeat), slots in grouped.items():
        first = min(tensor.time for tensor in slots.values())
        if op == PARAMETER:
            full_name, index = inputs.get(name, (name, -1))
            index -= 1 + len(inputs)  # the inputs of a graph come before its kernels
        else:
            full_name = full.get(name, name)
            index = position.get(full_name, len(order))
        run = KernelRun(full_name, op, graph, iteration, stacks.get(full_name, []), slots)
        runs.append(((repeat, index, first), run))
    return [run for _, run in sorted(runs, key=lambda pair: pair[0])]


def numbered(runs: Iterable[KernelRun]) -> Iterator[tuple[str, KernelRun]]:
    """Yield the runs of a step with the names of their records."""
    calls: dict[tuple[str, str], int] = {}
    for run in runs:
        stem, phase = run.stem
        call = calls[stem, phase] = calls.get((stem, phase), -1) + 1
        yield f"{stem}.{call}.{phase}", run


def body(run: KernelRun, data_names: dict[tuple[str, int], str]) -> dict[str, Any]:
    """Return the record of one run; a slot that the runtime left out is null."""
    backward = run.stem[1] == "backward"
    sides = {"input": _slots(run, "input", data_names), "output": _slots(run, "output", data_names)}
    record: dict[str, Any] = {}
    if backward:
        record["input"] = sides["input"]
    elif run.op != PARAMETER:
        record["input_args"], record["input_kwargs"] = sides["input"], {}
    record["output"] = sides["output"]
    return {**record, "kernel": run.op, "full_name": run.name, "graph": run.graph, "iteration": run.iteration}


def _slots(run: KernelRun, side: str, data_names: dict[tuple[str, int], str]) -> list[Any]:
    last = max((slot for other, slot in run.tensors if other == side), default=-1)
    keys = [(side, slot) for slot in range(last + 1)]
    return [_node(run.tensors[key], data_names.get(key)) if key in run.tensors else None for key in keys]


def _node(tensor: KernelTensor, data_name: str | None) -> dict[str, Any]:
    dtype = find_dtype(tensor.dtype)
    node: dict[str, Any] = {
        "type": "mindspore.Tensor",
        "dtype": mindspore_name(dtype) if dtype else tensor.dtype,
        "shape": list(tensor.shape),
    }
    node.update({short: tensor.values.get(column) for column, short in _NODE_KEYS.items()})
    for column, value in tensor.values.items():
        if column.endswith("Count"):
            node[column.lower().replace(" ", "_")] = value
    hashed = tensor.checksum or next((tensor.values[name] for name in HASHES if tensor.values.get(name)), None)
    if hashed is not None:
        node["md5"] = hashed
    if data_name is not None:
        node["data_name"] = data_name
    return node
