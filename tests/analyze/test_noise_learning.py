"""Reruns tell what is normal, and a comparison is judged by that."""

import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from msprobe.analyze.noise_learning import learn
from msprobe.cli import main
from msprobe.compare.differences.noise_profile import NoiseProfile, noise_schema
from msprobe.core.errors import MsprobeException, NotComparableError, ReadError
from msprobe.jobs.compare import compare
from tests.compare.dumps import call, tensor, write


def run(folder: Path, drop: float = 1.0, linear: float = 1.0, **more: object) -> Path:
    """A run whose dropout and linear results have these scales."""
    first, second = call([tensor()], [tensor(drop)]), call([tensor()], [tensor(linear)])
    return write(folder, {"Functional.dropout.0.forward": first, "Functional.linear.0.forward": second} | more)


@pytest.fixture
def reruns(tmp_path: Path) -> list[Path]:
    """Dropout varies by two percent between them, linear not at all."""
    return [run(tmp_path / f"run{number}", drop) for number, drop in enumerate((1.0, 1.01, 0.99))]


@pytest.fixture
def noise(reruns: list[Path], tmp_path: Path) -> Path:
    path = tmp_path / "noise.json"
    learn(reruns).profile.write(path)
    return path


def test_the_spread_of_each_operator(reruns: list[Path]) -> None:
    found = learn(reruns)
    spreads = {spread.operator: spread for spread in found.profile.spreads if spread.role == "output"}
    assert spreads["Functional.dropout"].element == pytest.approx(0.02 / 1.01)
    assert spreads["Functional.linear"].element == 0.0
    assert {spread.samples for spread in spreads.values()} == {3}
    assert "most of all output.0 of Functional.dropout.0" in found.lines[0]


JUDGED = {
    "normal_dropout": ({"drop": 1.04}, "same"),
    "too_much_dropout": ({"drop": 1.8}, "diverged"),
    "linear_never_varied": ({"linear": 1.0 + 1e-4}, "diverged"),
    "linear_within_rounding": ({"linear": 1.0 + 1e-7}, "same"),
}


@pytest.mark.parametrize("case", list(JUDGED))
def test_judged_in_multiples_of_the_spread(case: str, reruns: list[Path], noise: Path, tmp_path: Path) -> None:
    scales, verdict = JUDGED[case]
    target = run(tmp_path / "target", **scales)
    assert compare(target, reruns[0], noise=noise).verdict == verdict


def test_without_the_file_normal_noise_is_a_divergence(reruns: list[Path], noise: Path, tmp_path: Path) -> None:
    target = run(tmp_path / "target", drop=1.04)
    assert compare(target, reruns[0]).verdict == "diverged"
    (comparison,) = compare(target, reruns[0], noise=noise).comparisons()
    made = next(row for row in comparison.rows() if row.target == "Functional.dropout.0.forward.output.0")
    cells = dict(zip(comparison.columns, made.cells, strict=True))
    assert float(str(cells["Times tolerance"])) == pytest.approx((0.04 / 1.04) / (5 * 3.62 * 0.02 / 1.01), rel=1e-2)


def test_an_operator_that_no_rerun_had_keeps_its_tolerance(reruns: list[Path], noise: Path, tmp_path: Path) -> None:
    extra = {"Torch.exp.0.forward": call([tensor()], [tensor(1.001)])}
    other = {"Torch.exp.0.forward": call([tensor()], [tensor()])}
    found = compare(run(tmp_path / "a", **extra), run(tmp_path / "b", **other), noise=noise).summary.first_divergence
    assert found is not None and found.target == "Torch.exp.0.forward"


def test_the_document_follows_its_schema(noise: Path) -> None:
    jsonschema.validate(json.loads(noise.read_text()), noise_schema())
    assert NoiseProfile.read(noise).runs == 3


def test_what_is_no_noise_is_said(tmp_path: Path) -> None:
    runs = [run(tmp_path / "a"), run(tmp_path / "b", **{"Torch.exp.0.forward": call([tensor()], [tensor()])})]
    assert any("Not noise: Torch.exp.0.forward: missing_in_target" in line for line in learn(runs).lines)


def test_one_run_is_no_spread(tmp_path: Path) -> None:
    with pytest.raises(MsprobeException, match="got 1 run; give two or more"):
        learn([run(tmp_path / "a")])


WRONG = {"no_json": ("{", "not valid JSON"), "other_document": ('{"task": "statistics"}', "not a noise file: ")}


@pytest.mark.parametrize("case", list(WRONG))
def test_a_damaged_file_is_named(case: str, reruns: list[Path], tmp_path: Path) -> None:
    text, message = WRONG[case]
    path = tmp_path / "noise.json"
    path.write_text(text)
    with pytest.raises(ReadError, match=message):
        compare(reruns[0], reruns[1], noise=path)


def test_a_file_of_an_older_version_is_refused(reruns: list[Path], noise: Path) -> None:
    noise.write_text(noise.read_text().replace('"version": 2', '"version": 1'))
    with pytest.raises(ReadError, match="an older version of msprobe wrote it"):
        compare(reruns[0], reruns[1], noise=noise)


def test_more_calls_move_no_other_value(tmp_path: Path) -> None:
    """Of two layers the second varies; the target calls a function more in the first one."""

    def layers(name: str, scale: float, first: int = 1) -> Path:
        data, construct = {}, {}
        for number, (layer, value) in enumerate([("a", 1.0)] * first + [("b", scale)]):
            data[f"Functional.linear.{number}.forward"] = call([tensor(value)], [tensor(value)])
            construct[f"Functional.linear.{number}.forward"] = f"Module.{layer}.Layer.forward.0"
        for layer, value in (("a", 1.0), ("b", scale)):
            data[f"Module.{layer}.Layer.forward.0"] = call([tensor()], [tensor(value)])
        return write(tmp_path / name, data, construct)

    reruns = [layers(f"run{number}", 1.0 + 0.1 * number) for number in range(3)]
    learn(reruns).profile.write(tmp_path / "noise.json")
    for target, golden in (("more", reruns[0]), ("run0", layers("more", 1.1, first=2))):
        layers("more", 1.1, first=2)
        assert compare(tmp_path / target, golden, noise=tmp_path / "noise.json").verdict == "same"
    wrong = layers("wrong", 1.1, first=1)
    text = json.loads((wrong / "dump.json").read_text())
    for name in ("Functional.linear.0.forward", "Module.a.Layer.forward.0"):
        text["data"][name]["output"] = [tensor(1.05)]
    (wrong / "dump.json").write_text(json.dumps(text))
    found = compare(wrong, reruns[0], noise=tmp_path / "noise.json").summary.first_divergence
    assert found is not None and found.target == "Functional.linear.0.forward"


def test_the_reason_tells_what_was_exceeded(reruns: list[Path], noise: Path, tmp_path: Path) -> None:
    found = compare(run(tmp_path / "target", drop=1.8), reruns[0], noise=noise).summary.first_divergence
    assert found is not None and "more than between the reruns" in found.reason and "rounding" not in found.reason


def test_a_file_of_another_mode_is_refused(reruns: list[Path], noise: Path, tmp_path: Path) -> None:
    noise.write_text(noise.read_text().replace('"statistics"', '"tensor"'))
    result = compare(reruns[0], reruns[1], noise=noise)
    assert result.verdict == "not_comparable" and "learned from dumps of mode tensor" in result.summary.reason


def in_dtype(folder: Path, linear: str, dropout: str, scale: float = 1.0) -> Path:
    first, second = call([], [tensor(scale, dtype=dropout)]), call([], [tensor(dtype=linear)])
    return write(folder, {"Functional.dropout.0.forward": first, "Functional.linear.0.forward": second})


def test_a_file_of_another_dtype_is_refused(noise: Path, tmp_path: Path) -> None:
    runs = [in_dtype(tmp_path / name, "bfloat16", "bfloat16") for name in "ab"]
    result = compare(*runs, noise=noise)
    assert result.verdict == "not_comparable"
    assert "learned from values of torch.float32, these are of torch.bfloat16" in result.summary.reason


def test_a_dtype_that_the_file_lacks_is_told(noise: Path, tmp_path: Path) -> None:
    runs = [in_dtype(tmp_path / name, "bfloat16", "float32", scale) for name, scale in (("a", 1.04), ("b", 1.0))]
    result = compare(*runs, noise=noise)
    assert result.verdict == "same"
    assert result.summary.reason == (
        "1 values of torch.bfloat16 were judged as without the noise file, "
        "which has their operators only in torch.float32"
    )


def test_integers_are_no_dtype_to_tell_of(noise: Path, tmp_path: Path) -> None:
    runs = [in_dtype(tmp_path / name, "int64", "float32") for name in "ab"]
    assert compare(*runs, noise=noise).summary.reason == ""


def test_a_file_of_another_program_is_told(noise: Path, tmp_path: Path) -> None:
    runs = [write(tmp_path / name, {"Torch.exp.0.forward": call([], [tensor()])}) for name in "ab"]
    result = compare(*runs, noise=noise)
    assert result.verdict == "same" and "the noise file has none of these operators" in result.summary.reason


def test_checksums_have_no_spread(tmp_path: Path) -> None:
    runs = [
        write(tmp_path / name, {"Torch.exp.0.forward": call([tensor()], [tensor(md5="0" * 8)])}) for name in ("a", "b")
    ]
    with pytest.raises(NotComparableError, match="checksums have no spread"):
        learn(runs)


def test_few_reruns_that_agree_by_chance_raise_no_alarm(tmp_path: Path) -> None:
    """The noise of every call is normal and equally large; three reruns show a few of them far too small."""
    calls, size, exact = 60, 1e-3, "Functional.relu.0.forward"

    def noisy(name: str, seed: int, **changed: float) -> Path:
        generator = np.random.default_rng(seed)
        data = {exact: call([tensor()], [tensor(changed.get(exact, 1.0))])}
        for number in range(calls):
            scale = changed.get(f"op{number}", 1.0 + size * generator.standard_normal())
            data[f"Functional.op.{number}.forward"] = call([tensor()], [tensor(scale)])
        return write(tmp_path / name, data)

    path = tmp_path / "noise.json"
    reruns = [noisy(f"run{number}", number) for number in range(3)]
    learn(reruns).profile.write(path)
    for seed in range(10, 20):
        assert compare(noisy("again", seed), reruns[0], noise=path).verdict == "same"
    found = compare(noisy("fault", 20, op30=1.05), reruns[0], noise=path).summary.first_divergence
    assert found is not None and found.target == "Functional.op.30.forward"
    found = compare(noisy("exact", 21, **{exact: 1.0 + size}), reruns[0], noise=path).summary.first_divergence
    assert found is not None and found.target == exact


@pytest.mark.parametrize("odd", [[1.0], "one", 10**400, {"a": 1}], ids=["list", "text", "digits", "table"])
def test_a_damaged_value_is_no_agreement(odd: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = run(tmp_path / "good"), run(tmp_path / "bad")
    (document,) = bad.rglob("dump.json")
    content = json.loads(document.read_text())
    content["data"]["Functional.linear.0.forward"]["output"][0]["Max"] = odd
    document.write_text(json.dumps(content))
    assert main.run(["noise", str(bad), str(good), "-o", str(tmp_path / "noise.json")]) == 2
    out = capsys.readouterr().out
    assert "every value:" not in out
    assert "Not compared: 1 tensor is damaged in a record and not compared (first: Functional.linear.0.forward" in out
