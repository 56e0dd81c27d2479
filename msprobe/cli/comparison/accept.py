"""``msprobe accept``: writes the first divergence of a result into a file of accepted differences."""

import click

from msprobe.cli.options.shared import shared
from msprobe.cli.options.types import OutputFile


@click.command("accept")
@click.argument("result", type=click.Path())
@click.option("--reason", required=True, help="Why the difference is accepted; reports show it.")
@click.option("--expires", metavar="YYYY-MM-DD", help="The last day on which it is accepted.")
@shared(
    "output_path",
    default="./accepted.yaml",
    type=OutputFile(),
    help="File to write; the entry is added to those that it has.",
)
@click.option("--place", metavar="PATTERN", help="Accept it at these calls or modules: * is any text, ? one character.")
@shared("step", help="Accept it in these steps only.")
@shared("rank", help="Accept it in these ranks only.")
def command(result: str, output_path: str, **given: str | None) -> int:
    """Accept the first divergence of RESULT, a file of `msprobe compare --json`.

    The entry goes into the file for `msprobe compare --accept`. It holds for the same call and value, up to four times
    the difference. Exit status: 0 done, 2 RESULT has no first divergence, or the file cannot be used.
    """
    from msprobe.compare.accepted import add_accepted, entry_of
    from msprobe.compare.inputs.locations import local, opened

    file = local(output_path)
    entry = entry_of(opened(result), given)
    add_accepted(file, entry)
    click.echo(f"Accepted: {entry.text} ({entry.reason})")
    click.echo(f"Result: {output_path}")
    return 0
