"""``msprobe config_check``: collects and compares set-ups, compares checkpoints and settings in logs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import click

from msprobe.cli.options.asking import Asking, Missing
from msprobe.cli.options.shared import shared

_DIVERGED = 1
_ZIP = ".zip"
_MODES = ("dump", "compare", "verl_compare", "verl_verify", "slime_compare")


def _missing(given: Mapping[str, Any]) -> Missing | None:
    """Return what the command lacks: the second of two paths, or both."""
    few = len(given["files"]) < 2 and not any(given[name] for name in _MODES)
    return ("files", "give two paths to compare, or one of -d, -c, -vc, -vv and -sc") if few else None


@click.command("config_check", cls=Asking, missing=_missing)
@click.option(
    "-d", "--dump", is_flag=True, help="Collect the set-up of this machine, and of the FILES, into a zip file."
)
@click.option(
    "-c",
    "--compare",
    nargs=2,
    type=click.Path(),
    metavar="FIRST SECOND",
    help="Two zip files of set-ups, the good one first; or two checkpoints, folders or files.",
)
@click.option(
    "-vc",
    "--verl-compare",
    nargs=2,
    type=click.Path(),
    metavar="LOG BENCH_LOG",
    help="Compare the settings in two logs of verl.",
)
@click.option(
    "-vv", "--verl-verify", "verl_verify", is_flag=True, help="Check a log of verl: give FILES [BENCH_YAML] LOG."
)
@click.option(
    "-sc",
    "--slime-compare",
    nargs=2,
    type=click.Path(),
    metavar="LOG BENCH_LOG",
    help="Compare the settings in two logs of slime.",
)
@shared(
    "output_path",
    type=click.Path(),
    show_default="./config_check_pack.zip, ./config_check_result, ./ckpt_similarity.json",
    help="The zip file of -d, the folder of results, or the file for checkpoints, which must not exist.",
)
@shared("json_path")
@shared("html", help="Write the result of two set-ups as a page.")
@shared("fail_on", type=click.Choice(["never", "diverged", "error", "warning"]))
@click.argument("files", nargs=-1, type=click.Path(), metavar="[FIRST SECOND | FILES...]")
def command(files: tuple[str, ...], output_path: str | None, fail_on: str, **options: Any) -> int:
    """Collect the set-up of a training, compare two, or compare every parameter of two checkpoints.

    FIRST and SECOND alone are those of -c. FILES are shell scripts (.sh), .yaml and .json files with settings.
    Checkpoints: Megatron (ranks are merged), Hugging Face, safetensors, torch, distributed torch, MindSpore.

    Exit status: 0 done, 1 different (with --fail-on), 2 unreadable input, 3 no parameter in common.
    """
    chosen = [name for name in _MODES if options[name]]
    if not chosen and len(files) == 2:
        chosen, options["compare"], files = ["compare"], files, ()
    if len(chosen) != 1:
        raise click.UsageError("give two paths to compare, or one of -d, -c, -vc, -vv and -sc")
    mode = chosen[0]
    if files and mode not in {"dump", "verl_verify"}:
        raise click.UsageError(f"{files[0]}: files stand behind -d or -vv only")
    reports = {name: options[name] for name in ("json_path", "html")}
    is_setups = mode == "compare" and any(name.endswith(_ZIP) for name in options[mode])
    given = [name.removesuffix("_path") for name, value in reports.items() if value]
    if given and (mode != "compare" or (reports["html"] and not is_setups)):
        raise click.UsageError(f"--{given[-1]} is for two set-ups (-c A.zip B.zip)")
    if mode == "dump":
        return _collect(files, output_path or "./config_check_pack.zip")
    if mode == "verl_verify":
        return _verify(files, output_path or "./verl_param_verify_result", fail_on)
    if mode != "compare":
        kind: Literal["verl", "slime"] = "verl" if mode == "verl_compare" else "slime"
        return _compare_logs(options[mode], kind, output_path, fail_on)
    if is_setups:
        return _compare_setups(options[mode], output_path or "./config_check_result", fail_on, reports)
    return _compare_checkpoints(options[mode], output_path or "./ckpt_similarity.json", fail_on, options["json_path"])


def _collect(files: tuple[str, ...], output: str) -> int:
    from pathlib import Path

    from msprobe.setup_check.job import collect_setup

    if not output.endswith(_ZIP):
        raise click.UsageError(f"-o {output}: -d writes a zip file; give a name that ends in .zip")
    document = collect_setup(files, Path(output))
    for name, settings in document.hyperparameters.items():
        click.echo(f"{name}: {len(settings)} settings" + ("" if settings else "; no command that starts a training"))
    click.echo(f"Set-up: {len(document.environment)} variables, {len(document.packages)} packages")
    click.echo(f"Result: {output}")
    return 0


def _compare_setups(compare: tuple[str, str], output: str, fail_on: str, reports: dict[str, str | None]) -> int:
    from pathlib import Path

    from msprobe.core.store.safe_files import write_atomic
    from msprobe.setup_check.job import compare_setups, json_text

    comparison = compare_setups(Path(compare[0]), Path(compare[1]), Path(output), reports["html"])
    json_path = reports["json_path"]
    if json_path and json_path != "-":
        write_atomic(Path(json_path), [json_text(comparison).encode()])
    if json_path == "-":
        click.echo(json_text(comparison))
    else:
        for line in comparison.lines():
            click.echo(line)
        click.echo(f"Result: {Path(output) / 'result.xlsx'}")
    return int(_fails(fail_on, comparison.level))


def _fails(fail_on: str, level: str) -> bool:
    if fail_on == "warning":
        return level != "pass"
    return fail_on in {"diverged", "error"} and level == "error"


def _compare_logs(logs: tuple[str, str], kind: Literal["verl", "slime"], output: str | None, fail_on: str) -> int:
    from pathlib import Path

    from msprobe.setup_check.logs.tables import compare_logs

    folder = Path(output or f"./{kind}_param_compare_result")
    different = compare_logs(Path(logs[0]), Path(logs[1]), kind, folder)
    for line in different:
        click.echo(line)
    click.echo(f"Settings that differ: {len(different)}" if different else "All settings are the same")
    click.echo(f"Result: {folder / 'hyper_params_compare.csv'}")
    return _DIVERGED if different and fail_on != "never" else 0


def _verify(files: tuple[str, ...], output: str, fail_on: str) -> int:
    from pathlib import Path

    from msprobe.setup_check.logs.tables import verify_log

    if len(files) not in {1, 2}:
        raise click.UsageError(
            "-vv needs a log of verl, and before it the settings to check against, if not the usual ones"
        )
    benchmark = Path(files[0]) if len(files) == 2 else None
    different = verify_log(benchmark, Path(files[-1]), Path(output))
    for line in different:
        click.echo(line)
    click.echo(
        f"Settings that are not as they should be: {len(different)}"
        if different
        else "All settings are as they should be"
    )
    click.echo(f"Result: {Path(output) / 'hyper_params_verify.csv'}")
    return _DIVERGED if different and fail_on != "never" else 0


def _compare_checkpoints(compare: tuple[str, str], output: str, fail_on: str, json_path: str | None) -> int:
    from pathlib import Path

    from msprobe.checkpoints.job import check_new, compare_checkpoints, document_text, write_document
    from msprobe.jobs.progress import progress_bar

    check_new(Path(output))
    with progress_bar("comparing", "parameters") as show:
        comparison = compare_checkpoints(Path(compare[0]), Path(compare[1]), show)
    write_document(comparison.document(), Path(output))
    if json_path == "-":
        click.echo(document_text(comparison.summary()))
    else:
        if json_path:
            write_document(comparison.summary(), Path(json_path))
        for line in comparison.lines():
            click.echo(line)
        click.echo(f"Result: {output}")
    return _DIVERGED if fail_on != "never" and not comparison.same else 0
