"""``msprobe compare``: compares two dumps and names the first operation that went wrong."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from msprobe.cli.comparison.compare_modes import compare_in_mode, is_failure, refuse_offline_flags, tell_unused
from msprobe.cli.main import EXIT_NOT_COMPARABLE
from msprobe.cli.options.inputs import inputs
from msprobe.cli.options.mapping import legacy_flags, mapping_flags, mapping_keywords, request_flags
from msprobe.cli.options.offline import model_flags
from msprobe.cli.options.shared import shared
from msprobe.cli.options.types import OutputFolder

if TYPE_CHECKING:
    from msprobe.compare.rows.summary import CompareSummary
    from msprobe.report.rank_outcome import PairOutcome

EXIT_DIVERGED = 1
_UNUSED_BY_DIFF_ANALYZE = ("xlsx", "html", "junit", "json_path", "noise", "config", "metrics", "log_items", "group_by")
_UNUSED_BY_SAVED_VALUES = (
    "html",
    "junit",
    "noise",
    "accept",
    "config",
    "metrics",
    "diff_analyze",
    "log_items",
    "group_by",
)


@click.command("compare")
@inputs(target_path="TARGET", golden_path="GOLDEN")
@shared("target_path", required=True)
@shared("golden_path", required=True)
@shared(
    "output_path",
    is_flag=False,
    flag_value="./output",
    default="./output",
    type=OutputFolder(),
    help="Folder for the result tables.",
)
@click.option("--xlsx", is_flag=True, help="Write the result tables as .xlsx instead of .csv.")
@shared("html", help="Also write one HTML report that works offline.")
@shared("junit", help="Also write the verdicts as JUnit XML, for CI systems.")
@shared("json_path")
@shared("policy", help="Whose rules fill Result and Err_message: those of msprobe or the published thresholds.")
@shared(
    "fail_on",
    type=click.Choice(["never", "diverged", "incomplete"]),
    help="When to end with exit status 1. diverged: for the verdicts diverged and incomplete; incomplete: also when a "
    "step, a rank, the rest of a run or a value was not compared.",
)
@shared("accept", help="Differences that are known and make no run diverged; msprobe accept writes them.")
@click.option("--noise", metavar="FILE", type=click.Path(), help="Judge by the spread that `msprobe noise` learned.")
@shared(
    "config",
    short=False,
    metavar="FILE",
    help="Multiply whole tensors with the matrices that this YAML names, before they are compared.",
)
@click.option(
    "--metrics",
    metavar="MODULE:FUNCTION",
    multiple=True,
    help="Add a column for whole tensors, made by this function (repeatable); also FILE.py:FUNCTION.",
)
@shared("executor", help="Where ranks are compared: auto, serial, processes[:N], dask://HOST:PORT, dask://local.")
@click.option(
    "-da",
    "--diff_analyze",
    "--diff-analyze",
    is_flag=True,
    help="Write per rank which calls agree, and the calls of the first difference of all ranks, as JSON; no table.",
)
@click.option(
    "--mask",
    metavar="NAME",
    help="Of two folders of SingleSave: compare token by token where this saved value is not 0.",
)
@click.option(
    "--computed-in",
    metavar="DTYPE",
    default="",
    help="With --mask: the type in which values were computed, where they are saved in a finer one (bfloat16).",
)
@click.option(
    "--group-by",
    type=click.Choice(["operator"]),
    help="Also count the rows that differ by what computes them: 40 rows may be one kernel.",
)
@shared("log_items")
@mapping_flags
@request_flags
@legacy_flags
@model_flags
def command(target_path: str, golden_path: str, output_path: str, **options: Any) -> int:
    """Compare two dumps and name the first divergence.

    TARGET and GOLDEN are each a dump.json, a rank or proc folder, a step folder, or a dump root with several steps; or
    the URL of one (s3://...). Or both are folders that SingleSave wrote.

    Exit status: 0 done, 1 diverged or incomplete (with --fail-on), 2 wrong usage or unreadable input, 3 not comparable.
    """
    mode = options.pop("mode")
    if mode != "auto":
        return compare_in_mode(mode, (target_path, golden_path, output_path), options)
    refuse_offline_flags(options)
    mask, computed_in = options.pop("mask"), options.pop("computed_in")
    if mask is not None or os.path.isdir(os.path.join(target_path, "data")):
        from msprobe.saved_values.folder import holds_saved_values

        if mask is not None or holds_saved_values(Path(target_path)):
            return _compare_saved((target_path, golden_path, output_path), mask, computed_in, options)
    if computed_in:
        raise click.UsageError("--computed-in is for folders of SingleSave; a dump says the type of each value")
    if options.pop("diff_analyze"):
        return _diff_analyze((target_path, golden_path, output_path), options)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy's idle threads would forbid a copy of this process
    from msprobe.compare.inputs.locations import local_file
    from msprobe.core.host import paused_gc

    json_path, fail_on = options.pop("json_path"), options.pop("fail_on")
    if json_path is not None:
        local_file(json_path, "json")
    with paused_gc():  # until the dumps are freed: a collection would walk millions of their objects for nothing
        from msprobe.jobs.compare import compare
        from msprobe.jobs.progress import progress_bar

        with progress_bar("comparing", "pairs", quiet=json_path == "-") as show:
            result = compare(target_path, golden_path, output=output_path, progress=show, **mapping_keywords(options))
        summary, outcomes = result.summary, result.outcomes
        del result
        gc.freeze()  # what is left stays until the process ends, which is soon
    _print_result(summary, outcomes, json_path)
    if summary.verdict == "not_comparable":
        click.echo(f"msprobe: error: Not comparable: {summary.reason}", err=True)
        return EXIT_NOT_COMPARABLE
    failed = is_failure(fail_on, good=summary.verdict == "same", incomplete=bool(summary.incomplete))
    return EXIT_DIVERGED if failed else 0


def _compare_saved(paths: tuple[str, str, str], mask: str | None, computed_in: str, options: dict[str, Any]) -> int:
    """Compare two folders of SingleSave; where a mask is given, values of its shape token by token."""
    from msprobe.compare.inputs.locations import local_file
    from msprobe.core.store.safe_files import make_folder, write_atomic
    from msprobe.saved_values.job import compare_saved

    tell_unused(
        "values of SingleSave have tables of their own (csv and xlsx)",
        (name for name in _UNUSED_BY_SAVED_VALUES if options[name]),
    )
    json_path = options["json_path"]
    file = None if json_path in (None, "-") else local_file(json_path, "json")
    summary = compare_saved(Path(paths[0]), Path(paths[1]), Path(paths[2]), mask, computed_in)
    if file is not None:
        make_folder(file.parent)
        write_atomic(file, [summary.json().encode()])
    click.echo(summary.json() if json_path == "-" else "\n".join(summary.text()))
    failed = is_failure(options["fail_on"], good=summary.verdict == "same", incomplete=bool(summary.incomplete))
    return EXIT_DIVERGED if failed else 0


def _diff_analyze(paths: tuple[str, str, str], options: dict[str, Any]) -> int:
    from msprobe.analyze.diff_analyze import diff_analyze
    from msprobe.compare.alignment.options import MappingKeywords
    from msprobe.jobs.compare_options import load_mapping_options

    tell_unused("-da writes documents of its own", (name for name in _UNUSED_BY_DIFF_ANALYZE if options[name]))
    keywords = mapping_keywords({name: options[name] for name in MappingKeywords.__annotations__ if name in options})
    result = diff_analyze(*paths, options["policy"], load_mapping_options(keywords), options["accept"])
    for line in result.lines:
        click.echo(line)
    if result.verdict == "not_comparable":
        return EXIT_NOT_COMPARABLE
    failed = is_failure(options["fail_on"], good=result.verdict == "same", incomplete=bool(result.incomplete))
    return EXIT_DIVERGED if failed else 0


def _print_result(summary: CompareSummary, outcomes: list[PairOutcome], json_path: str | None) -> None:
    from msprobe.cli.comparison.terminal import show_pairs
    from msprobe.report.summary_text import summary_json, summary_text, write_summary

    if json_path == "-":
        click.echo(summary_json(summary))
        return
    if json_path is not None:
        write_summary(summary, Path(json_path))
    show_pairs(outcomes)
    if summary.verdict != "not_comparable" or summary.results:
        click.echo(summary_text(summary))
    first = summary.first_divergence
    dump = next((each.target for each in outcomes if each.first_divergence == first), "")
    if first is not None and (command := first.script_command(dump)):
        click.echo(f"Run that call alone: {command}")
