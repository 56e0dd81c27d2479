"""Explain why a dump is, or would be, empty: what a configuration excludes, and what a dump on disk shows.

    for finding in examine("config.json", world=2, dump=None):
        print(finding)                     # reason: rank asks for 4, 5; a job of 2 processes has ranks 0 to 1

A *reason* makes data missing for certain; a *note* is something the program has to do, or a filter that may be meant.

Find names of a configuration that no entry of a dump has, each with the entries that look most like it.
"""

from __future__ import annotations

import difflib
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from msprobe.core.backend.support import FRAMEWORKS, refusals, supports_of
from msprobe.core.config import TASKS, ConfigSource, DumpConfig, check_config
from msprobe.core.config.path_checks import path_problems
from msprobe.core.errors import ConfigError, ReadError
from msprobe.core.selection import describe_filters, name_test, uses_risk_level
from msprobe.core.store.layout import CONSTRUCT, ERRORS, STACK
from msprobe.core.store.reader import Dump, find_dumps, load_dump

_SUGGESTIONS = 3


def missing_names(config: DumpConfig, dumps: Sequence[Dump]) -> Iterator[tuple[str, str, list[str]]]:
    """Yield ``(key, name, nearest entries)`` for each item of ``list``, ``scope`` and ``tensor_list`` without a match.

    Names are compared with the recorded entries and with those in the call stacks and module trees. Dumps that hold no
    name at all yield nothing.
    """
    entries = {name for dump in dumps for name in (*dump.data, *dump.stacks, *dump.construct)}
    if not entries:
        return
    section = config.section
    for key, names in (("list", section.names), ("scope", section.scope), ("tensor_list", section.tensor_list)):
        for name in names:
            test = name_test([name])
            if test is not None and not any(map(test, entries)):
                yield key, name, _nearest_entries(name, entries)


def _nearest_entries(name: str, entries: set[str]) -> list[str]:
    close = difflib.get_close_matches(name, entries, n=_SUGGESTIONS, cutoff=0.6)
    if close:
        return close
    parts = sorted({part for entry in entries for part in entry.split(".") if not part.isdigit()})
    similar_parts = difflib.get_close_matches(name, parts, n=_SUGGESTIONS, cutoff=0.75)  # the name may be a fragment
    if similar_parts:
        return similar_parts
    words = {word.lower() for word in name.split(".") if not word.isdigit()} - {"forward", "backward", "module"}
    return sorted(entry for entry in entries if words & set(entry.lower().split(".")))[:_SUGGESTIONS]


_LISTED_NUMBERS = 8
_APIS = ("Functional.", "Torch.", "Tensor.", "Mint.", "MintFunctional.", "Primitive.")
_NUMBER_LIMIT = 1000
_ONLY_FINDINGS = frozenset(name for name, spec in TASKS.items() if spec.only_findings)
_WITHOUT_BODIES = frozenset(name for name, spec in TASKS.items() if not spec.bodies)


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the answer. ``certain`` is true for a reason and false for a note."""

    certain: bool
    text: str

    def __str__(self) -> str:
        return f"{'reason' if self.certain else 'note'}: {self.text}"


def examine(
    source: ConfigSource,
    world: int | None = None,
    dump: Path | None = None,
    framework: str | None = None,
    run: str | None = None,
) -> list[Finding]:
    """Return what keeps data out of a dump; the reasons come first.

    Args:
        source: the configuration.
        world: the number of processes of the job; None when it is not known.
        dump: the dump to look at; None takes the folder of the configuration where it exists.
        framework: a name in ``FRAMEWORKS``; None takes the framework of the dump, or else reports what holds for all.
        run: the run to look at where the dump holds several, by number; None for the newest.

    Raises:
        FileCheckException: the configuration cannot be opened.
    """
    try:
        report = check_config(source)
    except ConfigError as error:
        return [_reason(str(problem)) for problem in error.problems]
    findings = [_note(warning) for warning in report.warnings]
    if report.config is None:
        return [*(_reason(str(problem)) for problem in report.problems), *findings]
    config = report.config
    findings.extend(_reason(str(problem)) for problem in path_problems(config))
    folder = dump if dump is not None else Path(config.dump_path)
    has_folder = dump is not None or folder.is_dir()
    frameworks = _frameworks(framework, folder if has_folder else None, run)
    checks = (
        _support(config, frameworks),
        _ranks(config, world),
        _switches(config),
        _filters(config),
        _risk_level(config, frameworks),
        _direction(config),
        _writable(config),
    )
    for check in checks:
        findings.extend(check)
    if has_folder:
        findings.extend(_on_disk(config, folder, run))
    return sorted(findings, key=lambda finding: not finding.certain)


def _frameworks(framework: str | None, folder: Path | None, run: str | None) -> Sequence[str]:
    """Return the names of the frameworks that may be meant: one when it is known, else all."""
    if framework is None and folder is not None:
        framework = _framework_of(folder, run)
    supports = supports_of(framework)
    return (supports[0].framework,) if supports else FRAMEWORKS


def _framework_of(folder: Path, run: str | None) -> str | None:
    """Return the framework that the header of the dump in ``folder`` names; None when there is no dump."""
    try:
        return load_dump(find_dumps(folder, run)[0]).framework
    except ReadError:
        return None


def _support(config: DumpConfig, frameworks: Sequence[str]) -> Iterator[Finding]:
    """Yield a reason for what no framework that may be meant can do, and a note for what some cannot."""
    refused = refusals(config, frameworks)
    if note := config.task_spec.no_collection:
        yield _reason(f"task {config.task}: {note}")
    if len(refused) == len(frameworks):
        yield from (_reason(str(problem)) for problem in refused[frameworks[0]])
        return
    for framework, problems in refused.items():
        yield from (_note(f"not on {framework}: {problem}") for problem in problems)


def _ranks(config: DumpConfig, world: int | None) -> Iterator[Finding]:
    if not config.rank:
        return
    ranks = list(islice(config.rank, _NUMBER_LIMIT))
    shown = _number_list(ranks)
    if world is None:
        yield _note(
            f"rank asks for {shown}: a process outside of a distributed job has no rank and collects nothing "
            "(leave rank empty, or pass start(rank_id=...)); --world N checks the numbers"
        )
    elif not any(rank < world for rank in ranks):
        yield _reason(f"rank asks for {shown}; a job of {world} processes has ranks 0 to {world - 1}")
    elif config.rank.last >= world:
        missing = _number_list([rank for rank in ranks if rank >= world])
        yield _note(f"rank asks also for {missing}, which a job of {world} processes does not have")


def _switches(config: DumpConfig) -> Iterator[Finding]:
    if config.dump_enable is False:
        yield _reason("dump_enable is false: nothing is collected until the file says true")
    if config.load_only:
        yield _reason("load without dump_after_load only feeds inputs; nothing is collected")
    if config.step:
        shown = _number_list(list(islice(config.step, _NUMBER_LIMIT)))
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


def _filters(config: DumpConfig) -> Iterator[Finding]:
    for key, names in (("list", config.section.names), ("scope", config.section.scope)):
        for name in names:
            if config.level == "L1" and name.startswith(("Module.", "Cell.")):
                yield _reason(f"{key} has {name!r}, a module; level L1 records APIs only (use L0 or mix)")
            if config.level == "L0" and name.startswith(_APIS):
                yield _reason(f"{key} has {name!r}, an API; level L0 records modules only (use L1 or mix)")


def _risk_level(config: DumpConfig, frameworks: Sequence[str]) -> Iterator[Finding]:
    if not uses_risk_level(config) or config.risk_level == "ALL":
        return
    ranked = [name for name in frameworks if "risk_level" not in supports_of(name)[0].ignored]
    where = "" if len(ranked) == len(frameworks) else f" on {' and '.join(ranked)}"
    if ranked:
        effect = f"risk_level {config.risk_level} leaves out APIs of lower risk{where}"
        yield _note(f"{effect}; risk_level ALL records every one")
    elif config.risk_level == "CORE":
        yield _note(f"risk_level has no effect on {frameworks[0]}, whose functions are not ranked: all are recorded")


def _direction(config: DumpConfig) -> Iterator[Finding]:
    if "forward" not in config.section.data_mode and "backward" in config.section.data_mode:
        yield _note("data_mode has no forward: only calls that a backward pass reaches leave data")


def _writable(config: DumpConfig) -> Iterator[Finding]:
    folder = Path(config.dump_path).absolute()
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir():
        yield _reason(f"dump_path {config.dump_path}: {folder} is a file, not a folder")
        return
    try:
        os.rmdir(tempfile.mkdtemp(dir=folder))  # permissions are not enough: some file systems accept no new folder
    except OSError as error:
        yield _reason(f"dump_path {config.dump_path}: no folder can be made in {folder} ({error.strerror})")


def _on_disk(config: DumpConfig, folder: Path, run: str | None) -> Iterator[Finding]:
    try:
        locations = find_dumps(folder, run)
    except ReadError as error:
        yield _reason(
            f"{error.error_info}; no start() took effect there: the program never got to one, or in no wanted step"
        )
        return
    dumps: list[Dump] = []
    for location in locations:
        try:
            dumps.append(load_dump(location))
        except ReadError as error:
            yield _reason(error.error_info)
    for dump in dumps:
        yield from _state(dump, config)
    yield from _expected(config, dumps)
    for key, name, nearest in missing_names(config, dumps):
        hint = f"; near it: {', '.join(nearest)}" if nearest else ""
        yield _reason(f"{key} has {name!r}, but no entry of the dump has this name{hint}")


def _state(dump: Dump, config: DumpConfig) -> Iterator[Finding]:
    folder = dump.place.document.parent
    if not dump.data and dump.task in _ONLY_FINDINGS:
        yield _note(f"{folder} is empty: task {dump.task} records only calls that it finds, and it found none")
    elif not dump.data and dump.task not in _WITHOUT_BODIES:
        yield _reason(f"{folder} is empty: {_why_empty(dump, config)}")
    if dump.recovered:
        yield _note(
            f"{folder} has a journal: its process is still running, or ended without step() (its records are read)"
        )
    if dump.data and dump.level in ("L0", "mix") and not dump.construct:
        why = "extra_info was false" if not (folder / STACK).is_file() else f"{CONSTRUCT} is missing or empty"
        yield _note(f"{folder} has no module tree ({why}): the hierarchy of its calls cannot be shown")
    if (folder / ERRORS).is_file():
        yield _note(f"{folder / ERRORS} lists calls that could not be recorded")


def _why_empty(dump: Dump, config: DumpConfig) -> str:
    """Return what the dump says about it; dumps of older versions and of other tools say nothing."""
    recorded = dump.header.get("why_empty")
    if isinstance(recorded, str) and recorded:
        return recorded
    filters = describe_filters(config)
    return (
        f"between start() and stop() no call passed {filters}"
        if filters
        else "between start() and stop() no call was recorded"
    )


def _expected(config: DumpConfig, dumps: list[Dump]) -> Iterator[Finding]:
    """Yield the ranks and steps that the configuration selects and the dump does not have."""
    ranks = {dump.place.number for dump in dumps if dump.place.kind == "rank" and dump.place.number is not None}
    steps = {dump.place.step for dump in dumps if dump.place.step is not None}
    absent = [rank for rank in islice(config.rank, _NUMBER_LIMIT) if ranks and rank not in ranks]
    if absent:
        yield _reason(
            f"there is no data of rank {_number_list(absent)}; the dump has rank {_number_list(sorted(ranks))}"
        )
    absent = [step for step in islice(config.step, _NUMBER_LIMIT) if steps and step not in steps]
    if absent:
        text = f"there is no data of step {_number_list(absent)}; the dump has step {_number_list(sorted(steps))}"
        yield Finding(certain=not any(step in config.step for step in steps), text=text)


def _number_list(numbers: list[int]) -> str:
    more = f" and {len(numbers) - _LISTED_NUMBERS} more" if len(numbers) > _LISTED_NUMBERS else ""
    return ", ".join(map(str, numbers[:_LISTED_NUMBERS])) + more


def _reason(text: str) -> Finding:
    return Finding(True, text)


def _note(text: str) -> Finding:
    return Finding(False, text)
