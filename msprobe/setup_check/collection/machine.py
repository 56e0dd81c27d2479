"""What is installed on this machine: packages, processor, memory, drivers and devices. No command is run."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path

from msprobe.core.host import cpu_count, memory_size

_NVIDIA = Path("/proc/driver/nvidia")
_ASCEND_FILES = {
    "ascend driver": Path("/usr/local/Ascend/driver/version.info"),
    "ascend firmware": Path("/usr/local/Ascend/firmware/version.info"),
    "cann": Path("/usr/local/Ascend/ascend-toolkit/latest/version.cfg"),
}
_LONGEST = 200


def installed_packages() -> dict[str, str]:
    """Return the version of each installed distribution, by its name, sorted."""
    versions: dict[str, str] = {}
    for distribution in importlib.metadata.distributions():
        name = str(distribution.metadata["Name"] or "")  # a damaged installation has no name
        if name:  # the first one on the path is the one that is imported
            versions.setdefault(name, str(distribution.version))
    return dict(sorted(versions.items(), key=lambda item: item[0].lower()))


def machine_facts() -> dict[str, str]:
    """Return facts of processor, system, drivers and devices by name; what does not exist here is left out."""
    facts = {
        "system": f"{platform.system()} {platform.release()}",
        "architecture": platform.machine(),
        "processor": _processor(),
        "processors": str(cpu_count()),
        "instructions": _instructions(),
        "memory": f"{memory_size() >> 30} GB",
        "python": platform.python_version(),
        "libc": " ".join(platform.libc_ver()),
        "nvidia driver": _first_line(_NVIDIA / "version"),
        "nvidia devices": _nvidia_devices(),
        "ascend devices": _ascend_devices(),
        **{name: _version_line(path) for name, path in _ASCEND_FILES.items()},
    }
    return {name: value for name, value in facts.items() if value.strip()}


def _processor() -> str:
    return _cpu_field("model name") or platform.processor()


def _instructions() -> str:
    """Return the vector instructions that change which kernels a library chooses."""
    flags = set((_cpu_field("flags") or _cpu_field("Features")).split())
    return " ".join(name for name in ("avx2", "avx512f", "avx512_bf16", "amx_bf16", "asimd", "sve") if name in flags)


def _cpu_field(name: str) -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    pairs = (line.partition(":") for line in text.splitlines())
    return next((value.strip() for key, _, value in pairs if key.strip() == name), "")


def _first_line(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.readline(_LONGEST).strip()
    except OSError:
        return ""


def _version_line(path: Path) -> str:
    """Return the first line of a version file that holds a number behind ``=``."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            lines = [line.strip() for line in file.read(_LONGEST * 100).splitlines()]
    except OSError:
        return ""
    return next((line for line in lines if "version" in line.lower() and "=" in line), "")


def _nvidia_devices() -> str:
    models = []
    try:
        for folder in sorted((_NVIDIA / "gpus").iterdir()):
            with (folder / "information").open(encoding="utf-8", errors="replace") as file:
                models += [line.partition(":")[2].strip() for line in file if line.startswith("Model")]
    except OSError:
        return ""
    return ", ".join(f"{models.count(name)} x {name}" for name in sorted(set(models)))


def _ascend_devices() -> str:
    try:
        count = sum(name.removeprefix("davinci").isdigit() for name in os.listdir("/dev"))
    except OSError:
        return ""
    return f"{count} devices" if count else ""
