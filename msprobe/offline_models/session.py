"""Runs a model in onnxruntime on the CPU: with every value returned and nothing optimised, and as users run it.

An optimised session joins nodes (``MatMul`` and ``Add`` to one kernel) and computes constants in advance: values
between them are not made then. So values are recorded with all optimisations off, and ``run_plain`` runs the unchanged
model with them, for a comparison of the results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from msprobe.core.errors import ReadError, error_text
from msprobe.offline_models.model_file import Model
from msprobe.offline_models.packages import load_package

_EXTERNAL = "session.model_external_initializers_file_folder_path"
_WIDENED = {"bfloat16": "FLOAT", "float8e4m3fn": "FLOAT", "float8e4m3fnuz": "FLOAT", "float8e5m2": "FLOAT"} | {
    "float8e5m2fnuz": "FLOAT",
    "int4": "INT8",
    "uint4": "UINT8",
}
"""Types that numpy lacks, and the wider type in which their values are fetched."""
_SUFFIX = "::msprobe"
_NO_MEMORY = "std::bad_alloc"


def run_recorded(
    model: Model, inputs: Mapping[str, Any], wanted: Sequence[str], *, optimized: bool = False
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the values ``wanted``, and the types of those that were fetched in a wider one.

    Args:
        model: the model; its file is not changed.
        inputs: an array for each input.
        wanted: names of values of the graph.
        optimized: leave the optimisations of onnxruntime on; a value that it optimises away is not returned.

    Raises:
        ReadError: onnxruntime cannot load or run the model; the message is its own.
    """
    onnx = load_package("onnx")
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    own = {value.name for value in proto.graph.output}
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in wanted if name not in own)
    session = _session(model, proto.SerializeToString(), optimized)
    types = {value.name: _element(value.type) for value in session.get_outputs()}
    narrow = {name: types[name] for name in wanted if types.get(name) in _WIDENED}
    if narrow:
        _widen(onnx, proto, narrow)
        session = _session(model, proto.SerializeToString(), optimized)
    fetched = [name + _SUFFIX if name in narrow else name for name in wanted]
    return dict(zip(wanted, _run(model, session, fetched, inputs), strict=True)), narrow


def _widen(onnx: Any, proto: Any, narrow: Mapping[str, str]) -> None:
    """Fetch values of types that numpy lacks through a Cast to a type that holds them exactly."""
    kept = [value for value in proto.graph.output if value.name not in narrow]
    del proto.graph.output[:]
    proto.graph.output.extend(kept)
    for name, kind in narrow.items():
        to = getattr(onnx.TensorProto, _WIDENED[kind])
        proto.graph.node.append(onnx.helper.make_node("Cast", [name], [name + _SUFFIX], to=to))
        proto.graph.output.append(onnx.ValueInfoProto(name=name + _SUFFIX))


def run_plain(model: Model, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the outputs of the model as onnxruntime computes them by default, with its optimisations.

    Raises:
        ReadError: onnxruntime cannot load or run the model.
    """
    session = _session(model, str(model.path), optimized=True)
    return dict(zip(model.outputs, _run(model, session, list(model.outputs), inputs), strict=True))


def _session(model: Model, source: bytes | str, optimized: bool) -> Any:
    runtime = load_package("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    if not optimized:
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    if isinstance(source, bytes):
        options.add_session_config_entry(_EXTERNAL, str(model.path.parent.resolve()))
    try:
        return runtime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise ReadError(f"{model.path}: onnxruntime cannot load it ({error_text(error)})") from error


def _run(model: Model, session: Any, names: list[str], inputs: Mapping[str, Any]) -> list[Any]:
    """Run the model in a thread: onnxruntime would keep signals from this one until a model ends, which it may not."""
    options = load_package("onnxruntime").RunOptions()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(session.run, names, dict(inputs), options)
        try:
            values: list[Any] = running.result()
        except Exception as error:
            shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in inputs.items())
            text = error_text(error).replace(_NO_MEMORY, f"not enough memory, {_NO_MEMORY}")
            raise ReadError(f"{model.path}: onnxruntime cannot run it with {shapes} ({text})") from error
        finally:
            options.terminate = True
    return values


def _element(kind: str) -> str:
    return kind.removeprefix("tensor(").removesuffix(")")
