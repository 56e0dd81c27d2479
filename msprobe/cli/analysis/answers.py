"""``msprobe answers``: names answers of a language model that repeat, are garbled, or hold rare characters or NaN."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from msprobe.cli.options.shared import shared

if TYPE_CHECKING:
    from msprobe.response_anomaly.report import AnswersResult

_FOUND = 1
_UNREADABLE = 2


@click.command("answers")
@click.argument("file", metavar="FILE|-", type=click.Path())
@click.option(
    "--tokenizer", metavar="PATH", type=click.Path(),
    help="File tokenizer.json of the model, or its folder; needed where the answers have token ids and no texts.",
)  # fmt: skip
@shared("config", short=False, metavar="FILE", help="A config.yaml with other thresholds.")
@shared("json_path")
@shared("fail_on", type=click.Choice(["never", "found"]))
def command(file: str, tokenizer: str | None, config: str | None, json_path: str | None, fail_on: str) -> int:
    """Name the odd answers of a language model: repeated, garbled, with a rare character, or with NaN.

    FILE holds one JSON document a line: completions as servers return them (OpenAI interface, SGLang), tokens with
    topk_logprobs, or texts; - is the standard input.

    Exit status: 0 done, 1 found (with --fail-on found), 2 something could not be read.
    """
    from msprobe.response_anomaly.answer_files import read_answers
    from msprobe.response_anomaly.detector import ILLDetector
    from msprobe.response_anomaly.report import judged, result_of
    from msprobe.response_anomaly.token_texts import token_texts

    detector = ILLDetector(config)
    texts = token_texts(tokenizer) if tokenizer else None
    answers = [
        judged(stored, detector.findings(stored.answer) if stored.answer else [])
        for stored in read_answers(Path(file), texts)
    ]
    result = result_of(answers)
    if json_path == "-":
        click.echo(result.model_dump_json(indent=2))
    else:
        _print(result)
        if json_path:
            _write(Path(json_path), result)
    if "not_judged" in result.counts:
        return _UNREADABLE
    return _FOUND if result.verdict == "odd" and fail_on == "found" else 0


def _print(result: AnswersResult) -> None:
    from msprobe.response_anomaly.report import line_of

    for answer in result.answers:
        for part in answer.findings:
            click.echo(f"{answer.name}: {line_of(part)}")
        if answer.status == "not_judged":
            click.echo(f"{answer.name}: not judged: {answer.problem}", err=True)
    counts = ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in sorted(result.counts.items()))
    click.echo(f"{len(result.answers)} answers: {counts}")


def _write(path: Path, result: AnswersResult) -> None:
    from msprobe.core.store.safe_files import make_folder, write_atomic

    make_folder(path.absolute().parent)
    write_atomic(path, [f"{result.model_dump_json(indent=2)}\n".encode("utf-8", "backslashreplace")])
    click.echo(f"Result: {path}")
