"""What ``msprobe validate`` accepts the debugger accepts, and the reverse, for every framework."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import forked
from tests.cli.agreement import check, configurations, prepare
from tests.rules.tree import ROOT


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("agreement")
    prepare(place)
    return place


@pytest.mark.torch
@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_on_pytorch(data: st.DataObject, folder: Path) -> None:
    check(data.draw(configurations(folder)), folder, "msprobe.pytorch", "pytorch")


@pytest.mark.torch
@pytest.mark.parametrize(
    ("fields", "accepted"),
    [
        ({}, True),
        ({"task": "exception_dump"}, False),
        ({"custom_apis": "apis.yaml"}, True),
        ({"custom_apis": "scalar.yaml"}, False),
        ({"custom_apis": "names.yaml", "level": "L0"}, False),
        ({"task": "tensor", "tensor": {"bench_path": "absent"}}, False),
    ],
)
def test_what_was_judged_differently(fields: dict[str, object], accepted: bool, folder: Path) -> None:
    text = {key: str(folder / value) if key == "custom_apis" else value for key, value in fields.items()}
    assert check({"dump_path": "x", **text}, folder, "msprobe.pytorch", "pytorch") is accepted


@pytest.mark.mindspore
@pytest.mark.slow
@pytest.mark.parametrize("framework", ["mindspore", "msadapter"])
def test_on_mindspore(framework: str, tmp_path: Path) -> None:
    agree_on_mindspore(framework, tmp_path, 60)


@pytest.mark.mindspore
@pytest.mark.matrix("fuzz")
@pytest.mark.parametrize("framework", ["mindspore", "msadapter"])
def test_on_mindspore_at_random(framework: str, tmp_path: Path) -> None:
    agree_on_mindspore(framework, tmp_path, 2400, "random")


def agree_on_mindspore(framework: str, folder: Path, examples: int, *how: str) -> None:
    """Assert that validate and the debugger agree about so many configurations, in a process of their own."""
    words = ["-m", "tests.cli.agreement", framework, folder, examples, *how]
    result = forked.run(words, cwd=ROOT, timeout=1200, preloaded=forked.MINDSPORE)
    said = result.stdout.decode()
    assert result.returncode == 0, said[-2000:] + result.stderr.decode()[-4000:]
    counts = [int(line.split()[1]) for line in said.splitlines() if line.startswith("accepted ")]
    assert len(counts) == (3 if framework == "mindspore" else 1)
    assert all(count > 0 for count in counts)
