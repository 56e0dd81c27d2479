"""Why a dump is, or would be, empty: what a configuration excludes, and what a dump on disk shows.

    for finding in examine("config.json", world=2, dump=None):
        print(finding)                     # reason: rank asks for 4, 5; a job of 2 processes has ranks 0 to 1

A *reason* makes data missing for certain; a *note* is something the program has to do, or a filter that may be meant.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from msprobe.analyze.missing_names import missing_names
from msprobe.core.backend.support import MINDSPORE, MSADAPTER, PYTORCH, Support, check_support
from msprobe.core.config import ConfigSource, DumpConfig, check_config
from msprobe.core.config.places import place_problems
from msprobe.core.errors import ConfigError, ReadError
from msprobe.core.selection.build import uses_risk_level
from msprobe.core.store.layout import CONSTRUCT, ERRORS, STACK
from msprobe.core.store.reader import Dump, find_dumps, load_dump

_SHOWN = 8
_APIS = ("Functional.", "Torch.", "Tensor.", "Mint.", "MintFunctional.", "Primitive.")
_LOOKED_AT = 1000
_ONLY_GUILTY = ("overflow_check", "exception_dump")
_FRAMEWORKS = {"pytorch": PYTORCH, "mindspore": MINDSPORE, "msadapter": MSADAPTER, "mindtorch": MSADAPTER}


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the answer. ``certain`` tells a reason from a note."""

    certain: bool
    text: str

    def __str__(self) -> str:
        return f"{'reason' if self.certain else 'note'}: {self.text}"


def examine(
    source: ConfigSource, world: int | None = None, dump: Path | None = None, framework: str | None = None
) -> list[Finding]:
    """What keeps data out, for a job of ``world`` processes and the dump at ``dump``.

    Without ``dump`` the folder of the configuration is looked at where it exists, and without ``framework`` (pytorch,
    mindspore or msadapter) what holds for the one that the dump was taken with, or else for all.

    Raises:
        FileCheckException: the configuration cannot be opened.
    """
    try:
        report = check_config(source)
    except ConfigError as error:
        return [_reason(str(problem)) for problem in error.problems]
    found = [_note(warning) for warning in report.warnings]
    if report.config is None:
        return [*(_reason(str(problem)) for problem in report.problems), *found]
    config = report.config
    found.extend(_reason(str(problem)) for problem in place_problems(config))
    folder = dump if dump is not None else Path(config.dump_path)
    looked = dump is not None or folder.is_dir()
    supports = _supports(framework, folder if looked else None)
    for part in (_support(config, supports), _ranks(config, world), _switches(config), _filters(config, supports)):
        found.extend(part)
    found.extend(_place(config))
    if looked:
        found.extend(_on_disk(config, folder))
    return sorted(found, key=lambda finding: not finding.certain)


def _supports(framework: str | None, folder: Path | None) -> Sequence[Support]:
    """The frameworks that may be meant; one when it is known."""
    if framework is None and folder is not None:
        framework = _written_by(folder)
    known = _FRAMEWORKS.get(str(framework).lower())
    return tuple(_FRAMEWORKS[name] for name in ("pytorch", "mindspore", "msadapter")) if known is None else (known,)


def _written_by(folder: Path) -> str | None:
    """The framework of a dump at ``folder``, as its document says."""
    try:
        return load_dump(find_dumps(folder)[0]).framework
    except ReadError:
        return None


def _support(config: DumpConfig, supports: Sequence[Support]) -> Iterator[Finding]:
    """What no framework that may be meant can do; what some cannot is worth a note."""
    refused: dict[str, ConfigError] = {}
    for support in supports:
        try:
            check_support(config, support)
        except ConfigError as error:
            refused[support.framework] = error
    if len(refused) == len(supports):
        yield from (_reason(str(problem)) for problem in refused[supports[0].framework].problems)
        return
    for framework, refusal in refused.items():
        yield from (_note(f"not on {framework}: {problem}") for problem in refusal.problems)


def _ranks(config: DumpConfig, world: int | None) -> Iterator[Finding]:
    if not config.rank:
        return
    asked = list(islice(config.rank, _LOOKED_AT))
    shown = _some(asked)
    if world is None:
        yield _note(
            f"rank asks for {shown}: a process outside of a distributed job has no rank and collects nothing "
            "(leave rank empty, or pass start(rank_id=...)); --world N checks the numbers"
        )
    elif not any(rank < world for rank in asked):
        yield _reason(f"rank asks for {shown}; a job of {world} processes has ranks 0 to {world - 1}")
    elif config.rank.last >= world:
        over = _some([rank for rank in asked if rank >= world])
        yield _note(f"rank asks also for {over}, which a job of {world} processes does not have")


def _switches(config: DumpConfig) -> Iterator[Finding]:
    if config.dump_enable is False:
        yield _reason("dump_enable is false: nothing is collected until the file says true")
    if config.load_only:
        yield _reason("load without dump_after_load only feeds inputs; nothing is collected")
    if config.step:
        shown = _some(list(islice(config.step, _LOOKED_AT)))
        yield _note(f"step asks for {shown}: steps are counted by calls of step(), from 0")
    if config.level in ("L0", "mix"):
        yield _note(f"level {config.level} records modules of the model given to start(model=...) only")
    if config.level == "debug":
        yield _note("level debug records nothing but the values given to save()")
    if config.section.request_id:
        absent = "" if Path(config.dump_path).is_dir() else f"; nothing is at {config.dump_path}: none had it so far"
        yield _note(
            f"request_id: only steps whose start(scheduled_tokens=...) has {config.section.request_id!r}{absent}"
        )


def _filters(config: DumpConfig, supports: Sequence[Support]) -> Iterator[Finding]:
    section = config.section
    for key, names in (("list", section.names), ("scope", section.scope)):
        for name in names:
            module = name.startswith(("Module.", "Cell."))
            if config.level == "L1" and module:
                yield _reason(f"{key} has {name!r}, a module; level L1 records APIs only (use L0 or mix)")
            if config.level == "L0" and name.startswith(_APIS):
                yield _reason(f"{key} has {name!r}, an API; level L0 records modules only (use L1 or mix)")
    if uses_risk_level(config) and config.risk_level != "ALL":
        ranked = [support.framework for support in supports if "risk_level" not in support.ignored]
        where = "" if len(ranked) == len(supports) else f" on {' and '.join(ranked)}"
        if ranked:
            left = f"risk_level {config.risk_level} leaves out APIs of lower risk{where}"
            yield _note(f"{left}; risk_level ALL records every one")
        if len(ranked) < len(supports) == 1 and config.risk_level == "CORE":
            yield _note("risk_level has no effect on mindspore, whose functions are not ranked: all are recorded")
    if section.data_mode and "forward" not in section.data_mode and "backward" in section.data_mode:
        yield _note("data_mode has no forward: only calls that a backward pass reaches leave data")


def _place(config: DumpConfig) -> Iterator[Finding]:
    folder = Path(config.dump_path).absolute()
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir():
        yield _reason(f"dump_path {config.dump_path}: {folder} is a file, not a folder")
        return
    try:
        os.rmdir(tempfile.mkdtemp(dir=folder))  # permissions alone do not tell: some file systems take no folders
    except OSError as error:
        yield _reason(f"dump_path {config.dump_path}: no folder can be made in {folder} ({error.strerror})")


def _on_disk(config: DumpConfig, folder: Path) -> Iterator[Finding]:
    try:
        places = find_dumps(folder)
    except ReadError as error:
        yield _reason(
            f"{error.error_info}; no start() took effect there: the program never got to one, or in no wanted step"
        )
        return
    dumps: list[Dump] = []
    for place in places:
        try:
            dumps.append(load_dump(place))
        except ReadError as error:
            yield _reason(error.error_info)
    for dump in dumps:
        yield from _state(dump)
    yield from _expected(config, dumps)
    for key, name, nearest in missing_names(config, dumps):
        hint = f"; near it: {', '.join(nearest)}" if nearest else ""
        yield _reason(f"{key} has {name!r}, but no entry of the dump is called so{hint}")


def _state(dump: Dump) -> Iterator[Finding]:
    folder = dump.place.document.parent
    if not dump.data and dump.task in _ONLY_GUILTY:
        yield _note(f"{folder} is empty: task {dump.task} records only calls that it finds, and it found none")
    elif not dump.data and dump.task != "structure":
        yield _reason(f"{folder} is empty: between start() and stop() no call passed the filters")
    if dump.recovered:
        yield _note(
            f"{folder} has a journal: its process is still running, or ended without step() (its records are read)"
        )
    if dump.data and dump.level in ("L0", "mix") and not dump.construct:
        why = "extra_info was false" if not (folder / STACK).is_file() else f"{CONSTRUCT} is missing or empty"
        yield _note(f"{folder} has no module tree ({why}): the hierarchy of its calls cannot be shown")
    if (folder / ERRORS).is_file():
        yield _note(f"{folder / ERRORS} tells of calls that could not be recorded")


def _expected(config: DumpConfig, dumps: list[Dump]) -> Iterator[Finding]:
    """Ranks and steps that were asked for and are not there."""
    ranks = {dump.place.number for dump in dumps if dump.place.kind == "rank" and dump.place.number is not None}
    steps = {dump.place.step for dump in dumps if dump.place.step is not None}
    absent = [rank for rank in islice(config.rank, _LOOKED_AT) if ranks and rank not in ranks]
    if absent:
        yield _reason(f"there is no data of rank {_some(absent)}; the dump has rank {_some(sorted(ranks))}")
    absent = [step for step in islice(config.step, _LOOKED_AT) if steps and step not in steps]
    if absent:
        text = f"there is no data of step {_some(absent)}; the dump has step {_some(sorted(steps))}"
        yield Finding(certain=not any(step in config.step for step in steps), text=text)


def _some(numbers: list[int]) -> str:
    more = f" and {len(numbers) - _SHOWN} more" if len(numbers) > _SHOWN else ""
    return ", ".join(map(str, numbers[:_SHOWN])) + more


def _reason(text: str) -> Finding:
    return Finding(True, text)


def _note(text: str) -> Finding:
    return Finding(False, text)
