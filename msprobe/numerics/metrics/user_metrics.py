"""Metrics of the user, computed for every pair of whole tensors.

A metric is named in one of two ways; neither needs a change of this package:

    an installed package names it     [project.entry-points."msprobe.metrics"]
                                      psnr = "my_package.metrics:psnr"
    the command line names it         --metrics my_metrics:psnr      or      --metrics ./my_metrics.py:psnr

The name stands for a function of two numpy arrays of equal shape, target first, and its column is called like the entry
point or the function; or anything with ``column_name`` (a text, or a function that returns one) and ``compare``: a
module, a class instance. The result is a number or a text, or a pair of it and a message.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.core.errors import MsprobeException
from msprobe.numerics.metrics.statistics import Cell

GROUP = "msprobe.metrics"
FAILED = "unsupported"
_MOST = 200  # characters of a message


@dataclass(frozen=True, slots=True)
class Metric:
    """A column title and the function behind it."""

    title: str
    compare: Callable[[Any, Any], Any]

    def cell(self, target: NDArray[Any], golden: NDArray[Any]) -> tuple[Cell, str]:
        """The value for a pair of tensors and a note; ``unsupported`` with the reason where the function fails."""
        try:
            value = self.compare(target, golden)
        except Exception as error:  # noqa: BLE001  (whatever the function of a user does)
            return FAILED, self._note(f"{type(error).__name__}: {error}")
        message = ""
        if isinstance(value, tuple) and len(value) == 2:
            value, message = value[0], str(value[1])
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, bool):
            value = str(value)
        if not isinstance(value, (int, float, str)):
            return FAILED, self._note(f"returned {type(value).__name__}, not a number or a text")
        cell = "Nan" if isinstance(value, float) and value != value else value
        return cell, self._note(message) if message else ""

    def _note(self, message: str) -> str:
        return f"{self.title}: {' '.join(message.split())[:_MOST]}"


def load_metrics(named: Sequence[str] = (), reserved: Iterable[str] = ()) -> list[Metric]:
    """Return the metrics of installed packages, sorted by name, then the ``named`` ones.

    A metric is named as ``module:function`` or ``file.py:function``.

    Raises:
        MsprobeException: one cannot be loaded, is no metric, or its title is taken (``reserved`` titles are).
    """
    metrics = [_metric(_loaded(entry), entry.name, f"entry point {entry.name}") for entry in _installed()]
    metrics += [_named(text) for text in named]
    taken = set(reserved)
    for metric in metrics:
        if metric.title in taken:
            raise _refused(f"the column {metric.title!r} exists already; give the metric another column_name")
        taken.add(metric.title)
    return metrics


def _installed() -> list[EntryPoint]:
    return sorted(entry_points(group=GROUP), key=lambda entry: entry.name)


def _loaded(entry: EntryPoint) -> Any:
    try:
        return entry.load()
    except Exception as error:
        raise _refused(f"entry point {entry.name} = {entry.value} cannot be loaded ({error})") from error


def _named(text: str) -> Metric:
    place, _, attribute = text.partition(":")
    try:
        module = _file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
        value = getattr(module, attribute) if attribute else module
    except Exception as error:
        reason = (
            f"{text!r} cannot be loaded ({type(error).__name__}: {error}); give module:function or file.py:function"
        )
        raise _refused(reason) from error
    return _metric(value, attribute or Path(place).stem, repr(text))


def _file(path: Path) -> Any:
    name = f"msprobe_metrics_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise FileNotFoundError(f"no such file: {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _metric(value: Any, name: str, source: str) -> Metric:
    compare = getattr(value, "compare", value)
    title = getattr(value, "column_name", name)
    title = title() if callable(title) else title
    if not callable(compare):
        raise _refused(
            f"{source} is no metric, no function and nothing with a function `compare`; give module:function"
        )
    if not isinstance(title, str) or not title.strip() or not title.isprintable():
        raise _refused(f"{source}: column_name gives {title!r}, not a printable text")
    return Metric(title, compare)


def _refused(reason: str) -> MsprobeException:
    return MsprobeException(MsprobeException.INVALID_PARAM_ERROR, f"metric: {reason}")
