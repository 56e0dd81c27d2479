"""The optional packages of msprobe: what each is for, whether it is installed, and how to get it.

``load_package`` imports one where it is needed; ``missing_for`` tells what ``msprobe install_deps`` prints. Nothing is
installed.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from msprobe.core.errors import MsprobeException


@dataclass(frozen=True, slots=True)
class Extra:
    """One extra of the package: what it is for, and the packages by the name of their import."""

    purpose: str
    packages: Mapping[str, str]


EXTRAS: Mapping[str, Extra] = {
    "onnx": Extra(
        "offline_dump and compare -m offline_model: model files",
        {"onnx": "onnx", "onnxruntime": "onnxruntime"},
    ),
    "torch": Extra("collection and checks of PyTorch programs", {"torch": "torch"}),
    "mindspore": Extra("collection and checks of MindSpore programs", {"mindspore": "mindspore"}),
    "report": Extra("coloured text", {"rich": "rich"}),
    "remote": Extra("dumps in a store such as s3://", {"upath": "universal-pathlib"}),
    "dask": Extra("comparison on a cluster (--executor dask://)", {"distributed": "distributed"}),
}
"""By the name that stands in ``pip install 'msprobe[NAME]'``."""


def load_package(name: str) -> Any:
    """Import and return a package of the extra ``onnx``.

    Raises:
        MsprobeException: it is not installed, or cannot be loaded.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        fault = "is not installed" if importlib.util.find_spec(name) is None else f"cannot be loaded ({error})"
        raise MsprobeException(0, f"{name} {fault}: pip install 'msprobe[onnx]'") from error


def missing_for(extra: str) -> list[str]:
    """Return the packages of an extra that are not installed, by the names that pip knows."""
    return [package for name, package in EXTRAS[extra].packages.items() if importlib.util.find_spec(name) is None]
