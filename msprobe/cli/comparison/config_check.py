"""``msprobe config_check``: compares what two runs start with; in this release, checkpoints."""

import click

from msprobe.cli.options.shared import shared

_DIVERGED = 1


@click.command("config_check")
@click.option(
    "-c",
    "--compare",
    nargs=2,
    type=click.Path(),
    metavar="FIRST SECOND",
    help="Two checkpoints: folders or files.",
)
@shared(
    "output_path",
    type=click.Path(),
    show_default="./ckpt_similarity.json",
    help="File for the result; it must not exist.",
)
@shared("fail_on", type=click.Choice(["never", "diverged"]))
@click.option("-d", "--dump", is_flag=True, help="Collect a configuration (not in this release).")
@click.option("-vc", "compare_verl", is_flag=True, help="Compare logs of verl (not in this release).")
@click.option("-vv", "verify_verl", is_flag=True, help="Verify a log of verl (not in this release).")
@click.option("-sc", "compare_slime", is_flag=True, help="Compare logs of slime (not in this release).")
@click.argument("files", nargs=-1, type=click.Path())
def command(
    compare: tuple[str, str] | None,
    output_path: str | None,
    fail_on: str,
    files: tuple[str, ...],
    **later: bool,
) -> int:
    """Compare every parameter of two checkpoints: Megatron (ranks are merged), Hugging Face, safetensors, state_dict.

    Exit status: 0 done, 1 diverged (with --fail-on diverged), 2 unreadable input, 3 no parameter in common.
    """
    if any(later.values()) or (compare and compare[0].endswith(".zip")):
        raise click.UsageError(
            "configurations (-d, zip files) and logs (-vc, -vv, -sc) cannot be collected or compared in this release; "
            "-c compares two checkpoints"
        )
    if compare is None or files:
        raise click.UsageError("give two checkpoints: -c FIRST SECOND")
    return _compare_checkpoints(compare, output_path or "./ckpt_similarity.json", fail_on)


def _compare_checkpoints(compare: tuple[str, str], output: str, fail_on: str) -> int:
    from pathlib import Path

    from msprobe.checkpoints.job import check_new, compare_checkpoints, write_document
    from msprobe.jobs.progress import progress_bar

    check_new(Path(output))
    with progress_bar("comparing", "parameters") as show:
        comparison = compare_checkpoints(Path(compare[0]), Path(compare[1]), show)
    write_document(comparison, Path(output))
    for line in comparison.lines():
        click.echo(line)
    click.echo(f"Result: {output}")
    return _DIVERGED if fail_on == "diverged" and not comparison.same else 0
