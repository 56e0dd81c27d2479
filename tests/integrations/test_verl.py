"""verl: one dump folder per global step and stage, in the ways of its three generations."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integrations.serving import answer, decoder, prompt

pytestmark = pytest.mark.torch

STAGES = ("actor_compute_log_prob", "ref_compute_log_prob", "actor_update")


class Profiler:
    """``generation`` 1: class attribute and optional step; 2: step after updates only; 3: reset instead of step."""

    def __init__(self, config_path: str, root: str, generation: int) -> None:
        self.config_path, self.root, self.generation = config_path, root, generation
        self.debugger: Any = None

    def start(self, step: int, stage: str, model: Any) -> None:
        from msprobe.pytorch import PrecisionDebugger

        path = f"{self.root}/step_{step}/{stage}"
        if self.generation == 1:
            if PrecisionDebugger._instance is None:
                PrecisionDebugger(config_path=self.config_path, dump_path=path)
            self.debugger = PrecisionDebugger._instance
        elif self.debugger is None:
            self.debugger = PrecisionDebugger(config_path=self.config_path, dump_path=path)
        self.debugger.service.config.dump_path = path
        self.debugger.start(model)

    def stop(self, stage: str) -> None:
        self.debugger.stop()
        if self.generation == 2 and stage == "actor_update":
            self.debugger.step()
        if self.generation == 3:
            reset = getattr(self.debugger.service, "reset_status", None) or self.debugger.service._reset_status
            reset()


@pytest.mark.parametrize("generation", [1, 2, 3])
def test_every_stage_has_its_folder(bench: Any, generation: int) -> None:
    profiler = Profiler(bench.config(), str(bench.dump), generation)
    actor, reference = decoder(), decoder()
    for step in range(2):
        for stage in STAGES:
            model = reference if stage.startswith("ref") else actor
            profiler.start(step, stage, model)
            answer(model, prompt(step))
            profiler.stop(stage)
    inner = {1: (0, 0), 2: (0, 1), 3: (0, 0)}[generation]
    expected = [f"step_{step}/{stage}/step{inner[step]}/proc" for step in range(2) for stage in sorted(STAGES)]
    assert bench.folders() == expected
    for folder in expected:
        assert bench.modules(folder)[-1] == "head.Linear.forward.0"


def test_the_service_of_a_training_and_inference_check(bench: Any) -> None:
    from msprobe.pytorch import PrecisionDebugger

    debugger, model = PrecisionDebugger(bench.config()), decoder()
    debugger.service.should_stop_service = True
    debugger.start(model, token_range=[0, 0])
    answer(model, prompt())
    debugger.stop()
    assert bench.folders() == []
    debugger.service.should_stop_service = False
    debugger.service.current_iter = 4
    debugger.start(model, token_range=[0, 0])
    answer(model, prompt())
    answer(model, prompt())
    debugger.stop()
    debugger.service._reset_status()
    assert bench.folders() == ["step4/proc"]
    assert bench.modules("step4/proc").count("head.Linear.forward.0") == 1
    assert "head.Linear.forward.1" not in bench.modules("step4/proc")


def test_the_profiler_of_an_installed_verl(bench: Any) -> None:
    """It needs NumPy 2 and Ray, which the environment of the tests does not have; run where verl is installed."""
    profile = pytest.importorskip("verl.utils.profiler.precision_debugger_profile")
    options = {"config_path": bench.config(), "stages": list(STAGES), "strict": True}
    profiler = profile.PrecisionDebuggerProfiler(options, rank=0, save_path=str(bench.dump))
    model = decoder()
    for step in range(2):
        for stage in STAGES:
            started = profiler.start(stage=stage, global_step=step, model=model)
            answer(model, prompt(step))
            profiler.stop(started=started)
    assert bench.folders() == [f"step_{step}/{stage}/step0/proc" for step in (0, 1) for stage in sorted(STAGES)]
