"""msprobe: which operation went wrong first, and why.

Importing it costs nothing: ``msprobe.pytorch`` and ``msprobe.compare(target, golden)`` load when they are used.
"""

from typing import TYPE_CHECKING, Any

from msprobe.legacy_paths import install

if TYPE_CHECKING:
    from msprobe import compare

__version__ = "0.1.0"

__all__ = ["__version__", "compare"]

install()


def __getattr__(name: str) -> Any:
    if name == "compare":
        import importlib

        return importlib.import_module("msprobe.compare")
    raise AttributeError(f"module 'msprobe' has no attribute {name!r}")
