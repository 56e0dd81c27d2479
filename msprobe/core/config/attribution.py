"""Say where a wrong value came from: from which file, or from an argument.

The checks of a finished ``DumpConfig`` do not know that, so their errors are completed here.
"""

import contextlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import Any

from msprobe.core.config.read import UNNAMED, label_of
from msprobe.core.errors import ConfigError, Problem


def with_arguments(problems: Iterable[Problem], arguments: Collection[str]) -> list[Problem]:
    """Return the problems; those about a key in ``arguments`` are marked as wrong arguments."""
    return [replace(problem, argument=problem.path.split("[")[0] in arguments) for problem in problems]


@contextlib.contextmanager
def attributed(source: Any, arguments: Collection[str]) -> Iterator[None]:
    """Add ``source`` to a ConfigError that is raised inside, as ``load_config`` does.

    An error that names a file already is left as it is.

    Args:
        source: the configuration, as it was passed to the debugger.
        arguments: the keys that were passed as arguments.
    """
    try:
        yield
    except ConfigError as error:
        if error.source != UNNAMED:
            raise
        raise type(error)(with_arguments(error.problems, arguments), label_of(source)) from None
