"""Fields of the configuration that ``msprobe noise --perturb`` sets in the program that it runs.

The program makes its debugger as ever, and the variables of its environment say what is different this time.
"""

from __future__ import annotations

import os
from typing import Any

_FIELDS = {"MSPROBE_PERTURB": "perturb", "MSPROBE_PERTURBED_PATH": "dump_path"}


def perturbing_environment(seed: int, dump_path: str) -> dict[str, str]:
    """Return the environment of a program that records into ``dump_path`` what rounding does to it."""
    return {**os.environ, "MSPROBE_PERTURB": str(seed), "MSPROBE_PERTURBED_PATH": dump_path}


def fields_of_environment() -> dict[str, Any]:
    """Return the fields that the environment of this process sets; none in an ordinary run."""
    fields: dict[str, Any] = {name: os.environ[key] for key, name in _FIELDS.items() if key in os.environ}
    seed = str(fields.get("perturb", ""))
    return {**fields, "perturb": int(seed)} if seed.isdecimal() else fields
