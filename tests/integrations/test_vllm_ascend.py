"""The v1 model runner of vllm-ascend: eager with a debugger, graph mode with a dumper that has no ``stop``."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.fresh_debugger import forget
from tests.integrations.serving import answer, decoder, prompt

pytestmark = pytest.mark.torch


class Runner:
    """Calls the debugger where the model runner does, with the same arguments."""

    def __init__(self, config_path: str, graph: bool) -> None:
        from msprobe.pytorch import AclGraphDumper, PrecisionDebugger

        self.model = decoder()
        self.graph = graph
        self.debugger: Any = AclGraphDumper(config_path) if graph else PrecisionDebugger(config_path)
        self.started = False
        if graph:
            self._start()

    def _start(self, **kwargs: Any) -> None:
        self.debugger.start(self.model, **kwargs)
        self.started = True

    def _finish(self, **kwargs: Any) -> None:
        if not self.started:
            return
        if hasattr(self.debugger, "stop"):
            self.debugger.stop()
            self.started = False
        self.debugger.step(**kwargs)

    def execute_model(self, scheduled: dict[str, int]) -> torch.Tensor | None:
        if not scheduled:
            return None
        if not self.graph:
            self._start(scheduled_tokens=scheduled)
        tokens = answer(self.model, prompt())
        self._finish()
        return tokens

    def dummy_run(self) -> None:
        answer(self.model, prompt(9))
        self._finish(dump=False)


def test_each_iteration_that_ran_is_a_step(bench: Any) -> None:
    runner = Runner(bench.config(), graph=False)
    assert runner.execute_model({}) is None
    for _ in range(2):
        runner.execute_model({"a": 12, "b": 12})
    assert bench.folders() == ["step0/proc", "step1/proc"]
    assert "head.Linear.forward.0" in bench.modules("step1/proc")


def test_an_idle_worker_leaves_no_dummy_data(bench: Any) -> None:
    runner = Runner(bench.config(), graph=False)
    runner.dummy_run()
    runner.execute_model({"a": 12})
    assert bench.folders() == ["step0/proc"]
    runner.started = True  # the dummy pass that comes after a start
    runner.debugger.start(runner.model)
    runner.dummy_run()
    assert bench.folders() == ["step0/proc"]


def test_a_request_is_cut_out_of_the_batch(bench: Any) -> None:
    config = bench.config(statistics={"request_id": "b", "list": ["head"]})
    Runner(config, graph=False).execute_model({"a": 1, "b": 2})
    (entry,) = bench.entries("step0/proc").values()
    assert entry["output"][0]["shape"][0] == 2


def test_the_graph_dumper_has_no_stop_and_labels_what_it_did(bench: Any) -> None:
    from msprobe.pytorch import AclGraphDumper

    assert not hasattr(AclGraphDumper, "stop")
    runner = Runner(bench.config(level="mix"), graph=True)
    runner.dummy_run()
    runner.execute_model({"a": 12})
    assert bench.folders() == ["step1/proc"]  # between two requests there is no folder for what may come
    runner.execute_model({"a": 12})
    forget()
    assert bench.folders() == ["step1/proc", "step2/proc"]
    assert bench.modules("step1/proc") == bench.modules("step2/proc")
    assert bench.modules("step1/proc")
    (document,) = bench.dump.glob("step1/*/dump.json")
    assert '"kernel_source": "eager-code"' in document.read_text()


def test_the_graph_dumper_is_switched_by_its_file(bench: Any) -> None:
    path = bench.config(level="mix", dump_enable=False)
    runner = Runner(path, graph=True)

    def switch(on: bool) -> None:
        bench.config(level="mix", dump_enable=on)
        stamp = os.stat(path).st_mtime_ns + 10**9
        os.utime(path, ns=(stamp, stamp))
        assert runner.debugger._maybe_reload_config(force=True) is True

    runner.execute_model({"a": 12})
    switch(True)
    runner.debugger.step()
    runner.execute_model({"a": 12})
    switch(False)
    runner.execute_model({"a": 12})
    forget()
    assert bench.folders() == ["step2/proc"]
    assert bench.modules("step2/proc")


class Switch:
    """The fork for diagnosis: edits ``dump_enable`` under a lock, then has the debugger look."""

    def __init__(self, config_path: str) -> None:
        from msprobe.pytorch import PrecisionDebugger

        self.path = Path(config_path)
        self.debugger = PrecisionDebugger(config_path)

    def set(self, on: bool) -> None:
        with open(f"{self.path}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            config = json.loads(self.path.read_text())
            self.path.write_text(json.dumps({**config, "dump_enable": on}))
        self.debugger._maybe_reload_config(force=True)


def test_a_switch_in_the_locked_file_takes_effect_at_once(bench: Any) -> None:
    switch, model = Switch(bench.config(dump_enable=False)), decoder()
    for on in (False, True, False, True):
        switch.set(on)
        switch.debugger.start(model)
        answer(model, prompt())
        switch.debugger.stop()
        switch.debugger.step()
    assert bench.folders() == ["step1/proc", "step3/proc"]
    assert bench.modules("step1/proc") == bench.modules("step3/proc")
