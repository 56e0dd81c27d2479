"""Runs model files and compares what they compute: ``msprobe offline_dump`` and ``msprobe compare -m offline_model``.

The golden run is a dump of the program that the model was exported from, or another model file, which runs with the
same inputs. The first divergence is told with the node behind it.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe.compare.records.entries import stem_of
from msprobe.core.errors import MsprobeException, ReadError
from msprobe.core.host import limited_memory
from msprobe.core.naming.names import is_module_name
from msprobe.core.store.layout import file_name
from msprobe.core.store.reader import Dump, find_dumps, load_dump
from msprobe.core.store.safe_files import make_folder, make_folder_below, write_atomic
from msprobe.offline_models.inputs import Shapes, drawn_inputs, read_inputs, read_shapes, shapes_in_range
from msprobe.offline_models.model_file import Model, is_model_file, read_model
from msprobe.offline_models.recorded_model import RecordedModel, RecordingPlan, record_model

if TYPE_CHECKING:
    from msprobe.jobs.compare import CompareResult
    from msprobe.numerics.array_verdict import ArrayVerdict

INPUTS = "inputs"


@dataclass(frozen=True, slots=True)
class OfflineOptions:
    """What a model is run with.

    Attributes:
        input_data: files, one for each input of the model; none to draw inputs.
        input_shape: ``name:1,3,224,224;...``.
        dym_shape_range: ``name:1,3,200~224;...``; the model runs once for each shape, and ``input_shape`` is not used.
        task: ``tensor`` or ``statistics``.
        rank: the number of the rank folder.
        optimized: leave onnxruntime's optimisations on while values are recorded.
    """

    input_data: tuple[Path, ...] = ()
    input_shape: str = ""
    dym_shape_range: str = ""
    task: str = "tensor"
    rank: int = 0
    optimized: bool = False


@dataclass(frozen=True, slots=True)
class OfflineRun:
    """One run of a model: what was recorded, and by output how far the optimised run is from it."""

    recorded: RecordedModel
    shapes: Mapping[str, tuple[int, ...]]
    optimized: Mapping[str, ArrayVerdict] = field(default_factory=dict)


def run_model(
    path: Path,
    output: Path,
    options: OfflineOptions,
    classes: Mapping[str, str] | None = None,
    files_of: Callable[[int], tuple[Path, ...]] | None = None,
) -> Iterator[OfflineRun]:
    """Run a model once for each set of shapes, write each run as a step below ``output``, and yield it.

    The inputs are written to ``output/inputs/step{N}``. ``files_of`` returns the files of those of a step; without it
    they are as the options say.

    Raises:
        ReadError: the model or an input cannot be used.
        MsprobeException: an option is wrong, or a package is missing.
        OSError: the dump cannot be written.
    """
    model = read_model(path)
    make_folder(output)  # a folder that cannot be made is told before the model runs
    plan = RecordingPlan(options.task, classes or {}, options.rank, options.optimized)
    for step, shapes in enumerate(_all_shapes(model, options)):
        with limited_memory():
            inputs = _inputs(model, options.input_data if files_of is None else files_of(step), shapes)
            recorded = record_model(model, inputs, output, step, plan)
            _write_inputs(output / INPUTS / f"step{step}", inputs)
            found = {name: tuple(array.shape) for name, array in inputs.items()}
            run = OfflineRun(recorded, found, _against_optimized(model, inputs, recorded))
        yield run


def _all_shapes(model: Model, options: OfflineOptions) -> list[Shapes]:
    if options.dym_shape_range:
        return shapes_in_range(options.dym_shape_range, model)
    return [read_shapes(options.input_shape, model)]


def _inputs(model: Model, files: tuple[Path, ...], shapes: Shapes) -> dict[str, Any]:
    return read_inputs(files, model, shapes) if files else drawn_inputs(model, shapes)


def _write_inputs(folder: Path, inputs: Mapping[str, Any]) -> None:
    import numpy as np

    make_folder_below(folder.parents[1], folder)
    for name, array in inputs.items():
        content = io.BytesIO()
        np.save(content, array, allow_pickle=False)
        write_atomic(folder / file_name(name, ".npy"), [content.getvalue()])


def _against_optimized(model: Model, inputs: Mapping[str, Any], recorded: RecordedModel) -> dict[str, ArrayVerdict]:
    """Return by output how the run with onnxruntime's optimisations agrees with the recorded one."""
    import numpy as np

    from msprobe.numerics.array_verdict import judge_arrays
    from msprobe.offline_models.session import run_plain

    verdicts: dict[str, ArrayVerdict] = {}
    for name, value in run_plain(model, inputs).items():
        own = recorded.values.get(name)
        if isinstance(value, np.ndarray) and isinstance(own, np.ndarray) and value.dtype.kind in "biufc":
            verdicts[name] = judge_arrays(value, own, value.dtype.name)
    return verdicts


@dataclass(frozen=True, slots=True)
class OfflineComparison:
    """A model compared with its golden run; ``first_node`` names the node of the first divergence, "" for none."""

    result: CompareResult
    runs: tuple[OfflineRun, ...]
    first_node: str


def compare_model(
    target: Path, golden: Path, output: Path, options: OfflineOptions, **further: Any
) -> OfflineComparison:
    """Run a model and compare it with a dump of its program, or with another model file.

    Args:
        target: the model.
        golden: a dump, or a model.
        output: the folder for the dump of the model (``target``), that of a golden model (``golden``), and the tables.
        options: what the model is run with; a dump needs ``input_data``, the inputs of its run.
        further: options of ``msprobe.compare``.

    Raises:
        ReadError, MsprobeException, OSError: see ``run_model``, and the golden run cannot be read.
    """
    from msprobe.jobs.compare import compare

    if not is_model_file(target):
        raise ReadError(f"{target}: -m offline_model runs a model file as the target; give an .onnx file after -tp")
    classes: dict[str, str] = {}
    if is_model_file(golden):
        options = _with_golden_shapes(options, read_model(golden))
    else:
        dump = _golden_dump(golden)
        if not options.input_data:
            raise MsprobeException(
                0,
                f"the inputs of the run in {golden} are not known: give them with --input_data FILE,...",
            )
        classes, options = _classes(dump), replace(options, task=_task(dump))
    runs = tuple(run_model(target, output / "target", options, classes))
    if is_model_file(golden):
        list(run_model(golden, output / "golden", options, files_of=_files_of(output / "target", target, options)))
        golden = output / "golden"
    result = compare(output / "target", golden, output=output, pair="order", **further)
    first = result.summary.first_divergence
    node = first_wrong_node(runs[0].recorded.folder.parent.parent, first) if first is not None else ""
    return OfflineComparison(result, runs, node)


def _with_golden_shapes(options: OfflineOptions, golden: Model) -> OfflineOptions:
    """Return the options with the shapes of a golden model whose sizes are fixed, where nothing else gives them."""
    if options.input_data or options.input_shape or options.dym_shape_range:
        return options
    fixed = [each for each in golden.inputs if each.shape and all(isinstance(size, int) for size in each.shape)]
    return replace(options, input_shape=";".join(f"{each.name}:{','.join(map(str, each.shape))}" for each in fixed))


def _golden_dump(path: Path) -> Dump:
    places = find_dumps(path)
    return load_dump(places[0])


def _task(dump: Dump) -> str:
    return "tensor" if dump.task == "tensor" else "statistics"


def _files_of(folder: Path, model: Path, options: OfflineOptions) -> Callable[[int], tuple[Path, ...]]:
    """Return what names the files of the inputs of a step: those given, or those that a run of a model wrote."""
    names = [each.name for each in read_model(model).inputs]

    def files(step: int) -> tuple[Path, ...]:
        written = (folder / INPUTS / f"step{step}" / file_name(name, ".npy") for name in names)
        return options.input_data or tuple(written)

    return files


def _classes(dump: Dump) -> dict[str, str]:
    """Return the classes of the modules of a dump by their paths."""
    classes: dict[str, str] = {}
    for name in filter(is_module_name, dump.data):
        path, _, cls = stem_of(name).partition(".")[2].rpartition(".")
        classes.setdefault(path, cls)
    return classes


def first_wrong_node(root: Path, first: Any) -> str:
    """Return the node, or the nodes, behind a first divergence; "" where the model has no such record."""
    for place in find_dumps(root):
        body = load_dump(place).data.get(first.target or "")
        if body is None:
            continue
        if "node" in body:
            return f"{body['node']} ({body['op']})"
        slot = (first.slot or "").split(".")
        parameter = body.get("parameter_nodes", {}).get(slot[1] if len(slot) > 1 else "")
        if slot[0] == "parameters" and parameter:
            return f"{parameter}, which reads another {slot[1]}"
        nodes = body.get("nodes", [])
        return nodes[0] if len(nodes) == 1 else f"one of {', '.join(nodes)}" if nodes else ""
    return ""
