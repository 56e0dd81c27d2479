"""``msprobe support``: which framework can do what, without any of them being installed."""

import click

from msprobe.core.errors import MsprobeException


@click.command("support")
@click.option(
    "--feature", metavar="NAME", help="Where this feature is there: one of the feature table, or part of a name."
)
@click.option("--format", "form", type=click.Choice(["text", "markdown", "json"]), default="text", show_default=True)
def command(feature: str | None, form: str) -> None:
    """Print which tasks, levels and features each framework has.

    Without --feature two tables: tasks by level, and features by framework ("3 of 15" are combinations of a task and a
    level; --feature tells which). As JSON every combination with its features.
    """
    import json
    from dataclasses import asdict

    from msprobe.core.backend.matrix import cells
    from msprobe.report.support_tables import as_markdown, as_text, feature_table, task_table

    found = list(cells())
    if form == "json":
        click.echo(json.dumps([asdict(cell) for cell in found], indent=1))
        return
    chosen = None if feature is None else _named(feature)
    tables = [task_table(found, chosen)] if chosen else [task_table(found), feature_table(found)]
    click.echo("\n\n".join((as_markdown if form == "markdown" else as_text)(table) for table in tables))


def _named(feature: str) -> str:
    from msprobe.core.backend.matrix import FEATURES

    names = [name for name in FEATURES if name == feature] or [name for name in FEATURES if feature in name]
    if len(names) != 1:
        raise MsprobeException(0, f"--feature {feature}: {_what(names)}; there is {', '.join(FEATURES)}")
    return names[0]


def _what(names: list[str]) -> str:
    return f"is part of {' and '.join(names)}" if names else "is no feature"
