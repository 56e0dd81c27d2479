"""The values of one run as nodes of dump.json: each is measured once, however many records have it."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from msprobe.core.store.layout import file_name
from msprobe.core.store.safe_files import write_atomic
from msprobe.core.tensors.dtypes import find_dtype
from msprobe.core.tensors.numpy_ops import statistics
from msprobe.core.tensors.projection import KEY, projection
from msprobe.core.tensors.statistics import NO_STATS, TensorStats, set_statistics
from msprobe.offline_models.model_file import Model

_NAMES = {"float8e4m3fn": "float8_e4m3fn", "float8e5m2": "float8_e5m2"}


class MeasuredValues:
    """The values of a run.

    Args:
        model: the model, which is asked for weights.
        values: what the run made, and its inputs, by name.
        narrow: the types of values that are given in a wider one.
        folder: where tensor files are written; None to keep no elements.
    """

    def __init__(self, model: Model, values: Mapping[str, Any], narrow: Mapping[str, str], folder: Path | None) -> None:
        self._model, self._values, self._narrow, self._folder = model, values, narrow, folder
        self._nodes: dict[str, Any] = {}
        self._files: dict[str, Path] = {}

    def node(self, name: str, save_as: str, *, transposed: bool = False) -> Any:
        """Return the node of a value; ``save_as`` is the name of its tensor. None for a value that is left out."""
        if not name:
            return None
        value = self._values.get(name)
        if value is None and name in self._model.weight_names:
            if name in self._nodes and self._folder is None and not transposed:
                return self._nodes[name]
            value = self._model.weight(name)
        if transposed and isinstance(value, np.ndarray):
            return self._one(f"{name}.T", np.ascontiguousarray(value.T), save_as)
        if isinstance(value, list):
            return [self._one(f"{name}[{place}]", part, f"{save_as}.{place}") for place, part in enumerate(value)]
        return self._one(name, value, save_as)

    def _one(self, name: str, value: Any, save_as: str) -> Any:
        if value is None:
            return None
        if not isinstance(value, np.ndarray):
            return {"type": type(value).__name__, "value": str(value)[:100]}
        measured = self._nodes.get(name)
        if measured is None:
            measured = self._nodes[name] = self._measured(name, value)
        if self._folder is None or (value.dtype.kind not in "biufc" and value.dtype.name not in _ML_TYPES):
            return dict(measured)
        return {**measured, "data_name": self._write(name, value, save_as)}

    def _measured(self, name: str, value: Any) -> dict[str, Any]:
        kind = self._narrow.get(name, "")
        dtype = _NAMES.get(kind, kind) or value.dtype.name
        node: dict[str, Any] = {"type": "numpy.ndarray", "dtype": dtype, "shape": list(value.shape)}
        if value.dtype.kind == "O":
            node["dtype"] = "str"
        wide = value.astype(np.float32) if value.dtype.name in _ML_TYPES else value
        set_statistics(node, statistics_of(wide))
        if wide.size and wide.dtype.kind in "biuf":
            node[KEY] = projection(wide)
        return node

    def _write(self, name: str, value: Any, save_as: str) -> str:
        """Write a tensor file; a value that has one already gets a second name for it."""
        assert self._folder is not None
        target = self._folder / file_name(save_as, ".npy")
        earlier = self._files.get(name)
        if earlier is not None:
            try:
                target.unlink(missing_ok=True)
                os.link(earlier, target)
                return target.name
            except OSError:
                pass  # a file system without links: write it again
        wide = value.astype(np.float32) if value.dtype.name in _ML_TYPES else value
        content = io.BytesIO()
        np.save(content, wide, allow_pickle=False)
        write_atomic(target, [content.getvalue()])
        self._files[name] = target
        return target.name


_ML_TYPES = frozenset({
    "bfloat16",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "int4",
    "uint4",
})


def statistics_of(array: Any) -> TensorStats:
    """Return the statistics of an array; strings have none."""
    return statistics(array) if array.size and find_dtype(array.dtype.name) is not None else NO_STATS
