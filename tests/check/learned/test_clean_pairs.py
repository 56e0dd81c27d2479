"""Relations of a good run hold on another seed, other data, rate, number of steps, precision, depth and width."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.matrices import matrix_params

pytest.importorskip("torch")

from tests.check.learned.recorded import held, learned, record
from tests.check.learned.varied_programs import GOOD, TRANSFORMERS, VARIANTS, clean_pairs, program_of

SAMPLE = {"language-larger", "language-autocast", "images-bfloat16", "recurrent-larger"}
PAIRS = [pytest.param(*pair, id="-".join(pair)) for pair in clean_pairs()]


@pytest.mark.matrix("wide", sample=2)
@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "variant"), matrix_params("silent", PAIRS, SAMPLE))
def test_relations_of_a_good_run_hold_in_a_variant(tmp_path: Path, name: str, variant: str) -> None:
    if name in TRANSFORMERS:
        pytest.importorskip("transformers")
    program = program_of(name)
    relations = learned(record(tmp_path / "good", program, GOOD), tmp_path / "relations.json")
    document = held(record(tmp_path / variant, program, VARIANTS[variant]), relations)
    assert document.findings == []
    told = document.notes[0].split()
    assert int(told[2]) > 0.7 * len(relations.relations), "most relations apply"
