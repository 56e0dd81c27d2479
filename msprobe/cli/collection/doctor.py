"""``msprobe doctor``: what is installed; with a configuration, why a dump is empty and what collecting costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from msprobe.cli.options.shared import shared
from msprobe.cli.options.types import FrameworkName

if TYPE_CHECKING:
    from msprobe.jobs.programs.estimate import Estimate

_EXIT_REASON = 1
_STEPS = 100
_SCALES = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


@click.command("doctor")
@click.argument("config", type=click.Path(), required=False)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.option("--world", type=click.IntRange(min=1), help="How many processes the job has.")
@shared("input_path", older=("--dump",), help="A dump to look at; default: the dump_path of CONFIG, where it exists.")
@shared(
    "framework",
    type=FrameworkName(),
    help="The framework of the program; default: that of the dump, or else what holds for all of them.",
)
@shared("run")
@click.option("--estimate", is_flag=True, help="Run COMMAND for a few steps and say what CONFIG costs it (PyTorch).")
@click.option(
    "--steps",
    "training_steps",
    type=click.IntRange(min=1),
    help="With --estimate: steps of the training; default: 100.",
)
@shared("model", help="With --estimate: class of the model; default: the first outermost module.")
@shared("json_path", help="With --estimate: write the result as JSON; - prints it, and only it.")
def command(config: str | None, command: tuple[str, ...], estimate: bool, **options: Any) -> int:
    """Explain why a dump taken with CONFIG is, or would be, empty or has less in it than expected.

    Without CONFIG: say what is installed (versions, the compiled kernel, optional packages) and what is wrong with it.

    One line per finding: a `reason` makes data missing for certain, a `note` is worth a look. Exit status: 0 when no
    reason was found, 1 when there is one, 2 when CONFIG cannot be opened.

    `msprobe doctor CONFIG --estimate -- python train.py` runs the program for six steps, without and with collecting,
    and says what a recorded step costs in seconds and bytes on each rank. Nothing that is recorded stays.
    """
    from msprobe.core.errors import InterfaceError

    measured = options.pop("training_steps"), options.pop("model"), options.pop("json_path")
    if config is None:
        if estimate or any(measured) or any(options.values()):
            raise InterfaceError("doctor: give the configuration that the options are about: msprobe doctor CONFIG ...")
        return _installation()
    if not estimate:
        if command or any(measured):
            raise InterfaceError("doctor: a program, --steps, --model and --json belong to --estimate; add it")
        return _examine(config, **options)
    if not command:
        raise InterfaceError("doctor --estimate: give the program behind --, as in: -- python train.py")
    return _estimate(config, command, *measured)


def _installation() -> int:
    from msprobe.setup_check.installation import installation_facts

    facts = installation_facts()
    for fact in facts:
        click.echo(f"{fact.name}: {fact.text}" if fact.right else f"{fact.name}: WRONG: {fact.text}")
    return 0 if all(fact.right for fact in facts) else _EXIT_REASON


def _examine(config: str, world: int | None, input_path: str | None, framework: str | None, run: str | None) -> int:
    from pathlib import Path

    from msprobe.analyze.doctor import examine

    findings = examine(config, world, None if input_path is None else Path(input_path), framework, run)
    for finding in findings:
        click.echo(str(finding))
    reasons = sum(finding.certain for finding in findings)
    if reasons:
        return _EXIT_REASON
    program = "a program that calls start(), runs the model and calls stop() and step() leaves data"
    click.echo(f"no reason found: {program}{', under what the notes say' if findings else ''}")
    return 0


def _estimate(
    config: str, command: tuple[str, ...], steps: int | None, model: str | None, json_path: str | None
) -> int:
    from pathlib import Path

    from msprobe.core.store.safe_files import make_folder, write_atomic
    from msprobe.jobs.programs.estimate import estimate

    result = estimate(config, command, steps or _STEPS, model)
    text = result.model_dump_json(indent=2)
    if json_path == "-":
        click.echo(text)
        return 0
    _print(result)
    if json_path:
        make_folder(Path(json_path).absolute().parent)
        write_atomic(Path(json_path), [text.encode()])
    return 0


def _print(result: Estimate) -> None:
    for one in result.ranks:
        name = "the process" if one.rank is None else f"rank {one.rank}"
        share = one.added_step_s / one.bare_step_s if one.bare_step_s > 0 else 0.0
        click.echo(
            f"{name}: a step takes {one.bare_step_s:.4f} s, recorded {one.recorded_step_s:.4f} s ({share:+.0%}), the "
            f"first {one.first_step_s:.4f} s; {_size(one.step_bytes)} and {one.step_records} records per recorded step"
        )
    total = result.total
    where = f"{_size(total.disk_bytes)} on the disk"
    if total.memory_bytes:
        where = f"{_size(total.memory_bytes)} of memory on each rank, and nothing on the disk until there is a reason"
    recorded = f"{total.recorded_steps} of {total.steps} steps are recorded"
    click.echo(f"{recorded}: {total.added_s:.2f} s longer, {where}")
    if total.ends_at_step is not None:
        click.echo(f"{total.ended_by} ends collection in step {total.ends_at_step}")


def _size(count: int) -> str:
    for unit, factor in _SCALES:
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} bytes"
