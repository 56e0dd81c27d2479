"""Odd answers: planted ones are found with their type, normal ones give no alarm."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import pytest

from msprobe.core.errors import ConfigError, InterfaceError, ReadError
from msprobe.response_anomaly import ILLDetector, analyze_output_anomaly
from msprobe.response_anomaly.answer import Answer
from msprobe.response_anomaly.detector import find_odd
from tests.response_anomaly import generated_answers as generated

NAN, LOOP, GARBLED, RARE = 4, 3, 2, 1
ROOT = Path(__file__).parents[2]


def answer_of(text: str, seed: int, recorded: bool, odd: set[int] | None = None) -> Answer:
    texts = generated.tokens(text)
    pieces = [token.encode("utf-8", "surrogateescape") for token in texts]
    return Answer(texts, pieces, generated.candidates(texts, seed, odd) if recorded else None)


def kind_of(answer: Answer) -> int:
    return next((finding.kind for finding in find_odd(answer)), 0)


@pytest.mark.matrix("wide", sample=2)
@pytest.mark.parametrize("recorded", [False, True])
def test_no_normal_answer_gives_an_alarm(recorded: bool) -> None:
    texts = {seed: generated.normal(seed) for seed in range(1000, 1224)}
    alarms = {seed: find_odd(answer_of(text, seed, recorded)) for seed, text in texts.items()}
    assert {seed: found for seed, found in alarms.items() if found} == {}


def test_no_page_of_the_documentation_gives_an_alarm() -> None:
    files = [*ROOT.glob("docs/guide/*.md"), *ROOT.glob("msprobe/compare/*.py"), ROOT / "LICENSE"]
    alarms = {file.name: find_odd(Answer.of_text(file.read_text("utf-8")[:5000])) for file in files}
    assert {name: found for name, found in alarms.items() if found} == {}


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize(("write", "kind"), [(generated.repeated, LOOP), (generated.garbled, GARBLED)])
def test_planted_loops_and_garbled_texts_are_found(recorded: bool, write: object, kind: int) -> None:
    kinds = {seed: kind_of(answer_of(write(seed), seed, recorded)) for seed in range(2000, 2060)}  # type: ignore[operator]
    assert {seed: found for seed, found in kinds.items() if found != kind} == {}


@pytest.mark.parametrize("recorded", [False, True])
def test_planted_rare_characters_are_found_where_they_are(recorded: bool) -> None:
    for seed in range(3000, 3060):
        text, sign = generated.rare(seed)
        place = next(n for n, token in enumerate(generated.tokens(text)) if sign[0] in token)
        found = find_odd(answer_of(text, seed, recorded, {place}))
        assert [(each.kind, each.start) for each in found] == [(RARE, place)], text


def test_the_place_of_a_loop_is_told() -> None:
    text = generated.english(__import__("random").Random(1), 3)
    start = len(generated.tokens(text))
    found = find_odd(answer_of(text + " again and again and" * 50, 1, recorded=False))
    assert abs(found[0].start - start) <= 3
    assert '"again and' in found[0].reason or '"and again' in found[0].reason


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ({7: math.nan, 8: -1.0}, NAN),
        ({7: -1.0, 8: math.nan}, NAN),
        ({7: math.inf}, NAN),
        ({7: -math.inf, 8: -0.1}, NAN),
        ({7: -0.1, 8: -math.inf}, 0),  # a masked candidate
        ({7: None}, NAN),
    ],
)
def test_nan_and_infinity(row: dict[int, float], kind: int) -> None:
    rows = [{n: -0.2, 99: -2.0} for n in range(5)] + [row]
    assert analyze_output_anomaly([rows], [[0, 1, 2, 3, 4, 7]], ["any"]) == [[kind != 0, kind]]
    if kind:
        assert "token 5" in ILLDetector().findings(ILLDetector().answer([0, 1, 2, 3, 4, 7], rows))[0].reason


def test_token_numbers_alone() -> None:
    """Without texts: loops and tokens that nobody expected are found, and drawn ones are not."""
    draw = __import__("random").Random(5)
    kinds = Counter[int]()
    for seed in range(60):
        texts = generated.tokens(generated.normal(seed))
        numbers = {text: n for n, text in enumerate(sorted(set(texts)))}
        rows = [
            {numbers.get(text, 10**6 + hash(text) % 10**6): value for text, value in row.items()}
            for row in generated.candidates(texts, seed)
        ]
        kinds[int(ILLDetector().detector(rows, [numbers[text] for text in texts]).ill_type)] += 1
    assert kinds == {0: 60}
    loop = [*range(50), *([7, 8, 9, 10, 11, 12, 13] * 30)]
    noise = [draw.randrange(50000) for _ in range(200)]
    flat = [{token: -11.0, 1: -0.01} for token in noise]
    assert analyze_output_anomaly([None, flat], [loop, noise]) == [[True, LOOP], [True, GARBLED]]


def test_logits_in_place_of_logarithms_are_not_judged_as_such() -> None:
    tokens = list(range(64))
    assert analyze_output_anomaly([[{n: 3.0, 99: 18.0} for n in tokens]], [tokens]) == [[False, 0]]


def test_a_loop_of_two_characters_is_no_wrong_encoding() -> None:
    assert [part.kind for part in find_odd(Answer.of_text("好的" * 20))] == [3]


@pytest.mark.parametrize("text", ["", "a", "好", "?", "\n"])
def test_the_shortest_answers(text: str) -> None:
    assert find_odd(Answer.of_text(text)) == []
    assert analyze_output_anomaly([[]], [[]]) == [[False, 0]]


def test_arguments_that_do_not_fit() -> None:
    with pytest.raises(InterfaceError, match="2 tokens have 1 rows"):
        analyze_output_anomaly([[{1: -0.1}]], [[1, 2]])
    with pytest.raises(InterfaceError, match="each needs one"):
        analyze_output_anomaly([[]], [[], []], ["a", "b"])
    with pytest.raises(InterfaceError, match="is no number"):
        analyze_output_anomaly([[{1: "x"}]], [[1]])
    with pytest.raises(InterfaceError, match="tokens are a list"):
        analyze_output_anomaly(None, None)  # type: ignore[arg-type]
    with pytest.raises(InterfaceError, match="is no tokenizer"):
        analyze_output_anomaly(None, [[1]], object())


def test_files_of_the_published_tool(tmp_path: Path) -> None:
    """Thresholds, special tokens and maps by model; a trailing end token belongs to no answer."""
    config, models, maps = tmp_path / "config.yaml", tmp_path / "mtype_config.json", tmp_path / "token2category"
    config.write_text("window_size: 64\nstride: 32\nrepetition:\n  trajectory:\n    n: 3\n")
    models.write_text('{"My-Model-1": {"bos": 1, "eos": 2}}')
    maps.mkdir()
    (maps / "my-model-1_2.json").write_text('{"1": 0, "2": 0, "3": 1, "4": 2, "5": 3, "6": 4}')
    detector = ILLDetector(str(config), str(models), f"{maps}/")
    answer = detector.answer([3, 4, 2, 2], None, "My_Model.1")
    assert (list(answer.ids), dict(answer.groups or {})[6], answer.pieces) == ([3, 4], 4, None)
    unsure = [{3: -3.0, 4: -3.0, 5: -3.0, 6: -3.0}]
    sure = [{3: -0.1, 4: -3.0}] * 20
    assert detector.run([sure + unsure + sure], [[3] * 41], ["my-model-1"]) == [[True, RARE]]
    config.write_text("window_size: 0\nstrid: 3\n")
    with pytest.raises(ConfigError, match=r"(?s)window_size.*strid"):
        ILLDetector(config)
    with pytest.raises(ReadError, match="no such file"):
        ILLDetector(None, None, tmp_path / "absent")
    models.write_text("[1]")
    with pytest.raises(ReadError, match="special tokens"):
        ILLDetector(None, models)
