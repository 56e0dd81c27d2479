"""What a configuration costs in a program: seconds, bytes and records for each recorded step, of every rank.

The program runs for six steps (``core/dump/bounds/step_costs.py``): some without collecting, some with, in one process,
so that both meet the same machine. Everything that is written lies in a temporary folder, which is removed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from msprobe.core.config import DumpConfig, load_config
from msprobe.core.config.load import read_source
from msprobe.core.config.when_to_record import REASONS
from msprobe.core.dump.bounds.step_costs import BARE, STEPS, WARM
from msprobe.core.errors import InterfaceError
from msprobe.core.store.journal import dumps
from msprobe.core.store.reader import find_dumps, load_dump
from msprobe.jobs.programs.attached_program import AttachedProgram, attached_program
from msprobe.jobs.programs.launcher import Events

_END_SECONDS: Final = 10.0
_DUMP: Final = "dump"


class RankCosts(BaseModel):
    """What one process does."""

    model_config = ConfigDict(frozen=True)

    rank: int | None = Field(description="null for a process without a rank")
    bare_step_s: float = Field(description="seconds of the fastest step without collecting")
    recorded_step_s: float = Field(description="seconds of the fastest step with it")
    first_step_s: float = Field(description="seconds of the first recorded step, which prepares later ones")
    added_step_s: float = Field(description="what collecting adds to a step; below 0 it is lost in the noise")
    step_bytes: int = Field(description="bytes of the files of a recorded step; with `ring`, once it is written")
    step_records: int = Field(description="entries of dump.json")


class Totals(BaseModel):
    """What all processes do in a training of so many steps."""

    model_config = ConfigDict(frozen=True)

    steps: int = Field(description="steps of the training")
    recorded_steps: int = Field(description="those that the configuration selects")
    added_s: float = Field(description="seconds that the training takes longer: those of the slowest rank")
    disk_bytes: int = Field(description="bytes that all ranks write; 0 with `ring`, until there is a reason")
    memory_bytes: int = Field(description="with `ring`: bytes that the rank with most keeps in memory, else 0")
    ends_at_step: int | None = Field(description="the step in which a budget ends collection; null for none")
    ended_by: str | None = Field(description="the key of that budget: `disk_budget` or `time_budget`; null for none")


class Estimate(BaseModel):
    """The answer of `msprobe doctor CONFIG --estimate`."""

    model_config = ConfigDict(frozen=True)

    config: str
    command: list[str]
    measured_steps: int = Field(description="recorded steps that were measured, of each rank")
    ranks: list[RankCosts]
    total: Totals


def estimate_schema() -> dict[str, Any]:
    """Return the JSON Schema of the document."""
    return Estimate.model_json_schema()


def estimate(config: str, command: Sequence[str], steps: int, model: str | None) -> Estimate:
    """Run a program for a few steps, and return what collecting costs it.

    Args:
        config: the configuration, a file.
        command: the program with its arguments.
        steps: how many steps the training will have.
        model: the class of the model; None for the outermost module that is called first.

    Raises:
        InterfaceError: the program cannot be run, or makes too few steps.
        ConfigError, FileCheckException: the configuration is wrong.
    """
    settings = load_config(config)
    with tempfile.TemporaryDirectory(prefix="msprobe-estimate-") as folder:
        root = Path(folder)
        request = {"config": str(_dry_config(config, root)), "model": model, "measure": str(root / "figures")}
        (root / "figures").mkdir()
        output, events = root / "output.txt", root / "events.jsonl"
        program = attached_program(command, request, "doctor --estimate").with_events(events)
        status = _run(program, output)
        figures = [json.loads(path.read_bytes()) for path in sorted((root / "figures").glob("*.json"))]
        _check(figures, status, output, Events.read(events))
        ranks = [_costs(root / _DUMP, one) for one in sorted(figures, key=lambda one: one["rank"] or 0)]
        measured = min(len(one["seconds"]) for one in figures) - WARM - BARE
    total = _totals(settings, ranks, steps, len(ranks))
    return Estimate(config=config, command=list(command), measured_steps=measured, ranks=ranks, total=total)


def _dry_config(config: str, root: Path) -> Path:
    """Write the configuration of the dry run: every step is recorded, into a folder of its own, without a budget."""
    raw: dict[str, Any] = dict(read_source(config).raw)
    task = str(raw.get("task") or "statistics")
    section = dict(raw.get(task) or {})
    raw.update(dump_path=str(root / _DUMP), step=[])
    for key in ("disk_budget", "time_budget", "dump_enable", "enable_dataloader"):
        raw.pop(key, None)
    if isinstance(section.get("sample"), Mapping):
        section["sample"] = {**section["sample"], "every": 1}
    if isinstance(section.get("ring"), Mapping):
        section["ring"] = {**section["ring"], "steps": STEPS, "on": list(REASONS)}
    path = root / "config.json"
    path.write_bytes(dumps({**raw, task: section}))
    return path


def _run(program: AttachedProgram, output: Path) -> int:
    """Run the program and return its status; its processes end with this command."""
    with open(output, "wb") as file:
        process = subprocess.Popen(
            program.arguments,
            executable=program.executable,
            env=program.environment,
            stdout=file,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            return process.wait()
        except BaseException:
            _end(process)
            raise


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(_END_SECONDS)
    except (ProcessLookupError, subprocess.TimeoutExpired):
        process.kill()


def _check(figures: Sequence[Mapping[str, Any]], status: int, output: Path, events: Events) -> None:
    """Raise InterfaceError where the figures say too little."""
    fault = next((str(one["fault"]) for one in figures if one["fault"]), "")
    if fault:
        raise InterfaceError(f"doctor --estimate: {fault}")
    made = min((len(one["seconds"]) for one in figures), default=0)
    if made > WARM + BARE:
        return
    ended = f"the program ended with status {status}" if status else "the program ended"
    lines = [line for line in output.read_text("utf-8", "replace").splitlines() if line.strip()]
    last = ""
    if status and lines:
        last = f"; it said: {lines[-1].strip()[:300]}"
    elif not made:
        last = f": {events.why_nothing()}"
    raise InterfaceError(f"doctor --estimate: {ended} after {made} steps, and {STEPS} are needed{last}")


def _costs(dump: Path, figures: Mapping[str, Any]) -> RankCosts:
    seconds: list[float] = figures["seconds"]
    bare = min(seconds[WARM : WARM + BARE])
    first, *later = seconds[WARM + BARE :]
    recorded = min(later or [first])
    name = f"proc{figures['process']}" if figures["rank"] is None else f"rank{figures['rank']}"
    folders = sorted(dump.glob(f"step*/{name}")) or sorted(dump.glob("step*/proc" + str(figures["process"])))
    last = folders[-1] if folders else None
    return RankCosts(
        rank=figures["rank"],
        bare_step_s=bare,
        recorded_step_s=recorded,
        first_step_s=first,
        added_step_s=recorded - bare,
        step_bytes=0 if last is None else _bytes_below(last),
        step_records=0 if last is None else sum(len(load_dump(place).data) for place in find_dumps(last)),
    )


def _bytes_below(folder: Path) -> int:
    """Return the bytes of all files; several names of one file count once."""
    sizes = {(facts.st_dev, facts.st_ino): facts.st_size for facts in map(os.stat, folder.rglob("*"))}
    folders = {(facts.st_dev, facts.st_ino) for facts in map(os.stat, filter(Path.is_dir, folder.rglob("*")))}
    return sum(size for key, size in sizes.items() if key not in folders)


def _totals(config: DumpConfig, ranks: Sequence[RankCosts], steps: int, processes: int) -> Totals:
    every, ring = config.section.sampled.every, config.section.kept_steps
    chosen = [number for number in range(0, steps, every) if not config.step or number in config.step]
    largest = max(one.step_bytes for one in ranks)
    ends: dict[str, int] = {}  # how many of the chosen steps are recorded before the one in which a budget ends it
    if config.disk_budget is not None and ring is None and largest:
        ends["disk_budget"] = config.disk_budget // processes // largest
    if config.time_budget is not None:
        ends["time_budget"] = _within(config.time_budget, chosen, ranks)
    ended_by = min(ends, key=lambda key: ends[key], default=None)
    if ended_by is not None and ends[ended_by] >= len(chosen):
        ended_by = None
    ends_at = None if ended_by is None else chosen[ends[ended_by]]
    chosen = chosen if ended_by is None else chosen[: ends[ended_by] + 1]
    memory = 0 if ring is None else min((ring.steps + 1) * largest, ring.megabytes * 1_000_000)
    first = max(one.first_step_s - one.recorded_step_s for one in ranks) if chosen else 0.0
    return Totals(
        steps=steps,
        recorded_steps=len(chosen),
        added_s=max(max(one.added_step_s for one in ranks) * len(chosen) + first, 0.0),
        disk_bytes=0 if ring is not None else sum(one.step_bytes for one in ranks) * len(chosen),
        memory_bytes=memory,
        ends_at_step=ends_at,
        ended_by=ended_by,
    )


def _within(seconds: float, chosen: Sequence[int], ranks: Sequence[RankCosts]) -> int:
    """Return how many of the chosen steps end within these seconds from the beginning of the first one."""
    bare, added = max(one.bare_step_s for one in ranks), max(0.0, *(one.added_step_s for one in ranks))
    ends = ((number + 1 - chosen[0]) * bare + (place + 1) * added for place, number in enumerate(chosen))
    return sum(end <= seconds for end in ends)
