"""Settings in logs of verl and slime."""

from __future__ import annotations

import pprint
from pathlib import Path

import pytest

from msprobe.core.errors import ReadError
from msprobe.setup_check.logs.settings import flat_log, read_log
from msprobe.setup_check.logs.tables import CONSISTENT_RUN, compare_logs, verify_log

SETTINGS = {
    "actor_rollout_ref": {"actor": {"optim": {"lr": 1e-06}, "strategy": "it's {odd}"}, "rollout": {"n": 8}},
    "data": {"train_batch_size": 32, "files": ["a", "b"], "none": None, "api_key": "secret"},
    "trainer": {"n": 1, "profiler/x": 3},
}
TABLE = """\
------------------------ arguments ------------------------
  accumulate_allreduce_grads_in_fp32 .............. True
  lr .............................................. 1e-06
  name ............................................ a b
-------------------- end of arguments ---------------------
"""


def verl_log(path: Path, prefix: str, settings: dict[str, object] = SETTINGS) -> Path:  # type: ignore[assignment]
    """Write the settings as verl prints them."""
    lines = [prefix + line for line in pprint.pformat(settings).splitlines()]
    path.write_text("\n".join(["start {'a': 1}", *lines, f"{prefix}step:1 - loss:0.2"]))
    return path


@pytest.mark.parametrize("prefix", ["", "(TaskRunner pid=123) ", "\x1b[36m(TaskRunner pid=123, ip=1.2.3.4)\x1b[0m "])
def test_verl(tmp_path: Path, prefix: str) -> None:
    settings = read_log(verl_log(tmp_path / "a.log", prefix), "verl")
    assert flat_log(settings) == {
        "actor_rollout_ref/actor/optim/lr": 1e-06,
        "actor_rollout_ref/actor/strategy": "it's {odd}",
        "actor_rollout_ref/rollout/n": 8,
        "data/train_batch_size": 32,
        "data/files": ["a", "b"],
        "data/none": None,
        "data/api_key": "***",
        "trainer/n": 1,
    }


@pytest.mark.parametrize(
    "text",
    [
        TABLE,
        TABLE.replace("\n", "\n(Actor pid=1) "),
        "INFO Namespace(lr=1e-06, name='a b', accumulate_allreduce_grads_in_fp32=True)",
    ],
)
def test_slime(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.log").write_text(f"x\n{text}\ny")
    assert read_log(tmp_path / "a.log", "slime") == {
        "accumulate_allreduce_grads_in_fp32": True,
        "lr": 1e-06,
        "name": "a b",
    }


@pytest.mark.parametrize(
    "text", ["", "{'actor_rollout_ref': {'a': __import__('os')}}", "{'actor_rollout_ref': {", TABLE[:20]]
)
@pytest.mark.parametrize("kind", ["verl", "slime"])
def test_logs_without_settings(tmp_path: Path, text: str, kind: str) -> None:
    (tmp_path / "a.log").write_text(text)
    with pytest.raises(ReadError, match="no settings in it"):
        read_log(tmp_path / "a.log", kind)  # type: ignore[arg-type]


def test_compared(tmp_path: Path) -> None:
    other = {**SETTINGS, "trainer": {"n": 2, "only": "=1+1"}}
    lines = compare_logs(
        verl_log(tmp_path / "a.log", ""), verl_log(tmp_path / "b.log", "", other), "verl", tmp_path / "out"
    )
    assert lines == ["trainer/n: 1 against 2", "trainer/only: NA against '=1+1'"]
    table = (tmp_path / "out/hyper_params_compare.csv").read_text("utf-8-sig").splitlines()
    assert table[0] == "超参名称,NPU生效值,bench生效值,是否一致"
    assert "actor_rollout_ref/rollout/n,8,8,是" in table
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "NPU_config.json",
        "bench_config.json",
        "hyper_params_compare.csv",
    ]


def test_verified(tmp_path: Path) -> None:
    log = verl_log(tmp_path / "a.log", "")
    assert len(verify_log(None, log, tmp_path / "out")) == len(CONSISTENT_RUN)
    (tmp_path / "b.yaml").write_text("actor_rollout_ref: {actor: {optim: {lr: 1e-06}}, rollout: {n: 5}}")
    assert verify_log(tmp_path / "b.yaml", log, tmp_path / "out") == ["actor_rollout_ref/rollout/n: 5 against 8"]
    (tmp_path / "b.yaml").write_text("[]")
    with pytest.raises(ReadError, match="no table of settings"):
        verify_log(tmp_path / "b.yaml", log, tmp_path / "out")
