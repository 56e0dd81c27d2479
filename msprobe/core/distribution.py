"""The name under which pip knows this package, its extras, and other distributions that hold files of ``msprobe``.

Only the import name and the command are ``msprobe``: on the public index that name belongs to another program. Nothing
here imports ``importlib.metadata``, so that the command line can ask at each start. Nothing is installed.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Iterator, Mapping
from typing import NamedTuple

NAME = "msprobe-training"
"""The name of the distribution in ``pyproject.toml``."""

PACKAGE = "msprobe"
_OTHERS = re.compile(r"(mindstudio[-_.]probe|msprobe)-([^-]+)\.dist-info", re.IGNORECASE)
"""Folders of the distributions that are known to install a package ``msprobe`` of their own."""


def install_command(*extras: str) -> str:
    """Return the command that installs this package, or the packages of some of its extras."""
    return f'pip install "{NAME}[{",".join(extras)}]"' if extras else f"pip install {NAME}"


class Extra(NamedTuple):
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
    "tensorboard": Extra("event files of the monitor", {"tensorboard": "tensorboard"}),
    "remote": Extra("dumps in a store such as s3://", {"upath": "universal-pathlib"}),
    "plots": Extra("curves of grad_probe", {"matplotlib": "matplotlib"}),
    "dask": Extra("comparison on a cluster (--executor dask://)", {"distributed": "distributed"}),
}
"""By the name that ``install_command`` takes."""


def missing_for(extra: str) -> list[str]:
    """Return the packages of an extra that are not installed, by the names that pip knows."""
    return [package for name, package in EXTRAS[extra].packages.items() if importlib.util.find_spec(name) is None]


class Versions(NamedTuple):
    """The name of a framework in texts, and the oldest and the newest version of it that were tested."""

    framework: str
    oldest: tuple[int, int]
    newest: tuple[int, int]


TESTED: Mapping[str, Versions] = {
    "torch": Versions("PyTorch", (2, 5), (2, 13)),
    "mindspore": Versions("MindSpore", (2, 4), (2, 10)),
}
"""By the name of the import. A newer version is accepted, an older one is refused."""


def supported_versions(package: str) -> str:
    """Return the tested versions in words, such as ``2.4 to 2.10``."""
    return " to ".join(".".join(map(str, version)) for version in TESTED[package][1:])


def version_fault(package: str, version: str) -> str | None:
    """Return why a version of a framework is not supported; None when it is supported, or newer than those tested."""
    if parsed(version)[:2] >= TESTED[package].oldest:
        return None
    supported = supported_versions(package)
    return f"{TESTED[package].framework} {version} is not supported, {supported} is; install a newer one"


def is_newer_than_tested(package: str, version: str) -> bool:
    """Return whether a version of a framework came out after those that were tested."""
    return parsed(version)[:2] > TESTED[package].newest


def parsed(version: str) -> tuple[int, ...]:
    """Return the numbers of a version: ``2.10.0rc1`` gives (2, 10, 0)."""
    return tuple(int(number) for number in re.findall(r"\d+", version.split("rc")[0])[:3])


class Distribution(NamedTuple):
    """An installed distribution: its name as pip knows it, its version and the folder it is installed in."""

    name: str
    version: str
    folder: str


def distributions_beside() -> list[Distribution]:
    """Return the other distributions on the path of Python whose files lie in a package ``msprobe``."""
    found = [_distribution(folder, name) for folder in dict.fromkeys(sys.path) for name in _entries(folder)]
    return [distribution for distribution in found if distribution is not None]


def _entries(folder: str) -> Iterator[str]:
    try:
        yield from os.listdir(folder or ".")
    except OSError:  # entries of the path need not exist, and may be archives
        return


def _distribution(folder: str, entry: str) -> Distribution | None:
    match = _OTHERS.fullmatch(entry)
    if match is None or not _holds_package(os.path.join(folder, entry, "RECORD")):
        return None
    return Distribution(re.sub(r"[-_.]+", "-", match[1]).lower(), match[2], folder)


def _holds_package(record: str) -> bool:
    """Return whether a list of installed files names one in ``msprobe``; a distribution of the name alone has none."""
    try:
        with open(record, encoding="utf-8", errors="replace") as file:
            return any(line.startswith(f"{PACKAGE}/") for line in file)
    except OSError:
        return False


def mixture(beside: Distribution) -> str:
    """Return what is wrong where another distribution is installed too, and what to do."""
    return (
        f"{beside.name} {beside.version} is installed in {beside.folder} and has files in the package {PACKAGE} too: "
        f"what runs is a mixture of both, and removing one removes files of the other; run "
        f"pip uninstall -y {beside.name} {NAME}, then install {NAME} again"
    )
