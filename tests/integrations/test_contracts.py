"""What integrations call and read beyond the documentation, one promise per test."""

from __future__ import annotations

import importlib.metadata
import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from msprobe.core.distribution import NAME
from tests.fresh_debugger import forget
from tests.integrations.serving import answer, decoder, prompt

pytestmark = pytest.mark.torch


def probe() -> Any:
    from msprobe.pytorch import PrecisionDebugger

    return PrecisionDebugger


@pytest.mark.parametrize("form", range(5))
def test_forms_of_construction(bench: Any, form: int) -> None:
    path, dump = bench.config(), str(bench.dump)
    forms = [
        lambda: probe()(path),
        lambda: probe()(config_path=path),
        lambda: probe()(config_path=path, dump_path=dump),
        lambda: probe()(task="statistics", level="L0", step=["0-1"], dump_path=dump),
        lambda: probe()(dump_path=dump, level="L0", model=decoder()),
    ]
    debugger = forms[form]()
    assert (debugger.config.level, debugger.config.dump_path) == ("L0", dump)
    assert forms[0]() is debugger


def test_instance_and_class_are_the_same_and_a_reset_gives_a_fresh_object(bench: Any) -> None:
    debugger, model = probe()(bench.config()), decoder()
    assert probe()._instance is debugger
    probe().start(model)
    answer(model, prompt())
    debugger.stop()
    probe().save({"loss": torch.ones(1)}, "loss")
    debugger.step()
    assert bench.folders() == ["step0/proc"]
    assert list(bench.entries("step0/proc", "debug.json")) == ["loss.0.debug", "loss_grad.0.debug"]
    probe()._instance = None
    again = probe()(bench.config(level="L1"))
    assert again is not debugger
    assert again.config.level == "L1"
    assert again.service.current_iter == 0


def test_the_service_has_a_copy_whose_path_moves_the_output(bench: Any) -> None:
    debugger, model = probe()(bench.config()), decoder()
    assert debugger.service.config is not debugger.config
    assert debugger.service.config.level == "L0"
    for stage in ("a", "b"):
        debugger.service.config.dump_path = f"{debugger.config.dump_path}/{stage}"
        debugger.start(model)
        answer(model, prompt())
        debugger.stop()
    assert debugger.config.dump_path == str(bench.dump)
    assert bench.folders() == ["a/step0/proc", "b/step0/proc"]
    assert bench.modules("a/step0/proc") == bench.modules("b/step0/proc")


def test_a_path_of_the_service_that_is_a_url_collects_nothing_and_is_told_once(bench: Any, capfd: Any) -> None:
    debugger, model = probe()(bench.config()), decoder()
    debugger.service.config.dump_path = "s3://bucket/run"
    for _ in range(2):
        debugger.start(model)
        answer(model, prompt())
        debugger.stop()
        debugger.step()
    assert bench.folders() == []
    assert capfd.readouterr().out.count("dump_path s3://bucket/run: is a URL; give a path of this machine") == 1


def test_the_same_path_again_goes_on_in_the_same_files(bench: Any) -> None:
    debugger, model = probe()(bench.config()), decoder()
    for _ in range(2):
        debugger.service.config.dump_path = str(bench.dump / "a")
        debugger.start(model)
        answer(model, prompt())
        debugger.stop()
    assert {"head.Linear.forward.0", "head.Linear.forward.1"} <= set(bench.modules("a/step0/proc"))


def test_the_counters_of_the_service(bench: Any) -> None:
    debugger, model = probe()(bench.config()), decoder()
    service = debugger.service
    assert (service.first_start, service.should_stop_service) == (True, False)
    assert (service.current_iter, service.loop, service.init_step) == (0, 0, 0)
    debugger.start(model)
    assert service.first_start is False
    debugger.stop()
    debugger.step()
    assert (service.current_iter, service.loop) == (1, 1)
    service.init_step = 10
    assert service.current_iter == 11
    service.loop = 0
    debugger.start(model)
    answer(model, prompt())
    debugger.stop()
    service.reset_status()
    service._reset_status()
    assert bench.folders() == ["step0/proc", "step10/proc"]


def test_models_in_turn(bench: Any) -> None:
    debugger = probe()(bench.config())
    for model in (decoder(), decoder(), decoder()):
        debugger.start(model)
        answer(model, prompt())
        debugger.stop()
    calls = [name for name in bench.modules("step0/proc") if name.startswith("head.")]
    assert calls == ["head.Linear.forward.0", "head.Linear.forward.1", "head.Linear.forward.2"]


def test_calls_in_odd_order_do_not_raise(bench: Any) -> None:
    debugger = probe()(bench.config())
    debugger.stop()
    debugger.stop()
    debugger.step()
    debugger.start(decoder())
    debugger.step()
    debugger.stop()
    debugger.stop()


def test_a_step_can_be_forgotten(bench: Any) -> None:
    debugger, model = probe()(bench.config()), decoder()
    debugger.start(model)
    answer(model, prompt())
    debugger.stop()
    debugger.step(dump=False)
    assert bench.folders() == []


@pytest.mark.parametrize("request_id", [None, "a"])
def test_scheduled_tokens(bench: Any, request_id: str | None) -> None:
    debugger, model = probe()(bench.config(statistics={"request_id": request_id})), decoder()
    debugger.start(model, scheduled_tokens={"a": 3})
    answer(model, prompt())
    debugger.stop()
    assert bench.modules("step0/proc")


def test_arguments_of_other_versions_are_ignored(bench: Any, caplog: pytest.LogCaptureFixture) -> None:
    debugger = probe()(bench.config(level="L1"))
    debugger.start(None, some_new_argument=1)
    assert "some_new_argument" in caplog.text
    debugger.stop()
    debugger.step(some_other_argument=2)
    assert "some_other_argument" in caplog.text


def test_the_switch_in_the_file(bench: Any) -> None:
    path = bench.config(dump_enable=False)
    debugger, model = probe()(path), decoder()

    def iteration() -> None:
        debugger.start(model)
        answer(model, prompt())
        debugger.stop()
        debugger.step()

    def write(text: str) -> None:
        Path(path).write_text(text)
        stamp = os.stat(path).st_mtime_ns + 10**9
        os.utime(path, ns=(stamp, stamp))
        debugger._maybe_reload_config(force=True)

    iteration()
    good = json.loads(Path(path).read_text())
    write(json.dumps({**good, "dump_enable": True}))
    iteration()
    write('{"dump_enable": tr')
    iteration()
    write(json.dumps({**good, "dump_enable": True, "note": 1}))
    iteration()
    assert bench.folders() == ["step1/proc", "step3/proc"]


def test_without_a_switch_there_is_nothing_to_reload(bench: Any) -> None:
    probe()(bench.config())._maybe_reload_config(force=True)


def test_an_exception_between_start_and_stop(bench: Any) -> None:
    original = torch.nn.Module.__call__
    debugger, model = probe()(bench.config()), decoder()
    debugger.start(model)
    with pytest.raises(IndexError):
        answer(model, prompt() + 1000)
    debugger.start(model)
    answer(model, prompt())
    debugger.stop()
    assert torch.nn.Module.__call__ is original
    names = bench.modules("step0/proc")
    assert {"embed.tokens.Embedding.forward.0", "embed.tokens.Embedding.forward.1", "head.Linear.forward.0"} <= set(
        names
    )
    forget()


def test_the_package_is_found_by_its_name() -> None:
    assert importlib.metadata.version(NAME)
