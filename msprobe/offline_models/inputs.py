"""The inputs that a model runs with: read from files, taken from a dump of the same model, or drawn.

Files are ``.npy``, or ``.bin`` with the bare elements in the type and shape of the input. What is drawn comes from a
fixed seed: floats from the normal distribution, integers 0 and 1, which are valid indices of every table.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from msprobe.core.errors import MsprobeException, ReadError
from msprobe.core.store.tensor_reader import read_tensor
from msprobe.offline_models.model_file import Model, ModelInput
from msprobe.offline_models.packages import load_package

Shapes = Mapping[str, tuple[int, ...]]
_SEED = 0
_MOST_SHAPES = 100
_MOST_DRAWN = 1 << 27
"""Elements of an input, a GiB in float64."""
_RANGE = re.compile(r"(\d+)~(\d+)")


def read_shapes(text: str, model: Model, option: str = "--input_shape") -> Shapes:
    """Return the shapes of ``name:1,3,224,224;name2:1,300``.

    Raises:
        MsprobeException: the text has another form, or names an input that the model does not have.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for name, sizes in _named_sizes(text, model, option):
        if not all(size.isdecimal() for size in sizes):
            raise MsprobeException(
                0, f"{option} {name}:{','.join(sizes)}: sizes are whole numbers, as in x:1,3,224,224"
            )
        shapes[name] = tuple(map(int, sizes))
    return shapes


def shapes_in_range(text: str, model: Model) -> list[Shapes]:
    """Return all shapes of ``name:1,3,200~224,224-230``: ``a~b`` is every size from a to b, ``a-b`` is a and b.

    Raises:
        MsprobeException: the text has another form, or stands for too many shapes.
    """
    option = "--dym_shape_range"
    choices: list[list[tuple[str, tuple[int, ...]]]] = []
    count = 1
    for name, sizes in _named_sizes(text, model, option):
        per_axis = [_sizes(name, size, option) for size in sizes]
        count *= prod(map(len, per_axis))
        if count > _MOST_SHAPES:
            raise MsprobeException(0, f"{option}: more than {_MOST_SHAPES} shapes; give smaller ranges")
        choices.append([(name, tuple(shape)) for shape in itertools.product(*per_axis)])
    return [dict(combination) for combination in itertools.product(*choices)]


def _named_sizes(text: str, model: Model, option: str) -> Iterator[tuple[str, list[str]]]:
    names = [each.name for each in model.inputs]
    for part in filter(None, text.strip().split(";")):
        name, colon, sizes = part.rpartition(":")
        if not colon:
            raise MsprobeException(
                0, f"{option} {part!r}: no name before the sizes; write it as {names[0]}:1,3,224,224"
            )
        if name.strip() not in names:
            raise MsprobeException(0, f"{option}: the model has no input {name!r}; its inputs: {', '.join(names)}")
        yield name.strip(), [size.strip() for size in sizes.split(",")] if sizes.strip() else []


def _sizes(name: str, text: str, option: str) -> Sequence[int]:
    if text.isdecimal():
        return [int(text)]
    between = _RANGE.fullmatch(text)
    if between is not None and int(between[1]) <= int(between[2]) < int(between[1]) + _MOST_SHAPES:
        return range(int(between[1]), int(between[2]) + 1)
    listed = text.split("-")
    if all(size.isdecimal() for size in listed):
        return [int(size) for size in listed]
    raise MsprobeException(0, f"{option} {name}: {text!r} is no size; give a number, 200~224 or 224-230")


def read_inputs(files: Sequence[Path], model: Model, shapes: Shapes) -> dict[str, Any]:
    """Return the inputs from files, one for each input of the model in its order.

    Raises:
        ReadError: a file is missing or does not fit.
        MsprobeException: there are more or fewer files than inputs.
    """
    if len(files) != len(model.inputs):
        names = ", ".join(each.name for each in model.inputs)
        raise MsprobeException(
            0, f"--input_data: {len(files)} files for {len(model.inputs)} inputs; give one for each of: {names}"
        )
    return {each.name: _read(file, each, shapes) for each, file in zip(model.inputs, files, strict=True)}


def _read(file: Path, each: ModelInput, shapes: Shapes) -> Any:
    wanted = numpy_type(each)
    if not file.is_file():
        raise ReadError(f"{file}: no such file; --input_data takes .npy and .bin files")
    if file.suffix in {".npy", ".pt"}:
        return fitting(read_tensor(file), each, str(file), shapes)
    if file.suffix != ".bin":
        raise ReadError(f"{file}: the name must end in .npy or .bin")
    elements, left = divmod(file.stat().st_size, wanted.itemsize)
    shape = shapes.get(each.name) or _from_count(each, elements)
    if left or prod(shape) != elements:
        raise ReadError(
            f"{file}: {file.stat().st_size} bytes are not {_text(each)} of shape {list(shape)} "
            f"({prod(shape) * wanted.itemsize}); give its --input_shape, or a .npy file"
        )
    return np.fromfile(file, wanted).reshape(shape)


def _from_count(each: ModelInput, elements: int) -> tuple[int, ...]:
    """Return the shape of an input of which one size at most is not fixed, by the number of elements."""
    fixed = prod(size for size in each.shape if isinstance(size, int))
    free = sum(not isinstance(size, int) for size in each.shape)
    if free > 1:
        raise MsprobeException(
            0, f"the input {each.name} has {free} sizes that may vary; give --input_shape {each.name}:..."
        )
    return tuple(size if isinstance(size, int) else elements // max(fixed, 1) for size in each.shape)


def fitting(array: Any, each: ModelInput, source: str, shapes: Shapes) -> Any:
    """Return an array in the type of the input.

    Raises:
        ReadError: its shape is another one, or the type would change its values.
    """
    wanted = numpy_type(each)
    expected = shapes.get(each.name, each.shape)
    fits = len(expected) == array.ndim and all(
        not isinstance(size, int) or size == length for size, length in zip(expected, array.shape, strict=True)
    )
    if not fits:
        shown = ", ".join("?" if size is None else str(size) for size in expected)
        raise ReadError(f"{source}: shape {list(array.shape)}, but the input {each.name} of the model is [{shown}]")
    if array.dtype == wanted:
        return np.ascontiguousarray(array)
    converted = array.astype(wanted)
    if array.dtype.kind != wanted.kind or not np.array_equal(converted.astype(array.dtype), array):
        raise ReadError(f"{source}: {array.dtype}, but the input {each.name} of the model is {wanted}")
    return converted


def drawn_inputs(model: Model, shapes: Shapes) -> dict[str, Any]:
    """Return drawn inputs; a size that may vary is 1 where no shape is given."""
    generator = np.random.default_rng(_SEED)
    result: dict[str, Any] = {}
    for each in model.inputs:
        wanted = numpy_type(each)
        shape = shapes.get(each.name, tuple(size if isinstance(size, int) else 1 for size in each.shape))
        if min(shape, default=1) < 0 or max(*shape, prod(shape), 0) > _MOST_DRAWN:
            raise ReadError(
                f"the input {each.name} of the model has the shape {list(shape)}: too many elements to draw, or none "
                "that there can be; give others with --input_shape, or values with --input_data"
            )
        drawn: Any
        if wanted.kind == "f":
            drawn = generator.standard_normal(shape)
        elif wanted.kind == "b":
            drawn = np.ones(shape)
        else:
            drawn = generator.integers(0, 2, shape)
        result[each.name] = np.asarray(drawn).astype(wanted)
    return result


def numpy_type(each: ModelInput) -> Any:
    """Return numpy's type of an input.

    Raises:
        ReadError: it is no tensor of numbers.
    """
    onnx = load_package("onnx")
    try:
        wanted = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(each.element_type))
    except (KeyError, ValueError, TypeError):
        wanted = np.dtype(object)
    if wanted.kind not in "biufc":
        raise ReadError(f"the input {each.name} of the model is {_text(each)}: only tensors of numbers can be given")
    return wanted


def _text(each: ModelInput) -> str:
    onnx = load_package("onnx")
    names = onnx.TensorProto.DataType
    try:
        return str(names.Name(each.element_type)).lower()
    except ValueError:
        return f"type {each.element_type}"
