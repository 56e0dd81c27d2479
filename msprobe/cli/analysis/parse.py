"""``msprobe parse``: converts, shows and compares tensor files of kernels; its older commands too."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Any

import click

from msprobe.cli.options.asking import missing_parameter
from msprobe.cli.options.inputs import inputs
from msprobe.cli.options.shared import shared
from msprobe.cli.options.types import OutputFolder

_FAILED = 1
_UNREADABLE = 2
_MOST_LINES = 20
_KINDS = click.Choice(["npy", "pt", "safetensors"])
_FILE = click.Path()


class _WithBarePath(click.Group):
    """A group whose first word may be a path in the place of a command: ``parse DIR`` is ``parse -d DIR``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put ``-d`` before a first word that is no command but a path, then parse."""
        options, rest, _ = self.make_parser(ctx).parse_args(list(args))
        word = rest[0] if rest else "-"
        is_path = os.path.lexists(word) or os.path.basename(word) != word or "." in word
        if is_path and word not in self.commands and "dump_path" not in options:
            args = [*args[: len(args) - len(rest)], "-d", *rest]
        return super().parse_args(ctx, args)


@click.group("parse", cls=_WithBarePath, invoke_without_command=True)
@click.option(
    "-d", "--dump_path", type=_FILE, metavar="FILE|DIR", help="A tensor file, or a folder of them; -d may be left out."
)
@click.option(
    "-t", "--type", "file_kind", type=_KINDS, default="pt", show_default=True, help="The kind of file to write."
)
@shared("output_path", type=OutputFolder(), show_default="./output", help="Folder for the files.")
@click.option("--show", "as_table", is_flag=True, help="Print type, shape and statistics instead of writing files.")
@click.option("--recursive", is_flag=True, help="Take the files of all folders below too.")
@click.pass_context
def command(context: click.Context, /, dump_path: str | None, output_path: str | None, **options: Any) -> int:
    """Write tensor files of ATB, ACL or MindSpore as .npy, .pt or .safetensors.

    The older commands cad, vc, dc, pt and cn are commands of this one; `msprobe parse` alone reads them from standard
    input, one a line.

    Exit status: 0 done, 1 a comparison found differences or some files could not be read, 2 none could.
    """
    if context.invoked_subcommand is not None:
        if dump_path is not None:
            raise click.UsageError(f"-d stands without the command {context.invoked_subcommand}")
        return 0
    if dump_path is None:
        return _read_commands()
    if options["as_table"]:
        return _show(Path(dump_path), options["recursive"])
    return _convert(Path(dump_path), Path(output_path or "./output"), options["file_kind"], options["recursive"])


@command.command("cad")
@inputs(path="DIR")
@click.option("-m", "--my_dump_path", "path", type=_FILE, required=True, help="A folder of a kernel dump.")
@click.option("-out", "--output_path", type=OutputFolder(), default="./parse_data/acl_batch_convert", show_default=True)
@click.option("-asc", "--msaccucmp_path", type=_FILE, help="Accepted; nothing of CANN is needed.")
def convert_all(path: str, output_path: str, **_: Any) -> int:
    """Write every tensor of a kernel dump as .npy."""
    return _convert(Path(path), Path(output_path), "npy", recursive=True)


@command.command("dc")
@inputs(path="FILE")
@click.option("-n", "--name", "path", type=_FILE, required=True, help="A file of a kernel dump.")
@click.option("-f", "--format", "layout", help="Accepted; every layout becomes the one of the program.")
@click.option("-out", "--output_path", type=OutputFolder(), default="./parse_data/acl_convert", show_default=True)
@click.option("-asc", "--msaccucmp_path", type=_FILE, help="Accepted; nothing of CANN is needed.")
def convert_one(path: str, output_path: str, **_: Any) -> int:
    """Write the tensors of one file as .npy."""
    return _convert(Path(path), Path(output_path), "npy", recursive=False)


@command.command("vc")
@inputs(target="TARGET", golden="GOLDEN")
@click.option("-m", "--my_dump_path", "target", type=_FILE, required=True, help="The dump to judge.")
@click.option("-g", "--golden_dump_path", "golden", type=_FILE, required=True, help="The good one.")
@click.option("-out", "--output_path", type=OutputFolder(), default="./parse_data/acl_batch_comapre", show_default=True)
@click.option("-cmp_path", "-asc", "--msaccucmp_path", type=_FILE, help="Accepted; nothing of CANN is needed.")
def compare_dumps(target: str, golden: str, output_path: str, **_: Any) -> int:
    """Compare two kernel dumps into batch_compare_TIME.csv."""
    from msprobe.kernel_parse.compare import compare_kernels

    comparison = compare_kernels(Path(target), Path(golden), Path(output_path))
    differing = [row for row in comparison.rows if row[-2] != "pass"]
    for row in differing[:_MOST_LINES]:
        name = f"{Path(row[1] or row[2]).name} {row[0]}".rstrip()
        click.echo(_printable(f"{row[-2]}: {name}: {row[-1]}"))
    _tell_rest(len(differing), "the table has all")
    click.echo(f"{len(comparison.rows)} tensors: {comparison.failed} differ or could not be compared")
    click.echo(f"Result: {comparison.table}")
    return _FAILED if comparison.failed else 0


@command.command("pt")
@inputs(path="FILE")
@click.option("-n", "--name", "path", type=_FILE, required=True, help="A tensor file.")
def print_tensor(path: str) -> int:
    """Print type, shape and statistics of a file, and write its elements as text beside it."""
    from msprobe.kernel_parse.texts import write_texts

    _show(Path(path), recursive=False)
    for written in write_texts(Path(path)):
        click.echo(f"Result: {written}")
    return 0


@command.command("cn")
@inputs(target="TARGET", golden="GOLDEN")
@click.option("-m", "--my_data", "target", type=_FILE, required=True, help="The file to judge.")
@click.option("-g", "--golden_data", "golden", type=_FILE, required=True, help="The good one.")
@click.option(
    "-p", "--print_num", type=click.IntRange(0, 1000), default=20, show_default=True, help="Elements to print."
)
@click.option("-al", "--atol", type=float, default=0.001, show_default=True, help="Absolute error that is allowed.")
@click.option("-rl", "--rtol", type=float, default=0.001, show_default=True, help="Relative error that is allowed.")
@click.option("-s", "--save", is_flag=True, help="Write the elements that differ to a text file.")
def compare_elements(target: str, golden: str, **options: Any) -> int:
    """Print the elements of two files that differ by more than the given errors."""
    from msprobe.kernel_parse.texts import compare_elements as differing

    found = differing(Path(target), Path(golden), options["atol"], options["rtol"], options["save"])
    for line in found.lines(options["print_num"]):
        click.echo(line)
    return _FAILED if found.count else 0


@command.command("pk", hidden=True, context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
def show_records() -> int:
    """Say what to use: records of this kind are no tensor files."""
    raise click.UsageError("pk is not supported: msprobe parse -d FILE --show prints what a dump file holds")


def _convert(path: Path, output: Path, kind: Any, recursive: bool) -> int:
    from msprobe.jobs.progress import progress_bar
    from msprobe.kernel_parse.convert import parse_files

    with progress_bar("parsing", "files") as show:
        result = parse_files(path, output, kind, recursive, show)
    for problem in result.problems[:_MOST_LINES]:
        click.echo(_printable(f"Not read: {problem}"), err=True)
    _tell_rest(len(result.problems), "--show lists all", err=True)
    click.echo(f"{len(result.written)} tensors written, {len(result.problems)} not read")
    click.echo(_printable(f"Result: {result.written[0] if len(result.written) == 1 else output}"))
    return _FAILED if result.problems else 0


def _tell_rest(count: int, where: str, err: bool = False) -> None:
    if count > _MOST_LINES:
        click.echo(f"... and {count - _MOST_LINES} more; {where}", err=err)


def _printable(text: str) -> str:
    """Return a text in which bytes of names that are no UTF-8, and control characters, are escapes."""
    shown = "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)
    return shown.encode("utf-8", "backslashreplace").decode()


def _show(path: Path, recursive: bool) -> int:
    from msprobe.core.errors import ReadError
    from msprobe.kernel_parse.show import described

    rows = [tuple(map(_printable, row)) for row in described(path, recursive)]
    whole = [row for row in rows if len(row) == len(rows[0])]
    if len(whole) == 1 and len(rows) == 2:
        raise ReadError(rows[1][-1])
    widths = [max(len(row[column]) for row in whole) for column in range(len(rows[0]))]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=False))  # those with a reason are shorter
        click.echo("  ".join(cells).rstrip())
    return 0 if len(whole) == len(rows) else _FAILED


def _read_commands() -> int:
    """Run the commands of standard input, one a line; an error of one does not end the others.

    The exit status is the worst of them.
    """
    from msprobe.cli.main import system_error
    from msprobe.core.errors import MsprobeException

    if sys.stdin.isatty():
        click.echo("Commands: cad, vc, dc, pt, cn; quit ends. COMMAND --help tells more.")
    given, worst = False, 0
    for line in sys.stdin:
        words = line.split("#")[0].strip()
        if words in {"quit", "exit", "q"}:
            break
        if not words:
            continue
        given = True
        try:
            status = command.main(shlex.split(words), prog_name="parse", standalone_mode=False) or 0
        except click.ClickException as error:
            status = _fail(error.format_message())
        except OSError as error:
            status = _fail(system_error(error))
        except (MsprobeException, ValueError) as error:
            status = _fail(str(error).removeprefix("[msprobe] "))
        worst = max(worst, status)
    if not given:
        raise missing_parameter(
            click.get_current_context(), "dump_path", "give -d FILE or DIR, or a command: cad, vc, dc, pt, cn"
        )
    return worst


def _fail(message: str) -> int:
    click.echo(f"Error: {message}", err=True)
    return _UNREADABLE
