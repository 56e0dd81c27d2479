"""Check that the directories and files that a configuration names exist on this machine.

``load_config`` does not check that: its result is the same on every machine.
"""

import os
from collections.abc import Iterator

from msprobe.core.config.load import UNNAMED
from msprobe.core.config.models import DumpConfig
from msprobe.core.errors import FileCheckException, Problem, config_error


def path_problems(config: DumpConfig) -> tuple[Problem, ...]:
    """Return one problem for each input path that does not exist. Output folders are made when they are needed."""
    return tuple(_problems(config))


def require_paths(config: DumpConfig) -> None:
    """Check before a training starts that the input paths of a configuration exist.

    Raises:
        FileCheckException: ``bench_path`` or ``custom_apis`` does not exist (code 3).
        ConfigError: another path does not exist.
    """
    problems = path_problems(config)
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
