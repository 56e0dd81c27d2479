"""``msprobe graph_visualize``: the model as a graph, in a database for graph viewers."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import click

from msprobe.cli.options.mapping import mapping_flags, mapping_keywords
from msprobe.cli.options.shared import shared
from msprobe.cli.options.types import OutputFolder

_LIST_FLAGS = ("--rank_size", "--tp", "--pp", "--vpp", "--order")
_SIZES = ("rank_size", "tp", "pp", "vpp")


class _ListOptions(click.Command):
    """A command whose options may take several words: ``--tp 2 4`` is read as ``--tp 2 --tp 4``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Repeat the name of a list option before each of its words, then parse."""
        repeated: list[str] = []
        current, fresh = "", False
        for word in args:
            if word.startswith("-"):
                current, fresh = (word if word in _LIST_FLAGS else ""), True
                repeated.append(word)
                continue
            if current and not fresh:
                repeated.append(current)
            repeated.append(word)
            fresh = False
        return super().parse_args(ctx, repeated)


@click.command("graph_visualize", cls=_ListOptions)
@shared("target_path", required=True)
@shared("golden_path", help="Dump of the good run, to compare with.")
@shared("output_path", required=True, type=OutputFolder(), help="Folder for the database; made when missing.")
@click.option("-oc", "--overflow_check", "--overflow-check", is_flag=True, help="Mark NaN and infinities.")
@shared("log_items", help="Log a line per value that differs.")
@click.option(
    "-progress_log", "--is_print_progress_log", is_flag=True, help="Log a line per dump instead of showing a bar."
)
@click.option("--rank_size", type=int, multiple=True, metavar="N [N]", help="Merge ranks; this is how many there are.")
@click.option(
    "--tp", type=int, multiple=True, metavar="N [N]", help="Merge ranks; this is the size of tensor parallelism."
)
@click.option(
    "--pp", type=int, multiple=True, metavar="N [N]", help="Merge ranks; this is the number of pipeline stages."
)
@click.option(
    "--vpp",
    type=int,
    multiple=True,
    metavar="N [N]",
    help="Merge ranks; this is the number of model chunks per stage (1).",
)
@click.option(
    "--order", multiple=True, metavar="S [S]", help="Merge ranks; this is the order of the dimensions (tp-cp-ep-dp-pp)."
)
@click.option(
    "--file_type",
    type=click.Choice(["db", "json"]),
    default="db",
    show_default=True,
    help="What is written; json writes the merged dump of one run as files.",
)
@shared("policy", help="Whose rules colour the nodes: those of msprobe or the published thresholds.")
@mapping_flags
def command(target_path: str, golden_path: str | None, output_path: str, **options: Any) -> int:
    """Draw a dump as a graph, or two dumps side by side with their differences.

    Each PATH is a dump root, a step folder, a rank or proc folder, or a dump.json, or the URL of one. All steps and
    ranks go into one file, build_{timestamp}.vis.db or compare_{timestamp}.vis.db, which TensorBoard (plugin
    tb_graph_ascend) shows.

    The ranks of a step are merged to one graph per model replica with --rank_size, --tp and --pp; give two values
    where target and golden run differ.

    Exit status: 0 done, 2 wrong usage or unreadable input, 3 not comparable.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy's idle threads would forbid a copy of this process
    from msprobe.compare.alignment.options import MappingKeywords
    from msprobe.compare.parallel.layout import layouts_of_flags
    from msprobe.jobs.compare_options import load_mapping_options
    from msprobe.jobs.progress import progress_bar
    from msprobe.visualize.job import Request, visualize

    sides = 1 if golden_path is None else 2
    request = Request(
        target=target_path,
        golden=golden_path,
        output=output_path,
        policy=options["policy"],
        mapping=load_mapping_options(
            mapping_keywords({name: options[name] for name in MappingKeywords.__annotations__ if name in options})
        ),
        overflow=options["overflow_check"],
        log_progress=options["is_print_progress_log"],
        log_values=options["log_items"],
        layouts=layouts_of_flags({name: options[name] for name in _SIZES}, options["order"], sides),
        as_json=options["file_type"] == "json",
    )
    path = visualize(request, partial(progress_bar, "reading", "graphs"))
    click.echo(f"Graph: {path}")
    return 0
