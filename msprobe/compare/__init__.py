"""Compare two dumps.

    import msprobe
    result = msprobe.compare("bad/dump", "good/dump", output="./output")      # also msprobe.compare.compare(...)
    print(result.summary.first_divergence)

The package is callable, so that the tool and its parts share one name. What it calls lives in ``msprobe.report``
above this layer, and is therefore reached by name and only when called; importing this package costs nothing.
"""

import importlib
import sys
from types import ModuleType
from typing import Any

_ENTRANCE = "msprobe.jobs.compare"
_LAZY = ("compare", "CompareResult")


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_ENTRANCE), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class _CallablePackage(ModuleType):
    def __call__(self, target: Any, golden: Any, **options: Any) -> Any:
        """See ``msprobe.jobs.compare.compare``; returns its ``CompareResult``."""
        return importlib.import_module(_ENTRANCE).compare(target, golden, **options)


sys.modules[__name__].__class__ = _CallablePackage
