"""What ``seed_all`` does in every framework: it checks what it is given, and seeds Python and numpy."""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np

from msprobe.core.errors import MsprobeException, argument_text

_LARGEST_SEED = 2**32 - 1


def check_seed(seed: Any, **switches: Any) -> None:
    """Raise MsprobeException unless ``seed`` is an int from 0 to 2**32 - 1 and every switch a bool."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= _LARGEST_SEED:
        raise MsprobeException(0, f"seed_all: seed is an integer from 0 to {_LARGEST_SEED}, got {argument_text(seed)}")
    for name, value in switches.items():
        if not isinstance(value, bool):
            raise MsprobeException(0, f"seed_all: {name} is True or False, got {argument_text(value)}")


def seed_host(seed: int) -> None:
    """Seed the shared generators of Python and numpy, and the hashes of the processes this one starts."""
    os.environ["PYTHONHASHSEED"] = str(seed)
    random.seed(seed)
    np.random.seed(seed)
