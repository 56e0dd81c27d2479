"""``msprobe trace``: where a value of a dump comes from, and who uses it."""

from pathlib import Path

import click

from msprobe.cli.options.shared import shared


@click.command("trace")
@click.argument("dump", type=click.Path())
@click.argument("value")
@click.option("--calls", default=20, show_default=True, type=click.IntRange(min=0), help="Calls in a list; 0 for all.")
@shared("json_path")
def command(dump: str, value: str, calls: int, json_path: str | None) -> int:
    """Tell where a value comes from and who uses it.

    DUMP is the dump.json of one step and rank, or a folder with one dump. VALUE is an entry of it
    (Torch.add.0.forward) for all results of a call, or one tensor of an entry (Torch.add.0.forward.input.0). Exit
    status: 0 done, 2 unreadable input, or no such value.
    """
    from msprobe.compare.inputs.locations import local_file, opened
    from msprobe.core.store.safe_files import make_folder, write_atomic
    from msprobe.jobs.value_trace import trace_lines, trace_value

    target = None if json_path in (None, "-") else local_file(json_path, "json")
    document = trace_value(opened(dump), value)
    text = document.model_dump_json(indent=1).encode()
    if json_path == "-":
        click.echo(text.decode())
        return 0
    if target is not None:
        make_folder(Path(target).absolute().parent)
        write_atomic(Path(target), [text])
    for line in trace_lines(document, calls):
        click.echo(line)
    return 0
