"""``msprobe acc_check`` and ``multi_acc_check`` (older names ``run_ut``, ``multi_run_ut``): single calls again."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import click

from msprobe.cli.checks.options import API_INFO, TIMEOUT
from msprobe.cli.main import EXIT_NOT_COMPARABLE
from msprobe.cli.options.inputs import SeveralWords, inputs
from msprobe.cli.options.shared import shared
from msprobe.cli.options.types import OutputFile, OutputFolder

if TYPE_CHECKING:
    from msprobe.jobs.precheck import Request
    from msprobe.precheck.outcome import PrecheckResult

_FAILED = 1
_MOST_SHOWN = 10
_FAILING = {"never": (), "error": ("error", "not_checked"), "warning": ("error", "warning", "not_checked")}


def _is_device(word: str) -> bool:
    """Return whether a word is a device and no path: a number, with or without a name, or nothing that exists."""
    return word.rpartition(":")[2].isdecimal() or not os.path.lexists(word)


class _SeveralDevices(SeveralWords):
    belongs: ClassVar = dict.fromkeys(("-d", "--device"), _is_device)


def _flags(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that both commands have."""
    options = (
        inputs(api_info="DUMP"),
        API_INFO,
        shared("output_path", default="./", type=OutputFolder(), older=("--out_path",), help="Folder for the tables."),
        click.option(
            "-d", "--device", "devices", multiple=True, metavar="DEVICE",
            help="Device under test: a name (cpu, cuda:0, npu:1) or a number, or several of them. "
            "Default: the best of this machine.",
        ),
        click.option(
            "-save_error_data", "--save-error-data", "save", is_flag=True, help="Keep the tensors of calls that fail."
        ),
        click.option(
            "-csv_path", "--result_csv_path", "--csv-path", "resume", metavar="FILE", type=click.Path(),
            help="Go on with the result table of an earlier run.",
        ),
        click.option(
            "-f", "--filter_api", "--filter-api", "one_of_a_kind", is_flag=True,
            help="Of calls that differ in values only, check the first.",
        ),
        shared(
            "config", short=False, metavar="FILE",
            help="A config.json or config.yaml with white_list, black_list, error_data_path, precision.",
        ),
        click.option("-j", "--jit_compile", "--jit-compile", "jit", is_flag=True, help="Compile operators (NPU only)."),
        shared("policy", help="Who judges: rounding and condition of the call, or the published first stage."),
        click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of drawn inputs."),
        TIMEOUT,
        click.option(
            "--custom", multiple=True, metavar="PREFIX=MODULE",
            help="Module of your own functions that were recorded under a prefix; it is imported.",
        ),
        shared("json_path"),
        shared("html", type=OutputFile(), help="Also write one HTML report that works offline."),
        shared("junit", type=OutputFile(), help="Also write the calls as JUnit XML, for CI systems."),
        shared(
            "fail_on", type=click.Choice(list(_FAILING)),
            help="When to end with exit status 1: for calls with an error, or also with a warning.",
        ),
    )  # fmt: skip
    for option in reversed(options):
        function = option(function)
    return function


@click.command("acc_check", cls=_SeveralDevices)
@_flags
def command(**options: Any) -> int:
    """Run every recorded call again on a device, and judge its results against the same call in float64.

    The dump holds statistics (inputs are drawn that have them) or tensors. Exit status: 0 done, 1 found (with
    --fail-on), 2 wrong usage or unreadable input, 3 nothing to check.
    """
    return _run(options, workers=1)


@click.command("multi_acc_check", cls=_SeveralDevices)
@_flags
@click.option(
    "-n", "--num_splits", "--num-splits", "workers", type=click.IntRange(1, 64), default=8, show_default=True,
    help="Processes that check calls at a time.",
)  # fmt: skip
def multi_command(workers: int, **options: Any) -> int:
    """Do what acc_check does, in several processes; several devices take turns."""
    return _run(options, workers)


run_ut = _SeveralDevices("run_ut", callback=command.callback, params=command.params, help=command.help)
multi_run_ut = _SeveralDevices(
    "multi_run_ut", callback=multi_command.callback, params=multi_command.params, help=multi_command.help
)


def _run(options: dict[str, Any], workers: int) -> int:
    from msprobe.jobs.precheck import precheck
    from msprobe.jobs.progress import progress_bar

    if options["html"]:
        from msprobe.report.html.page import load_library

        load_library()
    quiet = options["json_path"] == "-"
    request = _request(options, workers)
    with progress_bar("checking", "calls", quiet=quiet) as show:
        result = precheck(request, show)
    _write(options, result)
    if not quiet:
        _print(result)
    if result.verdict == "not_checked":
        click.echo("msprobe: error: no recorded call could be checked; the table says why", err=True)
        return EXIT_NOT_COMPARABLE
    return _FAILED if result.verdict in _FAILING[options["fail_on"]] else 0


def _write(options: dict[str, Any], result: PrecheckResult) -> None:
    from msprobe.precheck.result_documents import json_document, write_json, write_junit

    if options["junit"]:
        write_junit(Path(options["junit"]), result)
    if options["html"]:
        from msprobe.precheck.page import write_page

        write_page(Path(options["html"]), result)
    if options["json_path"] == "-":
        click.echo(json_document(result))
    elif options["json_path"]:
        write_json(Path(options["json_path"]), result)


def _request(options: dict[str, Any], workers: int) -> Request:
    from msprobe.core.log import logger
    from msprobe.jobs.precheck import Request
    from msprobe.jobs.precheck_work import BEST_DEVICE
    from msprobe.precheck.chosen_cases import Selection
    from msprobe.precheck.settings import CheckSettings, read_config

    config = read_config(Path(options["config"]) if options["config"] else None)
    if options["jit"]:
        logger.warning("-j compiles operators on an NPU; it does nothing here")
    devices = tuple(name for given in options["devices"] for name in given.replace(",", " ").split())
    return Request(
        Path(options["api_info"]),
        Path(options["output_path"]),
        CheckSettings(
            BEST_DEVICE,
            options["policy"],
            options["seed"],
            config.quantization_api_list,
            digits=config.precision,
            custom=_custom(options["custom"]),
        ),
        Selection(config.white_list, config.black_list, one_of_a_kind=options["one_of_a_kind"]),
        devices,
        workers,
        options["timeout"],
        Path(options["resume"]) if options["resume"] else None,
        _error_data_folder(options, config.error_data_path),
    )


def _custom(given: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Return prefix and module of each ``PREFIX=MODULE``; a module alone is its own prefix."""
    pairs = tuple((prefix, module or prefix) for prefix, _, module in (each.partition("=") for each in given))
    if not all(prefix for prefix, _ in pairs):
        raise click.UsageError("--custom needs PREFIX=MODULE, such as Lib=package.module")
    return pairs


def _error_data_folder(options: dict[str, Any], configured: str) -> Path | None:
    if not options["save"]:
        return None
    return Path(options["output_path"] if configured == "./" else configured)


def _print(result: PrecheckResult) -> None:
    """Print the calls that do not pass, each with its line of source, and how many of each status there are."""
    wrong = result.failing
    for call in wrong[:_MOST_SHOWN]:
        click.echo(f"{call.status}: {call.name}: {call.message}")
        if line := result.source_of(call):
            click.echo(f"  source: {line}")
    if len(wrong) > _MOST_SHOWN:
        click.echo(f"... and {len(wrong) - _MOST_SHOWN} more in the table")
    counts = ", ".join(f"{number} {status}" for status, number in sorted(result.counts.items()))
    before = f" ({len(result.resumed)} were in the table before)" if result.resumed else ""
    click.echo(f"Checked {len(result.calls)} calls on {result.device}: {counts or 'none'}{before}")
    click.echo(f"Result: {result.tables.result}")
    click.echo(f"Details: {result.tables.details}")
