"""Communication of two real ranks on gloo, followed from rank to rank in the page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from msprobe.visualize.job import Request, visualize
from tests.recordings import Recordings
from tests.visualize.job_recordings import record_communication
from tests.visualize.viewer.sources import from_the_file

pytestmark = [pytest.mark.torch, pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def database(recordings: Recordings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    dump = recordings(record_communication) / "dump"
    return visualize(Request(target=dump, output=tmp_path_factory.mktemp("out")))


@from_the_file
@pytest.mark.parametrize(
    ("call", "told", "partner"),
    [
        pytest.param("send.1", "send rank 1", "recv.1", id="point-to-point"),
        pytest.param("isend.0", "send rank 1", "irecv.1", id="by-tag"),
        pytest.param("batch_isend_irecv.0", "send receive rank 1", "batch_isend_irecv.0", id="batched"),
        pytest.param("all_reduce.2", "send receive rank 1", "all_reduce.2", id="collective"),
        pytest.param("gather.0", "receive rank 1", "gather.0", id="rooted"),
    ],
)
def test_a_link_leads_to_the_call_of_the_other_rank(
    view: Callable[..., Any], database: Path, call: str, told: str, partner: str
) -> None:
    page = view(database, link=f"#rank=0&node=Distributed.{call}.forward&tab=about")
    page.until(lambda: page.text(".about"), lambda text: told in text)
    page.click(".about .link")
    page.until(lambda: page.driver.current_url, lambda url: "rank=1" in url)
    assert page.until(lambda: page.selected, bool) == f"Distributed.{partner}.forward"
    page.until(lambda: page.text(".about"), lambda text: "rank 0" in text)
    page.click(".about .link")
    page.until(lambda: page.driver.current_url, lambda url: "rank=0" in url)
    assert page.selected == f"Distributed.{call}.forward"
