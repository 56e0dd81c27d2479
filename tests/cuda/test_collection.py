"""Collecting on a CUDA device: right values, an untouched training, few copies to the host."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.profiler import ProfilerActivity, profile  # noqa: E402

from msprobe.adapters.pytorch.tensors.reductions import DeferredStatistics  # noqa: E402
from msprobe.cli.main import run  # noqa: E402
from msprobe.pytorch import PrecisionDebugger  # noqa: E402
from tests.cuda.training import entries, model_and_data, train  # noqa: E402
from tests.fresh_debugger import forget  # noqa: E402

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
FLOATS = (torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    forget()
    yield
    forget()


def expected(x: torch.Tensor) -> dict[str, float]:
    """Return the statistics of a tensor in float64 on the CPU."""
    wide = x.cpu().to(torch.float64)
    return {
        "Max": wide.max().item(),
        "Min": wide.min().item(),
        "Mean": wide.mean().item(),
        "Norm": wide.norm().item(),
    }


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(), (1,), (7, 33), (3, 1025, 129)])
def test_statistics_are_those_of_float64(dtype: torch.dtype, shape: tuple[int, ...], tmp_path: Path) -> None:
    torch.manual_seed(2)
    x = (torch.randn(shape) * 3 + 0.5).to(dtype).cuda()
    config = {"task": "statistics", "level": "debug", "precision": "high", "dump_path": str(tmp_path)}
    debugger = PrecisionDebugger(config)
    debugger.save(x, "x")
    debugger.step()
    (document,) = tmp_path.glob("step0/*/debug.json")
    entry = next(iter(json.loads(document.read_text())["data"].values()))
    for name, value in expected(x).items():
        scale = max(abs(value), 1e-6)
        assert abs(entry[name] - value) <= scale * (1e-12 if dtype is torch.float64 else 1e-6), (name, entry, value)


def test_nan_infinity_integers_and_truths(tmp_path: Path) -> None:
    debugger = PrecisionDebugger({"task": "statistics", "level": "debug", "dump_path": str(tmp_path)})
    nan = torch.tensor([1.0, float("nan"), 2.0], device="cuda")
    infinite = torch.tensor([1.0, float("-inf"), 2.0], device="cuda", dtype=torch.bfloat16)
    whole = torch.tensor([2**53 + 1, -7], device="cuda")
    for name, value in (("nan", nan), ("infinite", infinite), ("whole", whole), ("truth", whole > 0)):
        debugger.save(value, name)
    debugger.save(torch.empty(0, 3, device="cuda"), "empty")
    debugger.save(torch.randn(4, 4, device="cuda").t()[::2], "strided")
    debugger.step()
    (document,) = tmp_path.glob("step0/*/debug.json")
    data = {name.split(".")[0]: entry for name, entry in json.loads(document.read_text())["data"].items()}
    assert math.isnan(float(data["nan"]["Max"]))
    assert float(data["infinite"]["Min"]) == -math.inf
    assert (data["whole"]["Max"], data["whole"]["Min"]) == (2**53 + 1, -7)
    assert (data["truth"]["Max"], data["truth"]["Min"]) == (True, False)
    assert data["empty"]["shape"] == [0, 3]


@pytest.fixture
def deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("deterministic")
@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_a_collected_training_has_the_same_bits(level: str, task: str, tmp_path: Path) -> None:
    plain, ids = model_and_data()
    losses = train(plain, ids, 3)
    watched, ids = model_and_data()
    debugger = PrecisionDebugger({"task": task, "level": level, "dump_path": str(tmp_path)})
    assert train(watched, ids, 3, debugger) == losses
    assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), watched.parameters(), strict=True))
    assert len(entries(tmp_path, 2)) > 10


def test_files_hold_the_values_and_checksums_are_those_of_a_cpu(tmp_path: Path) -> None:
    x = torch.randn(9, 5, device="cuda", dtype=torch.bfloat16)
    debugger = PrecisionDebugger({"task": "tensor", "level": "debug", "dump_path": str(tmp_path / "t")})
    debugger.save(x, "x")
    debugger.step()
    (file,) = (tmp_path / "t").glob("step0/*/dump_tensor_data/*.pt")
    assert torch.equal(torch.load(file, weights_only=True, map_location="cpu"), x.cpu())
    forget()
    model = nn.Sequential(nn.Linear(4, 4)).cuda()
    config = {"task": "statistics", "level": "L0", "statistics": {"summary_mode": "md5"}}
    debugger = PrecisionDebugger({**config, "dump_path": str(tmp_path / "m")})
    debugger.start(model)
    result = model(torch.ones(2, 4, device="cuda"))
    debugger.stop()
    debugger.step()
    (entry,) = (one for name, one in entries(tmp_path / "m").items() if ".forward" in name)
    words = result.detach().cpu().contiguous().numpy().tobytes()
    assert entry["output"][0]["md5"] == f"{zlib.crc32(words):08x}"


@pytest.mark.parametrize("level", ["L0", "mix"])
def test_statistics_are_copied_once_for_each_flush(level: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, ids = model_and_data()
    debugger = PrecisionDebugger({"task": "statistics", "level": level, "dump_path": str(tmp_path)})
    train(model, ids, 1, debugger)
    flushes, settle = [], DeferredStatistics.settle

    def counted(deferred: DeferredStatistics) -> None:
        if deferred.outstanding:
            flushes.append(deferred)
        settle(deferred)

    monkeypatch.setattr(DeferredStatistics, "settle", counted)

    def copies(with_tool: bool) -> int:
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as trace:
            train(model, ids, 1, debugger if with_tool else None)
        return sum(event.name.startswith("Memcpy DtoH") for event in trace.events())

    plain, collected = copies(False), copies(True)
    assert collected - plain <= len(flushes) < 20, (collected, plain, flushes)


def test_a_cuda_run_equals_a_cpu_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for device in ("cpu", "cuda"):
        model, ids = model_and_data(device=device)
        model.eval()
        debugger = PrecisionDebugger({"task": "statistics", "level": "mix", "dump_path": str(tmp_path / device)})
        train(model, ids, 1, debugger, None)
        forget()
    assert set(entries(tmp_path / "cpu")) == set(entries(tmp_path / "cuda"))
    words = ["compare", "-tp", str(tmp_path / "cuda"), "-gp", str(tmp_path / "cpu"), "-o", str(tmp_path / "out")]
    assert run(words) == 0
    text = capsys.readouterr().out
    assert "Verdict: SAME" in text, text


def test_a_fault_on_the_device_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for device in ("cpu", "cuda"):
        model, ids = model_and_data(device=device)
        model.eval()
        if device == "cuda":
            model[2].up.register_forward_hook(lambda module, args, result: result * 1.1)
        debugger = PrecisionDebugger({"task": "statistics", "level": "L0", "dump_path": str(tmp_path / device)})
        train(model, ids, 1, debugger, None)
        forget()
    words = ["compare", "-tp", str(tmp_path / "cuda"), "-gp", str(tmp_path / "cpu"), "-o", str(tmp_path / "out")]
    run(words)
    text = capsys.readouterr().out
    assert "2.up.Linear.forward.0" in text, text


def test_values_of_a_side_stream_are_those_after_its_work(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(512, 512, device="cuda"))
    x = torch.randn(4096, 512, device="cuda")
    stream = torch.cuda.Stream()
    debugger = PrecisionDebugger({"task": "statistics", "level": "L0", "dump_path": str(tmp_path)})
    debugger.start(model)
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream), torch.no_grad():
        for _ in range(20):
            x = x @ torch.eye(512, device="cuda")
        result = model(x)
    debugger.stop()
    debugger.step()
    torch.cuda.synchronize()
    (entry,) = (one for name, one in entries(tmp_path).items() if ".forward" in name)
    assert entry["output"][0]["Norm"] == pytest.approx(expected(result)["Norm"], rel=1e-6)


def test_asynchronous_files_hold_the_values_of_the_call(tmp_path: Path) -> None:
    config = {"task": "tensor", "level": "L0", "async_dump": True, "dump_path": str(tmp_path)}
    model = nn.Sequential(nn.Linear(64, 64, device="cuda"))
    debugger = PrecisionDebugger(config)
    debugger.start(model)
    with torch.no_grad():
        result = model(torch.randn(256, 64, device="cuda"))
        kept = result.clone()
        result.zero_()
    debugger.stop()
    debugger.step()
    forget()
    (file,) = tmp_path.glob("step0/*/dump_tensor_data/*output.0.pt")
    assert torch.equal(torch.load(file, weights_only=True, map_location="cpu"), kept.cpu())


def test_overflow_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Softmax(-1)).cuda().half()
    nn.init.constant_(model[0].weight, 6e4)
    debugger = PrecisionDebugger({"task": "statistics", "level": "mix", "dump_path": str(tmp_path)})
    debugger.start(model)
    model(torch.full((2, 4), 100.0, device="cuda", dtype=torch.float16))
    debugger.stop()
    debugger.step()
    forget()
    run(["overflow_check", "-i", str(tmp_path / "step0"), "-o", str(tmp_path / "out")])
    text = capsys.readouterr().out
    assert "linear" in text.lower(), text
