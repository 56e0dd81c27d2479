"""What MindSpore and PyTorch call the same parameter of a layer."""

from __future__ import annotations

from collections.abc import Iterable

PARAMETERS = {
    "gamma": "weight",
    "beta": "bias",
    "embedding_table": "weight",
    "moving_mean": "running_mean",
    "moving_variance": "running_var",
}
"""Names of parameters in MindSpore to those in PyTorch."""
_PARAMETER_SLOTS = ("", "parameters", "parameters_grad")


def pytorch_parameter(name: str) -> str:
    """Return PyTorch's name of a parameter."""
    return PARAMETERS.get(name, name)


def with_pytorch_parameter(place: str) -> str:
    """Return a slot, or the suffix of a leaf, with PyTorch's name where it is that of a parameter."""
    head, _, parameter = place.rpartition(".")
    name = PARAMETERS.get(parameter)
    return f"{head}.{name}" if name and head.lstrip(".") in _PARAMETER_SLOTS else place


def name_among(names: Iterable[str], name: str) -> str | None:
    """Return which of the names of one layer's parameters means ``name``, in either framework; None without one."""
    common = pytorch_parameter(name)
    return next((each for each in names if pytorch_parameter(each) == common), None)
