"""``msprobe support``: which framework can do what, without any of them being installed."""

import click

from msprobe.core.errors import MsprobeException


@click.command("support")
@click.option(
    "--feature", metavar="NAME", help="Show where this feature is supported: its name in the table, or a part of it."
)
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "markdown", "json"]),
    default="text",
    show_default=True,
    help="How the tables are printed.",
)
def command(feature: str | None, output_format: str) -> None:
    """Print which tasks, levels and features each framework has.

    Without --feature, print tables: tasks by level, and by framework features, keys of dumps, and what watches a
    training. In the second one "3 of 15" counts
    combinations of a task and a level; --feature shows which they are. As JSON, print every combination with its
    features.
    """
    import json
    from dataclasses import asdict

    from msprobe.core.backend.support_matrix import cells
    from msprobe.report.support_tables import as_markdown, as_text, feature_table, keys_table, task_table, watch_table

    supported = list(cells())
    if output_format == "json":
        click.echo(json.dumps([asdict(cell) for cell in supported], indent=1))
        return
    name = None if feature is None else _full_name(feature)
    tables = [task_table(supported, name)]
    if not name:
        tables += [feature_table(supported), keys_table(), watch_table()]
    click.echo("\n\n".join((as_markdown if output_format == "markdown" else as_text)(table) for table in tables))


def _full_name(feature: str) -> str:
    """Return the feature of this name, or the only one whose name contains it."""
    from msprobe.core.backend.support_matrix import FEATURES

    names = [name for name in FEATURES if name == feature] or [name for name in FEATURES if feature in name]
    if len(names) != 1:
        fault = f"is part of {' and '.join(names)}" if names else "is no feature"
        raise MsprobeException(0, f"--feature {feature}: {fault}; the features are {', '.join(FEATURES)}")
    return names[0]
