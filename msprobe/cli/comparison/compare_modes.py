"""The modes of ``msprobe compare -m`` other than ``auto``: model files, and files of kernels.

offline_model            runs an .onnx file and compares it with a dump of its program, or with another one
offline_data, atb,       pair the tensor files of two folders by kernel and judge them: dumps of ACL, of ATB, and of
torchair                 TorchAir, both folders of one kind
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from msprobe.cli.options.offline import NAMES, offline_options, show_run

_SHOWN_DIFFERENCES = 20
_USED_BY_FILES = {"target_path", "golden_path", "output_path", "mode", "fail_on"}
_TAKEN_BY_COMPARE = ("policy", "xlsx", "html", "junit", "accept", "noise", "ignore_dtype")
_USED_BY_MODELS = _USED_BY_FILES | {"json_path", *_TAKEN_BY_COMPARE, *NAMES}


def is_failure(fail_on: str, *, good: bool, incomplete: bool) -> bool:
    """Return whether ``--fail-on`` ends the command with status 1; ``good`` says that the verdict is ``same``."""
    return fail_on != "never" and (not good or (incomplete and fail_on == "incomplete"))


def refuse_offline_flags(options: dict[str, Any]) -> None:
    """Remove the flags of ``-m offline_model`` from the options of another mode.

    Raises:
        UsageError: one of them was given.
    """
    given = [name for name in NAMES if options.pop(name) not in (None, "false")]
    if given:
        raise click.UsageError(f"--{given[0]} belongs to -m offline_model, which runs model files; give that mode too")


def tell_unused(why: str, options: Iterable[str]) -> None:
    """Warn of options that were given and have no effect; ``why`` says why not."""
    flags = sorted({f"--{name.removesuffix('_path')}" for name in options})
    if flags:
        from msprobe.core.log import logger

        logger.warning("%s, so this is not used: %s", why, ", ".join(flags))


def _given_options() -> set[str]:
    """Return the keywords of the options of this command that stand on the command line."""
    context = click.get_current_context()
    return {name for name in context.params if context.get_parameter_source(name) is ParameterSource.COMMANDLINE}


def compare_in_mode(mode: str, paths: tuple[str, str, str], options: dict[str, Any]) -> int:
    """Compare in a mode other than ``auto`` and return the exit status."""
    target, golden, output = map(Path, paths)
    if mode == "offline_model":
        tell_unused("a model file is compared whole", _given_options() - _USED_BY_MODELS)
        return _compare_model(target, golden, output, options)
    refuse_offline_flags(options)
    tell_unused("files of kernels have a table of their own", _given_options() - _USED_BY_FILES)
    return _compare_files(target, golden, output, options["fail_on"])


def _compare_model(target: Path, golden: Path, output: Path, options: dict[str, Any]) -> int:
    from msprobe.jobs.model_files.compare_model import compare_model
    from msprobe.report.summary_text import summary_json, summary_text, write_summary

    further = {name: options[name] for name in _TAKEN_BY_COMPARE}
    chosen = offline_options({**options, "rank": 0})
    comparison = compare_model(target, golden, output, chosen, **further)
    summary, json_path = comparison.result.summary, options["json_path"]
    if json_path == "-":
        click.echo(summary_json(summary))
    else:
        for run in comparison.runs:
            show_run(run)
        click.echo(summary_text(summary))
        if comparison.first_node:
            click.echo(f"First wrong node: {comparison.first_node}")
        if json_path is not None:
            write_summary(summary, Path(json_path))
    if summary.verdict == "not_comparable":
        from msprobe.cli.main import EXIT_NOT_COMPARABLE

        click.echo(f"msprobe: error: Not comparable: {summary.reason}", err=True)
        return EXIT_NOT_COMPARABLE
    failed = is_failure(options["fail_on"], good=summary.verdict == "same", incomplete=bool(summary.incomplete))
    return int(failed)


def _compare_files(target: Path, golden: Path, output: Path, fail_on: str) -> int:
    from msprobe.kernel_parse.compare import compare_kernels

    comparison = compare_kernels(target, golden, output)
    different = [row for row in comparison.rows if row[-2] != "pass"]
    for row in different[:_SHOWN_DIFFERENCES]:
        click.echo(f"{row[-2]}: {Path(row[1] or row[2]).name} {row[0]}: {row[-1]}")
    if len(different) > _SHOWN_DIFFERENCES:
        click.echo(f"... {len(different) - _SHOWN_DIFFERENCES} more in the table")
    click.echo(f"{len(comparison.rows)} tensors: {comparison.failed} differ or could not be compared")
    click.echo(f"Table: {comparison.table}")
    click.echo("Verdict: DIVERGED" if different else "Verdict: SAME")
    return int(is_failure(fail_on, good=not different, incomplete=False))
