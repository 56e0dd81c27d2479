"""MindSpeed-RL and slime: tagged folders, no configuration file, lists of chunks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tests.integrations.serving import answer, decoder, prompt

pytestmark = pytest.mark.torch

TAGS = ("actor_generate_sequences", "actor_compute_log_prob", "actor_update", "reference_compute_log_prob")


def test_mindspeed_rl(bench: Any) -> None:
    from msprobe.pytorch import PrecisionDebugger

    root, model = str(bench.dump), decoder()
    debugger = PrecisionDebugger(task="statistics", level="L0", step=["0-1"], dump_path=root)
    for number in range(3):
        for tag in TAGS:
            debugger.service.first_start = True
            debugger.service.config.dump_path = f"{root}/{tag}"
            debugger.start(model=model)
            answer(model, prompt(number))
            debugger.stop()
            debugger.service.reset_status()
        debugger.step()
    assert debugger.config.dump_path == root
    assert bench.folders() == sorted(f"{tag}/step{step}/proc" for tag in TAGS for step in (0, 1))


def test_mindspeed_rl_saves_single_values(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from msprobe.core import SingleSave

    monkeypatch.setattr(SingleSave, "_instance", None)
    saver = SingleSave(str(bench.dump))
    for step in range(2):
        saver.save({"response": torch.full((2,), float(step), dtype=torch.bfloat16), "pair": [torch.ones(1), {"a": 2}]})
        saver.save({"response": torch.zeros(1)})
        saver.step()
    folder = bench.dump / "data"
    value = np.load(folder / "response" / "step1" / "rank0" / "micro_step0" / "response.npy")
    assert (value.tolist(), value.dtype) == ([1.0, 1.0], np.float32)
    assert (folder / "response" / "step1" / "rank0" / "micro_step1" / "response.json").is_file()
    assert sorted(path.name for path in (folder / "pair" / "step0" / "rank0" / "micro_step0").iterdir()) == [
        "pair.0.npy",
        "pair.1.a.npy",
        "pair.json",
    ]


def test_single_values_stay_below_their_folder(
    bench: Any, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    from msprobe.core import SingleSave

    outside = tmp_path_factory.mktemp("outside")
    (outside / "mine").write_text("mine")
    folder = bench.dump / "data" / "value" / "step0" / "rank0" / "micro_step0"
    folder.mkdir(parents=True)
    (folder / "value.npy").symlink_to(outside / "mine")
    (bench.dump / "data" / "other").symlink_to(outside)
    monkeypatch.setattr(SingleSave, "_instance", None)
    SingleSave(str(bench.dump)).save({"value": torch.ones(1), "other": torch.ones(1)})
    assert {path.name: path.read_text() for path in outside.iterdir()} == {"mine": "mine"}
    assert np.load(folder / "value.npy").tolist() == [1.0]


def test_slime(bench: Any) -> None:
    from msprobe.pytorch import PrecisionDebugger

    debugger = PrecisionDebugger(bench.config())
    chunks = [decoder(), decoder()]
    for stage in ("rollout", "train"):
        debugger.service.config.dump_path = f"{debugger.config.dump_path}/{stage}"
        debugger.start(model=chunks, rank_id=1)
        for chunk in chunks:
            answer(chunk, prompt())
        debugger.stop()
    assert bench.folders() == ["rollout/step0/rank1", "train/step0/rank1"]
    assert [name for name in bench.modules("train/step0/rank1") if "head" in name] == [
        "0.head.Linear.forward.0",
        "1.head.Linear.forward.0",
    ]
