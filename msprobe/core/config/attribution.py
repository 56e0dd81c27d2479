"""Where a wrong value came from: the file it stands in, or the argument that was given.

Whoever judges a finished ``DumpConfig`` knows neither, so what it finds is completed here.
"""

import contextlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import Any

from msprobe.core.config.read import UNNAMED, label_of
from msprobe.core.errors import ConfigError, Problem


def with_arguments(problems: Iterable[Problem], given: Collection[str]) -> list[Problem]:
    """The problems; those about a key in ``given`` are told as wrong arguments."""
    return [replace(problem, argument=problem.path.split("[")[0] in given) for problem in problems]


@contextlib.contextmanager
def attributed(source: Any, given: Collection[str]) -> Iterator[None]:
    """A ConfigError from inside names ``source``, as ``load_config`` would, unless it names a file of its own.

    ``given`` are the keys that came as arguments.
    """
    try:
        yield
    except ConfigError as error:
        if error.source != UNNAMED:
            raise
        raise type(error)(with_arguments(error.problems, given), label_of(source)) from None
