"""``msprobe offline_dump``: a dump of a model, what is told of it, and that ``compare`` reads it."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from msprobe.cli.main import run
from msprobe.core import host
from tests.offline_models.exported import save


@pytest.fixture
def model(tmp_path: Path) -> Path:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["t"], "/fc/MatMul"), helper.make_node("Relu", ["t"], ["y"])]
    return save(tmp_path, nodes, {"w": np.eye(4, dtype=np.float32)})


def test_records_and_compares(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "x.npy", np.ones((3, 4), np.float32))
    words = ["offline_dump", "--model_path", str(model), "--input_data", str(tmp_path / "x.npy"), "-o"]
    assert run([*words, str(tmp_path / "a")]) == 0
    assert run([*words, str(tmp_path / "b"), "--output_size", "12", "--onnx_fusion_switch", "True", "--rank", "0"]) == 0
    text = capsys.readouterr().out
    assert "Recorded: 2 nodes with x [3, 4]" in text
    assert "With onnxruntime's optimisations: the same 1 outputs" in text
    pair = ["compare", "-tp", str(tmp_path / "a"), "-gp", str(tmp_path / "b"), "-o", str(tmp_path / "out")]
    assert run([*pair, "--fail-on", "incomplete"]) == 0
    assert "Verdict: SAME" in capsys.readouterr().out


def test_draws_inputs_and_keeps_them(model: Path, tmp_path: Path) -> None:
    words = ["offline_dump", "--model_path", str(model), "--input_shape", "x:5,4", "--task", "statistics"]
    assert run([*words, "-o", str(tmp_path / "a")]) == 0
    assert np.load(tmp_path / "a/inputs/step0/x.npy").shape == (5, 4)
    assert run([*words[:3], "--dym_shape_range", "x:2~3,4", "-o", str(tmp_path / "b")]) == 0
    assert [np.load(tmp_path / f"b/inputs/step{step}/x.npy").shape for step in (0, 1)] == [(2, 4), (3, 4)]


def test_a_folder_that_cannot_be_made(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["offline_dump", "--model_path", str(model), "-o", "/proc/none"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.skipif(host.free_memory() is None, reason="the system does not say how much memory is free")
def test_a_model_that_computes_more_than_fits_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = [helper.make_node("Concat", [f"h{level}"] * 2, [f"h{level + 1}"], axis=0) for level in range(25)]
    nodes[0].input[:], nodes[-1].output[:] = ["x", "x"], ["y"]
    model = save(tmp_path, nodes, {})
    monkeypatch.setattr(host, "free_memory", lambda: 256 << 20)  # a small machine
    assert run(["offline_dump", "--model_path", str(model), "--input_shape", "x:2,4", "-o", str(tmp_path / "a")]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "onnxruntime cannot run it with x [2, 4]" in error
    assert "memory" in error


def test_a_model_that_takes_long_can_be_interrupted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["goes"]), helper.make_node("Sin", ["v"], ["w"])],
        "body",
        [
            helper.make_tensor_value_info("i", onnx.TensorProto.INT64, []),
            helper.make_tensor_value_info("go", onnx.TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", onnx.TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("goes", onnx.TensorProto.BOOL, []),
            helper.make_tensor_value_info("w", onnx.TensorProto.FLOAT, None),
        ],
    )
    times = np.array(100_000_000)  # minutes
    loop = save(tmp_path, [helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)], {"n": times})
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 2.0)
    began = time.monotonic()
    try:
        assert run(["offline_dump", str(loop), "--input_shape", "x:2,4", "-o", str(tmp_path / "a")]) == 130
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    assert time.monotonic() - began < 20
    assert capsys.readouterr().err == "msprobe: error: interrupted\n"
