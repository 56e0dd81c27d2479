"""Do the directories and files that a configuration points to exist on this machine?

Kept apart from ``load_config``, which gives the same answer on every machine.
"""

from collections.abc import Iterator
from pathlib import Path

from msprobe.core.config.dump_config import DumpConfig
from msprobe.core.config.sections import AccCheckSection
from msprobe.core.errors import FileCheckException, Problem, config_error


def place_problems(config: DumpConfig) -> tuple[Problem, ...]:
    """One problem for each input place that is missing or not a directory. Output places are made when needed."""
    return tuple(_problems(config))


def require_places(config: DumpConfig) -> None:
    """To be called before a training starts.

    Raises FileCheckException code 3 for a missing ``bench_path`` and ConfigError for the other places.
    """
    problems = place_problems(config)
    bench = [problem for problem in problems if problem.path.endswith(".bench_path")]
    if bench:
        raise FileCheckException(FileCheckException.ILLEGAL_PATH_ERROR, str(bench[0]))
    if problems:
        raise config_error(problems, "config")


def _problems(config: DumpConfig) -> Iterator[Problem]:
    section = config.section
    if section.bench_path and not Path(section.bench_path).is_dir():
        expected = "there is no such directory; give the dump_path of the golden run"
        yield Problem(f"{config.task}.bench_path", section.bench_path, expected)
    if isinstance(section, AccCheckSection) and not Path(section.error_data_path).is_dir():
        expected = "there is no such directory; create it first"
        yield Problem("acc_check.error_data_path", section.error_data_path, expected)
    if config.load and not Path(config.load.path).is_dir():
        expected = "there is no such directory; give the dump_path of the run that recorded the inputs"
        yield Problem("load.path", config.load.path, expected)
