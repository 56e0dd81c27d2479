"""What is installed of msprobe and of the packages that it uses, and what is wrong with it; ``msprobe doctor``.

Nothing is imported that is only asked for its version.
"""

from __future__ import annotations

import importlib.metadata
import json
import platform
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import msprobe
from msprobe.core.distribution import (
    EXTRAS,
    NAME,
    PACKAGE,
    TESTED,
    distributions_beside,
    install_command,
    is_newer_than_tested,
    missing_for,
    mixture,
    supported_versions,
    version_fault,
)
from msprobe.native.loader import absence


class Fact(NamedTuple):
    """One line about the installation."""

    name: str
    text: str
    right: bool = True


def installation_facts() -> list[Fact]:
    """Return what is installed: Python, this package, frameworks, the compiled kernel and the optional packages."""
    reason = absence()
    kernel = "present" if reason is None else f"missing, so that recording measures more slowly: {reason}"
    return [
        Fact("python", f"{platform.python_version()} ({sys.executable})"),
        _package(),
        *(Fact(beside.name, mixture(beside), right=False) for beside in distributions_beside()),
        Fact("kernel", kernel),
        Fact("numpy", _version("numpy") or "not installed"),
        *map(_framework, TESTED),
        *_extras(),
    ]


def _package() -> Fact:
    """Return which copy of this package is imported, and whether it is the installed one."""
    imported = Path(msprobe.__file__).resolve().parent
    text = f"{msprobe.__version__} in {imported}"
    installed = _installed_in()
    if installed is None:
        return Fact(PACKAGE, f"{text}; it is not installed: {NAME} is not among the packages of this Python")
    if imported != installed:
        return Fact(
            PACKAGE,
            f"{text} hides the installed one in {installed}: work in another folder, or take {imported.parent} out of "
            f"PYTHONPATH",
            right=False,
        )
    return Fact(PACKAGE, f"{text}, installed as {NAME} {_version(NAME)}")


def _installed_in() -> Path | None:
    """Return the folder of the package that pip installed, which is the checkout where that was installed with -e."""
    try:
        distribution = importlib.metadata.distribution(NAME)
    except importlib.metadata.PackageNotFoundError:
        return None
    origin = json.loads(distribution.read_text("direct_url.json") or "{}")
    if origin.get("dir_info", {}).get("editable"):
        return Path(unquote(urlsplit(origin["url"]).path), PACKAGE).resolve()
    return Path(str(distribution.locate_file(PACKAGE))).resolve()


def _framework(package: str) -> Fact:
    version = _version(package)
    if version is None:
        return Fact(package, "not installed")
    if fault := version_fault(package, version):
        return Fact(package, fault, right=False)
    newer = f", newer than the tested versions ({supported_versions(package)})"
    return Fact(package, f"{version}{newer if is_newer_than_tested(package, version) else ''}")


def _extras() -> Iterator[Fact]:
    for name, extra in EXTRAS.items():
        if name not in TESTED:
            missing = missing_for(name)
            state = f"missing {', '.join(missing)}: {install_command(name)}" if missing else "installed"
            yield Fact(f"extra {name}", f"{state} (for {extra.purpose})")


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
