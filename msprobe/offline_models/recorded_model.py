"""One run of a model file as a dump: a record for each node, and for each call of a module that nodes come from.

    Onnx.blocks.0.fc1.MatMul.0.forward        node /blocks.0/fc1/MatMul: module, operation, number in them
    Module.blocks.0.fc1.Linear.forward.0      what leaves the module is its output

The file of a model does not say which arguments a module was called with. Its record has the value that enters the
module where there is one alone, and as output the last value made in it that is used outside.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msprobe.core.dump.record.call_record import CallRecord, StackRecord
from msprobe.core.store.layout import TENSORS, process_folder, step_folder
from msprobe.core.store.sink import DirectorySink, writer_mark
from msprobe.offline_models.measured_values import MeasuredValues
from msprobe.offline_models.model_file import Model, Node
from msprobe.offline_models.packages import load_package
from msprobe.offline_models.parameters import parameters_of
from msprobe.offline_models.scopes import Scope
from msprobe.offline_models.session import run_recorded

UNNAMED_CLASS = "Module"
"""The class in names of modules where the file does not tell it."""

_QUANTIZERS = {"QuantizeLinear", "DynamicQuantizeLinear"}


@dataclass(frozen=True, slots=True)
class RecordedModel:
    """What was recorded.

    Attributes:
        folder: the folder of the dump.
        entries: the name of the record of each node, by the node's number in the graph.
        values: the recorded values by their names in the graph.
        nodes: the number of recorded nodes.
        inner_nodes: how many nodes of branches and loops were not recorded.
    """

    folder: Path
    entries: dict[int, str]
    values: Mapping[str, Any]
    nodes: int
    inner_nodes: int


@dataclass(slots=True)
class ModuleCall:
    """One call of a module: the nodes in it by number, the value that enters it and the one that leaves it."""

    scope: Scope
    around: tuple[Scope, ...]
    nodes: list[int] = field(default_factory=list)
    entering: str | None = None
    leaving: str | None = None

    def own_nodes(self, model: Model) -> list[Node]:
        """Return the nodes of the module itself, those of modules in it left out."""
        depth = len(self.around) + 1
        return [node for node in map(model.nodes.__getitem__, self.nodes) if len(node.scopes) == depth]


@dataclass(frozen=True, slots=True)
class RecordingPlan:
    """How a model is recorded.

    Attributes:
        task: ``statistics``, or ``tensor`` to keep the elements.
        classes: the classes of modules by path, where the file does not tell them.
        rank: the number of the rank folder.
        optimized: whether onnxruntime may optimise the graph.
    """

    task: str = "tensor"
    classes: Mapping[str, str] = field(default_factory=dict)
    rank: int = 0
    optimized: bool = False


def record_model(model: Model, inputs: Mapping[str, Any], root: Path, step: int, plan: RecordingPlan) -> RecordedModel:
    """Run the model once and write what it computes as ``root/step{N}/rank{R}``.

    Raises:
        ReadError: onnxruntime cannot run it, or a weight cannot be read.
        OSError: the dump cannot be written.
    """
    wanted = list(dict.fromkeys(name for node in model.nodes for name in node.outputs if name))
    values, narrow = run_recorded(model, inputs, wanted, optimized=plan.optimized)
    folder = process_folder(step_folder(root, step), plan.rank, os.getpid())
    runtime = load_package("onnxruntime")
    keeps = plan.task == "tensor"
    header = {
        "task": plan.task,
        "level": "mix",
        "framework": "onnx",
        "dump_data_dir": str(folder / TENSORS) if keeps else None,
        "written_by": writer_mark(f"onnxruntime {runtime.__version__}", "cpu"),
        "model_file": str(model.path),
    }
    sink = DirectorySink(folder, header, extra_info=True, tensors=keeps)
    if sink.failed:
        raise OSError(f"{folder}: the dump cannot be written")
    measured = MeasuredValues(model, {**inputs, **values}, narrow, folder / TENSORS if keeps else None)
    entries = _write(sink, model, measured, plan.classes)
    sink.publish()
    failed = sink.failed
    sink.close()
    if failed:
        raise OSError(f"{folder}: the dump cannot be written")
    return RecordedModel(folder, entries, values, len(model.nodes), sum(node.bodies for node in model.nodes))


def _write(sink: DirectorySink, model: Model, measured: MeasuredValues, classes: Mapping[str, str]) -> dict[int, str]:
    calls = module_calls(model)
    ending: dict[int, list[ModuleCall]] = {}
    for call in calls:
        ending.setdefault(call.nodes[-1], []).append(call)
    names, stacks = entry_names(model.nodes), dict[tuple[str, ...], int]()
    for number, node in enumerate(model.nodes):
        body = {
            "input_args": [
                measured.node(name, f"{names[number]}.input.{slot}") for slot, name in enumerate(node.inputs)
            ],
            "input_kwargs": {},
            "output": [measured.node(name, f"{names[number]}.output.{slot}") for slot, name in enumerate(node.outputs)],
            "node": node.name,
            "op": node.op,
        }
        parent = module_entry(node.scopes[-1], classes) if node.scopes else None
        _record(sink, names[number], body, parent, _stack(sink, stacks, (node,)))
        for call in sorted(ending.get(number, ()), key=lambda call: -len(call.around)):
            _write_module(sink, model, measured, call, (classes, stacks))
    return dict(enumerate(names))


def _write_module(
    sink: DirectorySink, model: Model, measured: MeasuredValues, call: ModuleCall, context: tuple[Any, Any]
) -> None:
    classes, stacks = context
    name = module_entry(call.scope, classes)
    sides = [("input_args", "input", call.entering), ("output", "output", call.leaving)]
    body: dict[str, Any] = {
        key: [] if value is None else [measured.node(value, f"{name}.{slot}.0")] for key, slot, value in sides
    }
    body["input_kwargs"] = {}
    own = call.own_nodes(model)
    found = parameters_of(model, call.scope.path, own)
    values = {
        key: measured.node(each.value, f"{name}.parameters.{key}", transposed=each.transposed)
        for key, each in found.items()
    }
    # The integers of a quantized model are no parameters of the program.
    body["parameters"] = {key: value for key, value in values.items() if value and "float" in str(value.get("dtype"))}
    body["nodes"] = [f"{node.name} ({node.op})" for node in own or [model.nodes[call.nodes[-1]]]]
    body["parameter_nodes"] = {key: f"{each.node.name} ({each.node.op})" for key, each in found.items()}
    parent = module_entry(call.around[-1], classes) if call.around else None
    _record(sink, name, body, parent, _stack(sink, stacks, own or [model.nodes[call.nodes[-1]]]))


def _record(sink: DirectorySink, name: str, body: dict[str, Any], parent: str | None, stack: int) -> None:
    record = CallRecord(name, body)
    record.parent, record.stack = parent, stack
    sink.write(record)


def _stack(sink: DirectorySink, numbers: dict[tuple[str, ...], int], nodes: Sequence[Node]) -> int:
    """Return the number of the call stack that names the nodes."""
    frames = (" and ".join(f"node {node.name} ({node.op})" for node in nodes),)
    if frames not in numbers:
        numbers[frames] = len(numbers)
        sink.write(StackRecord(numbers[frames], list(frames)))
    return numbers[frames]


def module_entry(scope: Scope, classes: Mapping[str, str]) -> str:
    """Return the name of the record of a module's call."""
    cls = scope.cls or classes.get(scope.path) or UNNAMED_CLASS
    return f"Module.{scope.path}.{cls}.forward.{scope.call}"


def entry_names(nodes: Sequence[Node]) -> list[str]:
    """Return the names of the records of nodes."""
    counts: dict[str, int] = {}
    names: list[str] = []
    for node in nodes:
        path = f"{node.scopes[-1].path}." if node.scopes else ""
        stem = f"Onnx.{path}{node.op}"
        counts[stem] = counts.get(stem, -1) + 1
        names.append(f"{stem}.{counts[stem]}.forward")
    return names


def module_calls(model: Model) -> list[ModuleCall]:
    """Return the calls of modules, in the order of their first nodes."""
    calls: dict[tuple[Scope, ...], ModuleCall] = {}
    for number, node in enumerate(model.nodes):
        for depth in range(len(node.scopes)):
            chain = node.scopes[: depth + 1]
            if chain not in calls:
                calls[chain] = ModuleCall(chain[-1], chain[:-1])
            calls[chain].nodes.append(number)
    constants, made_by, used_by = _flow(model)
    for call in calls.values():
        inside = set(call.nodes)
        used = dict.fromkeys(name for number in call.nodes for name in model.nodes[number].inputs if name)
        entering = [name for name in used if name not in constants and made_by.get(name) not in inside]
        call.entering = entering[0] if len(entering) == 1 else None
        made = [name for number in call.nodes for name in model.nodes[number].outputs if name and name not in constants]
        leaving = [name for name in made if name in model.outputs or not used_by.get(name, set()) <= inside]
        last = {made_by[name] for name in leaving[-1:]}
        call.leaving = _unquantized(
            model, next((name for name in leaving if made_by[name] in last), None), made_by, inside
        )
    return list(calls.values())


def _unquantized(model: Model, name: str | None, made_by: Mapping[str, int], inside: set[int]) -> str | None:
    """Return the value before it was quantized for a module behind this one, where that was made in this module."""
    if name is None or model.nodes[made_by[name]].op not in _QUANTIZERS:
        return name
    before = model.nodes[made_by[name]].inputs[0]
    return before if made_by.get(before) in inside else name


def _flow(model: Model) -> tuple[set[str], dict[str, int], dict[str, set[int]]]:
    """Return the values that depend on no input, and by value the node that makes it and those that use it."""
    constants, made_by, used_by = set(model.weight_names), dict[str, int](), dict[str, set[int]]()
    for number, (node, reads) in enumerate(zip(model.nodes, model.reads, strict=True)):
        for name in reads:
            used_by.setdefault(name, set()).add(number)
        for name in node.outputs:
            made_by[name] = number
        if all(name in constants for name in reads if name):
            constants.update(node.outputs)
    return constants, made_by, used_by
