"""``msprobe import``: turns a kernel dump of MindSpore's runtime into a dump that all other commands read."""

import click

from msprobe.cli.option_types import OutputFolder


@click.command("import")
@click.argument("native_dir", type=click.Path())
@click.option("-o", "--output", type=OutputFolder(), required=True, help="Folder for the imported dump.")
@click.option("--md5", is_flag=True, help="Also compute an MD5 of every tensor.")
def command(native_dir: str, output: str, md5: bool) -> int:
    """Import the kernel dump in NATIVE_DIR (the folder with rank_0, or one rank_N).

    Every iteration becomes step{N}/rank{R} in the output: dump.json with statistics, the tensor files, and in
    stack.json the source lines of each kernel.
    """
    from pathlib import Path

    from msprobe.core.kernel_dumps.importer import import_dump

    for folder in import_dump(Path(native_dir), Path(output), md5):
        click.echo(f"Imported: {folder}")
    return 0
