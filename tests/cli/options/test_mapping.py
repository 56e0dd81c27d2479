"""Flags of compare as documented: short and long names, values that may be left out."""

from __future__ import annotations

from typing import Any

import click
import pytest

from msprobe.cli.comparison.compare import command
from msprobe.cli.main import run
from msprobe.cli.options.help_text import normalized
from msprobe.cli.options.mapping import mapping_keywords

PATHS = ("-tp", "a", "-gp", "b")


def parsed(*words: str) -> dict[str, Any]:
    with command.make_context("compare", list(words), token_normalize_func=normalized) as context:
        return mapping_keywords(dict(context.params))


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        pytest.param(("-lm",), "layer_mapping", True, id="lm"),
        pytest.param(("-lm", "l.yaml"), "layer_mapping", "l.yaml", id="lm-file"),
        pytest.param(("-lm", "-o", "x"), "layer_mapping", True, id="lm-before-a-flag"),
        pytest.param(("--layer_mapping", "l.yaml"), "layer_mapping", "l.yaml", id="layer_mapping"),
        pytest.param(("--layer-mapping=l.yaml",), "layer_mapping", "l.yaml", id="layer-mapping"),
        pytest.param(("-cm",), "cell_mapping", True, id="cm"),
        pytest.param(("-cm", "c.yaml"), "cell_mapping", "c.yaml", id="cm-file"),
        pytest.param(("--cell_mapping",), "cell_mapping", True, id="cell_mapping"),
        pytest.param(("-am",), "api_mapping", True, id="am"),
        pytest.param(("--api_mapping", "a.yaml"), "api_mapping", "a.yaml", id="api_mapping"),
        pytest.param(("-dm", "d.yaml"), "data_mapping", "d.yaml", id="dm"),
        pytest.param(("--data_mapping", "d.yaml"), "data_mapping", "d.yaml", id="data_mapping"),
        pytest.param(("-fm",), "fuzzy_match", True, id="fm"),
        pytest.param(("--fuzzy_match",), "fuzzy_match", True, id="fuzzy_match"),
        pytest.param((), "layer_mapping", None, id="nothing"),
        pytest.param(("--pair", "order"), "pair", "order", id="pair"),
        pytest.param(("-o",), "output_path", "./output", id="o-alone"),
        pytest.param(("--consistent_check", "--backend", "fsdp"), "consistent_check", True, id="consistent-check"),
        pytest.param(("--backend", "megatron", "--consistent-check"), "backend", "megatron", id="backend"),
        pytest.param(("-m", "auto", "-tensor_log"), "log_items", True, id="older"),
    ],
)
@pytest.mark.parametrize("first", [True, False], ids=["paths-first", "paths-last"])
def test_flags(words: tuple[str, ...], name: str, value: object, first: bool) -> None:
    assert parsed(*((*PATHS, *words) if first else (*words, *PATHS)))[name] == value


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(("-m", "npu"), "'auto', 'offline_data', 'torchair', 'offline_model', 'atb'", id="mode"),
        pytest.param(("--backend", "torch"), "'fsdp', 'megatron'", id="backend"),
        pytest.param(("-dm",), "requires an argument", id="dm-alone"),
        pytest.param(("--pair", "name"), "'number', 'order'", id="pair"),
    ],
)
def test_what_cannot_be_is_one_line(words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(click.UsageError):
        parsed(*PATHS, *words)
    assert run(["compare", *PATHS, *words]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1 and said in lines[0]


def test_a_bad_mapping_file_is_one_line(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    from tests.compare.dumps import call, tensor, write

    dump = str(write(tmp_path / "a", {"Torch.abs.0.forward": call([tensor()], [tensor()])}))
    (tmp_path / "c.yaml").write_text("a: b\na: c\n")
    words = ["compare", "-tp", dump, "-gp", dump, "-o", str(tmp_path / "out"), "-cm", str(tmp_path / "c.yaml")]
    assert run(words) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1 and "c.yaml, line 2: 'a' is there already, in line 1" in lines[0]
    assert not list(tmp_path.glob("out/*"))
