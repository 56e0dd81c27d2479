"""Do the directories and files that a configuration points to exist on this machine?

Kept apart from ``load_config``, which gives the same answer on every machine.
"""

import os
from collections.abc import Iterator

from msprobe.core.config.dump_config import DumpConfig
from msprobe.core.config.read import UNNAMED
from msprobe.core.errors import FileCheckException, Problem, config_error


def place_problems(config: DumpConfig) -> tuple[Problem, ...]:
    """One problem for each input place that is missing or not a directory. Output places are made when needed."""
    return tuple(_problems(config))


def require_places(config: DumpConfig) -> None:
    """Refuse a configuration whose input places are not there; asked before a training starts.

    Raises FileCheckException code 3 for a missing ``bench_path`` or ``custom_apis`` and ConfigError for the others.
    """
    problems = place_problems(config)
    for problem in problems:
        if problem.path.endswith(("bench_path", "custom_apis")):
            raise FileCheckException(FileCheckException.ILLEGAL_PATH_ERROR, str(problem))
    if problems:
        raise config_error(problems, UNNAMED)


def _problems(config: DumpConfig) -> Iterator[Problem]:
    section = config.section
    for key, expected in section.input_folders.items():
        folder = getattr(section, key)
        if folder and not os.path.isdir(folder):
            yield Problem(f"{config.task}.{key}", folder, expected)
    if isinstance(config.custom_apis, str) and not os.path.isfile(config.custom_apis):
        expected = "there is no such file; give the path of a YAML file with module names and lists of API names"
        yield Problem("custom_apis", config.custom_apis, expected)
    if config.load and not os.path.isdir(config.load.path):
        expected = "there is no such directory; give the dump_path of the run that recorded the inputs"
        yield Problem("load.path", config.load.path, expected)
