"""Graph mode: what the configuration says, switching by the file, compiled code, and captures that go wrong."""

from __future__ import annotations

import json
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

from msprobe.adapters.pytorch.tensors.captured_values import CapturedTensorOps
from msprobe.cli.main import main
from msprobe.core.errors import ConfigError
from msprobe.pytorch import AclGraphDumper
from tests.adapters.pytorch.recorded_graphs import RecordedGraph, capture
from tests.adapters.pytorch.test_graph_dumper import (
    Graphs,
    Model,
    assert_same,
    document,
    dumper,
    eager,
    forget,
    graphs,
)

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]
__all__ = ["graphs"]
on_cpu = pytest.mark.parametrize("graphs", ["cpu"], indirect=True)


@pytest.mark.parametrize(
    ("field", "value", "choices"),
    [("level", "L2", "L0, L1, mix"), ("level", "debug", "L0, L1, mix"), ("task", "nan_check", "statistics, tensor")],
)
def test_what_graphs_do_not_have_is_refused(tmp_path: Path, field: str, value: str, choices: str) -> None:
    forget()
    config = {"dump_path": str(tmp_path), "level": "L1", field: value}
    if value == "L2":
        config |= {"task": "tensor", "tensor": {"list": ["Torch.relu.0.forward"]}}
    with pytest.raises(ConfigError, match=choices) as error:
        AclGraphDumper(config)
    assert f"{field}:" in str(error.value)
    forget()


def test_a_live_comparison_is_refused(tmp_path: Path) -> None:
    forget()
    with pytest.raises(ConfigError, match=r"tensor\.bench_path: .*msprobe compare afterwards"):
        AclGraphDumper({"dump_path": str(tmp_path), "task": "tensor", "tensor": {"bench_path": str(tmp_path)}})
    forget()


@on_cpu
def test_compare_reads_a_run_in_graph_mode_beside_an_eager_one(
    graphs: Graphs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, x = Model().eval(), graphs.random(2, 8)
    with torch.no_grad():
        started = dumper(tmp_path / "graph", model, level="mix")
        graph = graphs.capture(lambda: model(x))
        started.step(dump=False)
        for wrong in (False, True):
            if wrong:  # as if the graph had another weight than the program
                model.blocks[1].linear.weight.mul_(1.5)
                started.step(dump=False)
            graph.replay()
            started.step()
        model.blocks[1].linear.weight.div_(1.5)
        eager(tmp_path / "eager", model, lambda: model(x), level="mix")
    golden = str(next((tmp_path / "eager").glob("step0/*")))
    for step, verdict in ((1, "SAME"), (3, "First divergence in step 3: Module.blocks.1.linear.Linear.forward.0")):
        target = str(next((tmp_path / "graph").glob(f"step{step}/*")))
        with pytest.raises(SystemExit):
            main(["compare", "-tp", target, "-gp", golden, "-o", str(tmp_path / f"result{step}")])
        out = capsys.readouterr().out
        assert verdict in out, out


@on_cpu
def test_settings_without_effect_in_graphs_are_told(
    graphs: Graphs, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model, x = Model().eval(), graphs.random(2, 8)
    with caplog.at_level("WARNING"), torch.no_grad():
        started = dumper(tmp_path, model, level="L0", async_dump=True, statistics={"summary_mode": "md5"})
        graph = graphs.capture(lambda: model(x))
        started.step(dump=False)
        graph.replay()
        model(x)
        started.step()
    assert "async_dump has no effect on calls inside captured graphs" in caplog.text
    assert "summary_mode has no effect on calls inside captured graphs" in caplog.text
    data = document(tmp_path, 1)["data"]
    inside, outside = (data[f"Module.head.Linear.forward.{number}"]["output"][0] for number in range(2))
    assert "md5" not in inside
    assert outside["md5"]
    assert inside["Max"] == outside["Max"]


@on_cpu
def test_a_graph_captured_while_off_is_recorded_later(
    graphs: Graphs, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config, dump = tmp_path / "config.json", tmp_path / "dump"
    model, x = Model().eval(), graphs.random(2, 8)

    def switch(on: bool, **more: Any) -> None:
        config.write_text(json.dumps({"dump_path": str(dump), "level": "mix", "dump_enable": on, **more}))
        stamp = switch.stamp = getattr(switch, "stamp", 10**18) + 10**9  # type: ignore[attr-defined]
        os.utime(config, ns=(stamp, stamp))

    switch(False)
    started = AclGraphDumper(str(config))
    started.start(model)
    with torch.no_grad(), caplog.at_level("WARNING"):
        graph = graphs.capture(lambda: model(x))
        assert "dump_enable is off while graphs are captured" in caplog.text
        for number, on in enumerate((False, True, False, True)):
            switch(on)
            started._maybe_reload_config(force=True)
            started.step()  # it takes effect with the next step
            x.copy_(torch.full((2, 8), float(number)))
            graph.replay()
            started.step()
        switch(True, rank=[], list=[], extra_info=False)  # another configuration: the session is made anew
        started._maybe_reload_config(force=True)
        started.step()
        graph.replay()
        started.step()
    assert sorted(path.name for path in dump.iterdir()) == ["step3", "step7", "step9"]
    for number, step in ((1, 3), (3, 7)):
        data = document(dump, step)["data"]
        assert data["Module.blocks.0.linear.Linear.forward.0"]["input_args"][0]["Max"] == number
        assert document(dump, step, "construct.json")["Functional.linear.0.forward"] is not None
    assert "Module.head.Linear.forward.0" in document(dump, 9)["data"]
    assert not list(dump.glob("step9/*/construct.json"))


@on_cpu
def test_a_rank_that_is_left_out_measures_nothing(graphs: Graphs, tmp_path: Path) -> None:
    model, x = Model().eval(), graphs.random(2, 8)
    with torch.no_grad():
        plain = RecordedGraph()
        with capture(plain):
            model(x)
        started = AclGraphDumper({"dump_path": str(tmp_path), "level": "L0", "rank": [5]})
        started._debugger.start(model=model, rank_id=3)
        graph = graphs.capture(lambda: model(x))
        graph.replay()
        started.step()
    assert len(graph.steps) == len(plain.steps)
    assert not list(tmp_path.iterdir())


@on_cpu
def test_a_capture_that_fails_does_not_end_the_recording(graphs: Graphs, tmp_path: Path) -> None:
    model, x = Model().eval(), graphs.random(2, 8)
    with torch.no_grad():
        started = dumper(tmp_path, model, level="L0")
        with pytest.raises(RuntimeError, match="waits for a value"):
            graphs.capture(lambda: model(x).sum().item())
        graph = graphs.capture(lambda: model(x))
        started.step(dump=False)
        graph.replay()
        started.step()
    assert "Module.head.Linear.forward.0" in document(tmp_path, 1)["data"]


@on_cpu
def test_an_error_of_the_tool_does_not_reach_the_program(
    graphs: Graphs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any) -> None:
        raise ValueError("broken on purpose")

    model, x = Model().eval(), graphs.random(2, 8)
    results: list[torch.Tensor] = []
    with torch.no_grad():
        started = dumper(tmp_path, model, level="L0")
        monkeypatch.setattr(CapturedTensorOps, "end", broken)
        graph = graphs.capture(lambda: results.append(model(x)))
        monkeypatch.undo()
        x.copy_(torch.ones(2, 8))
        graph.replay()
        started.step()
        assert torch.equal(results[0], model(torch.ones(2, 8)))
    assert "broken on purpose" in caplog.text


@on_cpu
def test_nothing_stays_replaced(graphs: Graphs, tmp_path: Path) -> None:
    before = RecordedGraph.replay, torch.nn.Module.__call__, torch.relu
    dumper(tmp_path, Model(), level="mix", step=[7])  # the taps wait for captures
    assert before[1] is not torch.nn.Module.__call__
    forget()
    assert before == (RecordedGraph.replay, torch.nn.Module.__call__, torch.relu)


@on_cpu
def test_another_thread_that_works_during_a_capture_is_no_part_of_it(graphs: Graphs, tmp_path: Path) -> None:
    model, other, x = Model().eval(), Model().eval(), graphs.random(2, 8)

    def elsewhere() -> None:
        with torch.no_grad():
            other(torch.zeros(2, 8))

    def work() -> None:
        model(x)
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()

    with torch.no_grad():
        started = dumper(tmp_path, [model, other], level="L0")
        graph = graphs.capture(work)
        started.step(dump=False)
        graph.replay()
        started.step()
    assert {name.split(".")[1] for name in document(tmp_path, 1)["data"]} == {"0"}


@pytest.mark.slow
@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize(
    "backend",
    [
        "aot_eager",
        pytest.param(
            "inductor",
            marks=[
                pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs g++"),
                pytest.mark.matrix("wide"),
            ],
        ),
    ],
)
@on_cpu
def test_compiled_code_is_recorded_and_labelled(graphs: Graphs, tmp_path: Path, backend: str) -> None:
    model, inputs = Model().eval(), [graphs.random(4, 8) for _ in range(2)]
    with torch.no_grad():
        started = dumper(tmp_path / "graph", model, level="L0")
        compiled = torch.compile(model, backend=backend)
        compiled(inputs[0])
        started.step(dump=False)
        for value in inputs:
            compiled(value)
            started.step()
        for number, value in enumerate(inputs, 1):
            plain = eager(tmp_path / f"eager{number}", model, lambda value=value: model(value), level="L0")
            recorded = document(tmp_path / "graph", number)
            assert recorded["kernel_source"] == "compiled-code"
            assert_same(recorded, plain)
