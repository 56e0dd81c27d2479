"""Every command on damaged inputs and with odd words: an exit status and lines, no traceback and no hang.

Nothing in an input is executed, and nothing is written outside the output folder.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from msprobe.cli.main import COMMANDS
from tests.cli.hostile import Inputs, damage
from tests.cli.outcome import ends_well

READERS = {
    "compare": "compare -tp in/bad -gp in/good -o out",
    "compare -da": "compare -da -tp in/bad -gp in/good -o out",
    "compare a run that died": "compare -tp in/died -gp in/good -o out --html out/a.html --junit out/a.xml",
    "compare tensors": "compare -tp in/tensors -gp in/tensors -o out --json out/a.json",
    "compare with a mapping": "compare -tp in/bad -gp in/good -o out -dm in/mapping.yaml",
    "compare with a noise profile": "compare -tp in/bad -gp in/good -o out --noise in/noise.json",
    "compare with accepted differences": "compare -tp in/bad -gp in/good -o out --accept in/accepted.yaml",
    "accept": "accept in/result.json --reason known -o out/accepted.yaml",
    "graph_visualize": "graph_visualize -tp in/bad -o out -oc",
    "graph_visualize of two": "graph_visualize -tp in/bad -gp in/good -o out",
    "graph_visualize of a run that died": "graph_visualize -tp in/died -o out",
    "overflow_check": "overflow_check -i in/bad -o out",
    "data2db": "data2db --data in/bad --db out --mapping in/names.json",
    "noise": "noise in/bad in/good -o out/noise.json",
    "validate": "validate in/config.json",
    "doctor": "doctor in/config.json --dump in/bad",
    "config_check": "config_check -c in/first.safetensors in/second.safetensors -o out/a.json",
    "config_check of torch": "config_check -c in/first.pt in/second.pt -o out/a.json",
    "parse": "parse -d in/first.pt -t npy -o out",
    "merge_result": "merge_result -i in/tables -o out -config in/merge.yaml",
    "view": "view in/graph.vis.db --html out/page.html",
}
READ = {
    "compare": ("bad",),
    "compare -da": ("bad", "good"),
    "compare a run that died": ("died",),
    "compare tensors": ("tensors",),
    "compare with a mapping": ("mapping.yaml",),
    "compare with a noise profile": ("noise.json",),
    "compare with accepted differences": ("accepted.yaml", "bad"),
    "accept": ("result.json",),
    "graph_visualize": ("bad",),
    "graph_visualize of two": ("bad", "good"),
    "graph_visualize of a run that died": ("died",),
    "overflow_check": ("bad",),
    "data2db": ("bad", "names.json"),
    "noise": ("bad",),
    "validate": ("config.json",),
    "doctor": ("config.json", "bad"),
    "config_check": ("first.safetensors",),
    "config_check of torch": ("first.pt",),
    "parse": ("first.pt",),
    "merge_result": ("tables", "merge.yaml"),
    "view": ("graph.vis.db",),
}
"""What each of them reads, below the folder of inputs."""
ENDLESS = {"run", "view"}
"""Commands that run a program of the user, or serve until they are interrupted."""
EXAMPLES = 8
"""Of each reader in CI; with the odd words some 250 inputs, and 10,000 in the matrix."""
KNOWN_WORDS = """
-tp -gp -o -i -da --json --html --junit - -- --help -c -f --rank --step in/bad in/good in in/config.json nothing -1 0
99999999999999999999 pytorch s3://bucket/x memory://x file:/// :// * in/graph.vis.db -config -dm --noise --data --db
tp=2,pp=2 --target-parallel --rank_size 2 --tp --pp --metric nan ../outside/mine
"""
WORDS = st.one_of(st.sampled_from([*KNOWN_WORDS.split(), "", "a\x00b"]), st.text(max_size=20))


@pytest.fixture(scope="module")
def inputs_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32 - 1))
def test_damaged_inputs(reader: str, inputs_root: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setenv("MSPROBE_LOG_LEVEL", "1")
    inputs = Inputs(inputs_root / "case")
    files = [path for name in READ[reader] for path in inputs.files() if path.is_relative_to(inputs.folder / name)]
    damage(files[seed % len(files)], seed)
    ends_well(READERS[reader].split(), inputs)


@pytest.mark.slow
@pytest.mark.parametrize("command", sorted(set(COMMANDS) - ENDLESS))
@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
@given(words=st.lists(WORDS, max_size=6))
def test_odd_words(command: str, inputs_root: Path, words: list[str]) -> None:
    inputs = Inputs(inputs_root / "case")
    output = {"-o", "--output", "--html", "--json", "--junit", "--db"}
    kept = [word for word in words if word not in output]  # they say where to write
    ends_well([command, *kept], inputs)
