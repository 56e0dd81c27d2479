"""``msprobe check``: what cannot be right in one run, without a golden one."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from msprobe.cli.options.shared import shared

_FOUND = 1


@click.command("check")
@click.argument("paths", nargs=-1, required=True, type=click.Path())
@shared("json_path")
@shared(
    "accept", help="Findings that are known, each with a rule (finding), a place and a reason; they are told apart."
)
@shared("fail_on", type=click.Choice(["never", "found"]))
@shared("executor", help="Where dumps are read: auto, serial, processes[:N], dask://HOST:PORT, dask://local.")
@shared("run")
@click.option("--learn", "learn_path", metavar="FILE", type=click.Path(), help="Write what always held in good runs.")
@click.option(
    "--with", "with_path", metavar="FILE", type=click.Path(), help="Hold the run to relations that --learn wrote."
)
def command(
    paths: tuple[str, ...], learn_path: str | None, with_path: str | None, run: str | None, **given: Any
) -> int:
    """Name what cannot be right in one run, without a run to compare it with.

    PATHS are dump roots with several steps and ranks, or folders of them; three steps at level mix suffice. Findings
    cannot be right; hints a correct program may show too. Exit status: 0 done, 1 found (with --fail-on found), 2
    unreadable input, 3 there is nothing to check.
    """
    from msprobe.jobs.executors.select import find_executor

    def choose(count: int, sizes: Iterable[int]) -> Any:
        chosen = find_executor(given["executor"], count, sizes)
        return None if chosen is None else chosen.run

    if learn_path is not None:
        if with_path or given["json_path"] or given["accept"]:
            raise click.UsageError("--learn writes relations and judges nothing; leave --with, --json and --accept out")
        return _learn(paths, learn_path, run, choose)
    return _check(paths, with_path, run, choose, **given)


def _check(paths: tuple[str, ...], with_path: str | None, run: str | None, choose: Any, **given: Any) -> int:
    from msprobe.check.job import check
    from msprobe.check.result import document_json, result_lines, write_json
    from msprobe.compare.inputs.locations import local_file, opened

    json_path = given["json_path"]
    if json_path is not None:
        local_file(json_path, "json")
    learned = None
    if with_path is not None:
        from msprobe.check.learned.judge import Judge
        from msprobe.check.learned.relations import read_relations

        learned = Judge(read_relations(opened(with_path)), with_path)
    document = check(paths, accept=given["accept"], run=run, choose=choose, learned=learned)
    if json_path == "-":
        click.echo(document_json(document).decode(), nl=False)
    else:
        if json_path is not None:
            write_json(document, Path(json_path))
        for line in result_lines(document):
            click.echo(line)
    return _FOUND if document.findings and given["fail_on"] == "found" else 0


def _learn(paths: tuple[str, ...], learn_path: str, run: str | None, choose: Any) -> int:
    from msprobe import __version__
    from msprobe.check.job import learn_relations
    from msprobe.check.learned.relations import write_relations
    from msprobe.compare.inputs.locations import local_file

    target = local_file(learn_path, "learn")
    relations, documents = learn_relations(
        paths, run=run, choose=choose, written_by={"name": "msprobe", "version": __version__}
    )
    write_relations(relations, target)
    runs = f"{relations.runs} {'run' if relations.runs == 1 else 'runs'}"
    click.echo(
        f"{len(relations.relations)} relations learned from {relations.steps} steps of {runs}, written to {learn_path}"
    )
    for number, document in enumerate(documents, 1):
        if document.findings:
            names = ", ".join(dict.fromkeys(one.rule for one in document.findings))
            click.echo(
                f"Run {number} has findings itself ({names}), so faults may have been learned; look at them first"
            )
    return 0
