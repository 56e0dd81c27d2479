"""``msprobe graph_visualize``: the model as a graph, in a database for graph viewers."""

from __future__ import annotations

import os
from functools import partial
from typing import Any, ClassVar

import click

from msprobe.cli.options.inputs import SeveralWords, inputs
from msprobe.cli.options.mapping import mapping_flags, mapping_keywords
from msprobe.cli.options.shared import shared
from msprobe.cli.options.types import OutputFolder

_SIZES = ("rank_size", "tp", "pp", "vpp")


def _is_order(word: str) -> bool:
    """Return whether a word may be an order of dimensions, as ``tp-dp-pp``."""
    return "-" in word and all(len(part) == 2 and part.isalpha() for part in word.split("-"))


class _SeveralSizes(SeveralWords):
    belongs: ClassVar = {"--order": _is_order, **{f"--{name}": str.isdecimal for name in _SIZES}}


@click.command("graph_visualize", cls=_SeveralSizes)
@inputs(target_path="TARGET", golden_path="GOLDEN")
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

    TARGET and GOLDEN are each a dump root, a step folder, a rank or proc folder, or a dump.json, or the URL of one. All
    steps and ranks go into one file, build_{timestamp}.vis.db or compare_{timestamp}.vis.db, which TensorBoard (plugin
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
