"""The adapter for PyTorch. Importing any part of it refuses a version that is too old, without loading torch."""

from importlib.metadata import PackageNotFoundError, version

from msprobe.core.distribution import version_fault


def _require() -> None:
    """Raise ImportError for a PyTorch older than the oldest supported one; one that is not installed says so itself."""
    try:
        fault = version_fault("torch", version("torch"))
    except PackageNotFoundError:
        return
    if fault is not None:
        raise ImportError(f"msprobe: {fault}", name="torch")


_require()
