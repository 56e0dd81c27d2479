"""The ``framework`` fixture: every contract test runs once per framework; ``--backends=fake`` chooses.

A known gap stands in ``gaps/{framework}.txt`` as ``test name | reason``. It is a strict expected failure: once the
gap is closed, its line must go.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from msprobe.core.config import load_config
from msprobe.core.dump.session.session import DumpSession
from msprobe.core.store.reader import Dump
from tests.contracts.frameworks import ALONE, FRAMEWORKS, Framework, installed

GAPS = Path(__file__).parent / "gaps"
Collect = Callable[..., Dump]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--backends", default=",".join(FRAMEWORKS), help="frameworks of the contract tests, such as fake,torch"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "framework" not in metafunc.fixturenames:
        return
    chosen = metafunc.config.getoption("backends", ",".join(FRAMEWORKS)).split(",")
    gaps = {name: _gaps(name) for name in chosen}
    metafunc.parametrize(
        "framework",
        [pytest.param(name, marks=_marks(metafunc.function.__name__, name, gaps)) for name in chosen],
        indirect=True,
    )


def _marks(test: str, name: str, gaps: dict[str, dict[str, str]]) -> list[Any]:
    marks: list[Any] = [pytest.mark.skipif(not installed(name), reason=f"{name} is not installed")]
    if name in ("torch", "mindspore"):
        marks.append(getattr(pytest.mark, name))
    reason = gaps[name].get(test)
    return marks if reason is None else [*marks, pytest.mark.xfail(strict=True, reason=reason)]


def _gaps(name: str) -> dict[str, str]:
    path = GAPS / f"{name}.txt"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    pairs = [line.split("|", 1) for line in lines if line.strip() and not line.startswith("#")]
    return {test.strip(): reason.strip() for test, reason in pairs}


@pytest.fixture
def framework(request: pytest.FixtureRequest) -> Framework:
    return {**FRAMEWORKS, **ALONE}[request.param]()


@pytest.fixture
def collect(framework: Framework, tmp_path: Path) -> Collect:
    """Run a function between start and the end of a step, and load what was recorded."""

    def run(body: Callable[[], Any], model: Any = None, **config: Any) -> Dump:
        settings = {"dump_path": str(tmp_path / "dump"), "risk_level": "ALL", "level": "L1", **config}
        session = DumpSession(load_config(settings), framework.make)
        try:
            session.start(model)
            body()
            session.stop()
        finally:
            session.close()
        return framework.load(tmp_path / "dump")

    return run
