"""``msprobe graph_visualize``: the model as a graph, in a database for graph viewers."""

from __future__ import annotations

import click


@click.command("graph_visualize")
@click.option(
    "-tp", "--target_path", "--target-path", required=True, type=click.Path(), help="Dump of the run under test."
)
@click.option("-gp", "--golden_path", "--golden-path", type=click.Path(), help="Dump of the good run, to compare with.")
@click.option(
    "-o",
    "--output_path",
    "--output-path",
    required=True,
    type=click.Path(),
    help="Folder for the database; made when missing.",
)
@click.option("-oc", "--overflow_check", "--overflow-check", is_flag=True, help="Mark NaN and infinities.")
@click.option("-fm", "--fuzzy_match", "--fuzzy-match", is_flag=True, help="Pair calls whatever their number.")
@click.option("-tensor_log", "--is_print_compare_log", is_flag=True, help="Log more about each compared pair of dumps.")
@click.option("-progress_log", "--is_print_progress_log", is_flag=True, help="A line per dump instead of a bar.")
@click.option(
    "--policy",
    type=click.Choice(["default", "reference"]),
    default="default",
    show_default=True,
    help="Whose rules colour the nodes: ours or the published thresholds.",
)
def command(
    target_path: str,
    golden_path: str | None,
    output_path: str,
    policy: str,
    **flags: bool,
) -> int:
    """Draw a dump as a graph, or two dumps side by side with their differences.

    Each PATH is a dump root, a step folder, a rank or proc folder, or a dump.json. All steps and ranks go into one
    file, build_{timestamp}.vis.db or compare_{timestamp}.vis.db, which TensorBoard (plugin tb_graph_ascend) shows.

    Exit status: 0 done, 2 wrong usage or unreadable input, 3 not comparable.
    """
    from msprobe.visualize.job import Request, visualize

    request = Request(
        target=target_path,
        golden=golden_path,
        output=output_path,
        policy=policy,
        fuzzy=flags["fuzzy_match"],
        overflow=flags["overflow_check"],
        log_progress=flags["is_print_progress_log"],
    )
    click.echo(f"Graph: {visualize(request)}")
    return 0
