"""Fields of the configuration that ``msprobe noise --perturb`` sets in the program that it runs.

The program makes its debugger as ever, and the variables of its environment say what is different this time.
"""

from __future__ import annotations

import os
from typing import Any

_SEED, _FOLDER = "MSPROBE_PERTURB", "MSPROBE_PERTURBED_PATH"
_FIELDS = {_SEED: "perturb", _FOLDER: "dump_path"}
"""The field of the configuration that each variable sets."""


def perturbing_environment(seed: int, dump_path: str) -> dict[str, str]:
    """Return the environment of a program that records into ``dump_path`` what rounding does to it."""
    return {**os.environ, _SEED: str(seed), _FOLDER: dump_path}


def fields_of_environment() -> dict[str, Any]:
    """Return the fields that the environment of this process sets; none in an ordinary run."""
    fields: dict[str, Any] = {field: os.environ[key] for key, field in _FIELDS.items() if key in os.environ}
    seed = str(fields.get("perturb", ""))
    return {**fields, "perturb": int(seed)} if seed.isdecimal() else fields
