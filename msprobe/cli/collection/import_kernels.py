"""``msprobe import``: turns a kernel dump of MindSpore's runtime into a dump that all other commands read."""

import click

from msprobe.cli.options.shared import shared
from msprobe.cli.options.types import OutputFolder


@click.command("import")
@click.argument("native_dir", type=click.Path())
@shared("output_path", required=True, type=OutputFolder(), help="Folder for the imported dump.")
@click.option("--md5", is_flag=True, help="Also compute an MD5 of every tensor.")
def command(native_dir: str, output_path: str, md5: bool) -> int:
    """Import the kernel dump in NATIVE_DIR (the folder with rank_0, or one rank_N).

    Every iteration becomes step{N}/rank{R} in the output: dump.json with statistics, the tensor files, and in
    stack.json the source lines of each kernel.
    """
    from pathlib import Path

    from msprobe.compare.inputs.locations import local
    from msprobe.core.kernel_dumps.importer import import_dump

    for folder in import_dump(Path(native_dir), local(output_path), md5):
        click.echo(f"Imported: {folder}")
    return 0
