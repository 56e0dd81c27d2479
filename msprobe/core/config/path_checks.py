"""Check the directories and files that a configuration names, on this machine.

``load_config`` does not check that: its result is the same on every machine.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msprobe.core.config.load import UNNAMED, read_file
from msprobe.core.config.models import DumpConfig
from msprobe.core.config.rules import module_name_problems
from msprobe.core.errors import ABSENT, ConfigError, FileCheckException, MsprobeException, Problem, config_error


def path_problems(config: DumpConfig) -> tuple[Problem, ...]:
    """Return one problem for each input path that does not exist or cannot be used.

    Output folders are made when they are needed.
    """
    return tuple(_problems(config))


def require_paths(config: DumpConfig) -> None:
    """Check before a training starts that the input paths of a configuration can be used.

    Raises:
        FileCheckException: ``bench_path`` or ``custom_apis`` does not exist (code 3), or the latter cannot be used.
        ConfigError: another path does not exist, or the file of ``custom_apis`` holds something else.
    """
    if _is_file(config.custom_apis):
        listed_apis(config.custom_apis)
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
        if folder and not Path(folder).is_dir():
            yield Problem(f"{config.task}.{key}", folder, expected)
    if isinstance(config.custom_apis, str):
        yield from _file_problems(config.custom_apis)
    if config.load and not Path(config.load.path).is_dir():
        expected = "there is no such directory; give the dump_path of the run that recorded the inputs"
        yield Problem("load.path", config.load.path, expected)


def _file_problems(custom_apis: str) -> Iterator[Problem]:
    if not _is_file(custom_apis):
        expected = "there is no such file; give the path of a YAML file with module names and lists of API names"
        yield Problem("custom_apis", custom_apis, expected)
        return
    try:
        listed_apis(custom_apis)
    except MsprobeException as error:
        yield Problem("custom_apis", ABSENT, error.error_info.removeprefix("custom_apis: ").replace("\n", "; "))


def _is_file(custom_apis: object) -> bool:
    return isinstance(custom_apis, str) and Path(custom_apis).is_file()


def listed_apis(custom_apis: Any) -> Mapping[str, tuple[str, ...]]:
    """Return the names of APIs by module, read from a file where the configuration gives a path.

    Raises:
        ConfigError: the file does not map module names to lists of API names.
        FileCheckException: the file cannot be used.
    """
    if custom_apis is None or isinstance(custom_apis, Mapping):
        return custom_apis or {}
    try:
        written = read_file(Path(custom_apis), least='{"package.module": ["function"]}').raw
    except FileCheckException as error:
        raise FileCheckException(error.code, f"custom_apis: {error.error_info}") from None
    for key, names in written.items():
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ConfigError(
                [Problem(str(key), names, 'must be a list of API names, such as ["attention"]')], custom_apis
            )
    if problems := module_name_problems("", written):
        raise ConfigError(problems, custom_apis)
    return {key: tuple(names) for key, names in written.items()}
