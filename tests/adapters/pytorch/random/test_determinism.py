"""``seed_all`` and ``random_save``: what is fixed, and where randomness comes from."""

from __future__ import annotations

import copy
import csv
import io
import os
import pickle
import random
import subprocess
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from tests import forked

pytestmark = pytest.mark.torch

DROPPERS = [
    *(f"{kind}dropout{end}" for kind in ("", "alpha_", "feature_", "feature_alpha_", "native_") for end in ("", "_")),
    *("gru", "lstm", "miopen_rnn", "quantized_gru", "quantized_lstm", "rnn_relu", "rnn_tanh"),
    "scaled_dot_product_attention",
]


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    owners = (torch, torch._VF, torch._C._nn, F)
    held = [(owner, name, getattr(owner, name)) for owner in owners for name in DROPPERS if hasattr(owner, name)]
    yield
    seed_all()
    torch.use_deterministic_algorithms(False)
    for owner, name, function in held:
        setattr(owner, name, function)


def seed_all(*args: Any, **kwargs: Any) -> None:
    from msprobe.pytorch import seed_all as seed

    seed(*args, **kwargs)


DRAWS: dict[str, Callable[[], Any]] = {
    "python": random.random,
    "python choice": lambda: random.choice(range(10**6)),
    "numpy": lambda: np.random.rand(3).tolist(),
    "torch": lambda: torch.randn(3).tolist(),
    "tensor": lambda: torch.empty(3).uniform_().tolist(),
    "functional": lambda: F.dropout(torch.ones(64)).tolist(),
    "module": lambda: torch.nn.Dropout(0.5)(torch.ones(64)).tolist(),
    "feature dropout": lambda: F.dropout2d(torch.ones(1, 64, 1, 1)).flatten().tolist(),
    "attention": lambda: F.scaled_dot_product_attention(*[torch.ones(1, 1, 8, 4)] * 3, dropout_p=0.5).tolist(),
    "gamma": lambda: torch.distributions.Gamma(torch.ones(3), 1.0).sample().tolist(),
    "beta": lambda: torch.distributions.Beta(torch.ones(3), 1.0).sample().tolist(),
    "dirichlet": lambda: torch.distributions.Dirichlet(torch.ones(3)).sample().tolist(),
    "initialisation": lambda: torch.nn.Linear(3, 3).weight.tolist(),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_a_seed_repeats_a_program_and_calls_in_it_differ(draw: Callable[[], Any]) -> None:
    seed_all(7)
    first = [draw(), draw()]
    seed_all(7)
    assert [draw(), draw()] == first
    assert first[0] != first[1]


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_enhanced_every_call_returns_the_same(draw: Callable[[], Any]) -> None:
    seed_all(7, is_enhanced=True)
    first = draw()
    torch.rand(5)
    random.random()
    assert draw() == first
    seed_all(7)
    assert draw() != draw()


def test_mode_asks_for_deterministic_operators() -> None:
    seed_all(mode=True)
    assert torch.are_deterministic_algorithms_enabled()
    seed_all(mode=False)
    assert not torch.are_deterministic_algorithms_enabled()


TOLD = {
    "PYTHONHASHSEED": "7",
    "HCCL_DETERMINISTIC": "True",
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    "LCCL_DETERMINISTIC": "1",
    "CLOSE_MATMUL_K_SHIFT": "1",
    "ATB_LLM_LCOC_ENABLE": "0",
}
ON_DEVICES = {"CUBLAS_WORKSPACE_CONFIG", "LCCL_DETERMINISTIC", "CLOSE_MATMUL_K_SHIFT", "ATB_LLM_LCOC_ENABLE"}


@pytest.mark.parametrize("devices", [False, True], ids=["cpu", "stand-ins of devices"])
def test_what_the_environment_is_told(devices: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no device here: the stand-ins show what would be asked of one."""
    seeds: list[int] = []
    for name in TOLD:
        monkeypatch.setenv(name, "to be restored")
        del os.environ[name]
    if devices:
        npu = types.SimpleNamespace(is_available=lambda: True, manual_seed_all=seeds.append)
        monkeypatch.setattr(torch, "npu", npu, raising=False)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.backends.cudnn, "deterministic", False)
        monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    seed_all(7)
    found = {name: os.environ[name] for name in TOLD if name in os.environ}
    assert found == {name: value for name, value in TOLD.items() if devices or name not in ON_DEVICES}
    if devices:
        assert seeds == [7]
        assert torch.backends.cudnn.deterministic
        assert not torch.backends.cudnn.benchmark


X = torch.rand(2, 8, 3, 3)
LONG = X.reshape(2, 8, 9)
PASSING: dict[str, Callable[[], torch.Tensor]] = {
    "dropout": lambda: F.dropout(X, 0.9),
    "in place": lambda: F.dropout(X.clone(), 0.9, inplace=True),
    "dropout1d": lambda: F.dropout1d(LONG, 0.9).reshape(X.shape),
    "dropout2d": lambda: F.dropout2d(X, p=0.9),
    "dropout3d": lambda: F.dropout3d(X[None], 0.9)[0],
    "alpha": lambda: F.alpha_dropout(X, 0.9, training=True),
    "feature alpha": lambda: F.feature_alpha_dropout(X, 0.9, training=True),
    "torch": lambda: torch.dropout(X, p=0.9, train=True),
    "torch in place": lambda: torch.dropout_(X.clone(), 0.9, True),
    "native": lambda: torch.native_dropout(X, 0.9, True)[0],
}


@pytest.mark.parametrize("drop", PASSING.values(), ids=PASSING)
def test_without_dropout_values_pass(drop: Callable[[], torch.Tensor]) -> None:
    assert not torch.equal(drop(), X)
    seed_all(rm_dropout=True)
    assert torch.equal(drop(), X)


def packed(layer: Any) -> Any:
    return layer(torch.nn.utils.rnn.pack_padded_sequence(torch.ones(5, 2, 4), [5, 3]))[0].data


RECURRENT = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU, "rnn": torch.nn.RNN}
INSIDE: dict[str, tuple[torch.nn.Module, Callable[[Any], torch.Tensor]]] = {
    **{
        name: (kind(4, 8, 2, dropout=0.9), lambda layer: layer(torch.ones(5, 2, 4))[0])
        for name, kind in RECURRENT.items()
    },
    **{f"packed {name}": (kind(4, 8, 2, dropout=0.9), packed) for name, kind in RECURRENT.items()},
    "attention": (torch.nn.MultiheadAttention(4, 2, dropout=0.9), lambda layer: layer(*[torch.ones(8, 1, 4)] * 3)[0]),
    "attention without weights": (
        torch.nn.MultiheadAttention(4, 2, dropout=0.9),
        lambda layer: layer(*[torch.ones(8, 1, 4)] * 3, need_weights=False)[0],
    ),
    "transformer": (torch.nn.TransformerEncoderLayer(4, 2, 8, dropout=0.9), lambda layer: layer(torch.ones(3, 1, 4))),
    "dropout2d": (torch.nn.Dropout2d(0.9), lambda layer: layer(X)),
}


@pytest.mark.parametrize(("layer", "call"), INSIDE.values(), ids=INSIDE)
def test_modules_made_before_train_as_they_evaluate(layer: Any, call: Callable[[Any], torch.Tensor]) -> None:
    expected = call(layer.eval())
    assert not torch.equal(call(layer.train()), expected)
    seed_all(rm_dropout=True)
    torch.testing.assert_close(call(layer), expected)


def test_attention_called_with_a_probability() -> None:
    seed_all(rm_dropout=True)
    inputs = [torch.rand(1, 1, 8, 4) for _ in range(3)]
    expected = F.scaled_dot_product_attention(*inputs)
    assert torch.equal(F.scaled_dot_product_attention(*inputs, dropout_p=0.9), expected)
    assert torch.equal(F.scaled_dot_product_attention(*inputs, None, 0.9), expected)


def test_dropout_stays_away_when_every_call_repeated_before() -> None:
    seed_all(is_enhanced=True)
    seed_all(rm_dropout=True)
    assert torch.equal(F.dropout(X, 0.9), X)
    seed_all(is_enhanced=True)
    assert torch.equal(F.dropout(X, 0.9), X)


def test_without_dropout_models_are_scripted_as_before() -> None:
    seed_all(rm_dropout=True)
    scripted = torch.jit.script(torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Dropout(0.9)))
    assert scripted.eval()(X).shape == X.shape


def noisy(x: torch.Tensor) -> torch.Tensor:
    return F.dropout(x, 0.5) + torch.rand_like(x)


@pytest.mark.filterwarnings("ignore")  # torch.jit says that it is old
@pytest.mark.parametrize("switch", ["rm_dropout", "is_enhanced"])
def test_functions_are_scripted_and_traced(switch: str) -> None:
    seed_all(**{switch: True})
    assert torch.jit.script(noisy)(X).shape == X.shape
    assert torch.jit.script(torch.nn.Sequential(torch.nn.Dropout(0.5)))(X).shape == X.shape
    assert torch.jit.trace(noisy, X, check_trace=False)(X).shape == X.shape
    assert torch.jit.script(F.dropout)(X).shape == X.shape


PLACES = {
    "torch.nn.functional.dropout": F,
    "torch.rand": torch,
    "torch.dropout": torch,
    "torch.Tensor.normal_": torch.Tensor,
    "torch._VF.dropout": torch._VF,
    "random.choice": random,
    "numpy.random.rand": np.random,
}


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("switches", [["rm_dropout"], ["is_enhanced"], ["rm_dropout", "is_enhanced"]], ids="+".join)
@pytest.mark.parametrize("path", PLACES)
def test_functions_are_pickled_and_copied(path: str, switches: list[str]) -> None:
    seed_all(**dict.fromkeys(switches, True))
    function = getattr(PLACES[path], path.rpartition(".")[2])
    assert callable(pickle.loads(pickle.dumps(function)))
    assert callable(copy.deepcopy(function))


@pytest.mark.filterwarnings("ignore")  # of the compiler, about itself
@pytest.mark.parametrize("switch", ["rm_dropout", "is_enhanced"])
def test_compiled_layers_run_and_repeat(switch: str) -> None:
    seed_all(**{switch: True})
    layer = torch.nn.LSTM(4, 4, 2, dropout=0.9)
    compiled = torch.compile(layer, backend="aot_eager")
    x = torch.ones(3, 1, 4)
    try:
        assert torch.equal(compiled(x)[0], compiled(x)[0])
    finally:
        torch._dynamo.reset()


def test_too_late_for_a_debugger_is_told(bench: Any, capsys: pytest.CaptureFixture[str]) -> None:
    bench.open()
    seed_all(rm_dropout=True)
    assert "call it before PrecisionDebugger is made" in capsys.readouterr().out


def test_torch_itself_says_which_operators_are_random() -> None:
    from msprobe.adapters.pytorch.random.random_trace import tagged_operators

    found = tagged_operators()
    assert {"randn", "bernoulli", "dropout", "uniform_", "multinomial", "randperm"} <= found
    assert {"_standard_gamma", "_sample_dirichlet"} <= found
    assert not found & {"add", "zeros", "relu", "manual_seed"}


PROGRAM = """
import random
import torch
from msprobe.pytorch import random_save
random_save("out")
random_save("elsewhere")
torch.randn(2)
torch.randn(2)
random.random()
torch.nn.functional.dropout(torch.ones(3))
torch.nn.functional.scaled_dot_product_attention(*[torch.ones(1, 1, 2, 2)] * 3)
torch.distributions.Dirichlet(torch.ones(2)).sample()
torch.nn.init.normal_(torch.empty(2))
"""


@pytest.mark.slow
def test_random_save_lists_every_call_with_its_stack(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    result = subprocess.run([forked.python(), "program.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    (table,) = (tmp_path / "out").glob("random_proc*_*.csv")
    assert not (tmp_path / "elsewhere").exists()
    rows = list(csv.reader(io.StringIO(table.read_text("utf-8-sig"), newline="")))
    assert rows[0] == ["api_name", "stack"]
    assert [row[0] for row in rows[1:]] == [
        "torch_random.randn.0",
        "torch_random.randn.1",
        "python_random.random.0",
        "functional_random.dropout.0",
        "torch_random._sample_dirichlet.0",
        "tensor_random.normal_.0",
    ]
    assert "program.py, line 7, in <module>" in rows[1][1]
    assert "torch/nn/init.py" in rows[-1][1]
    assert "torch.nn.init.normal_(torch.empty(2))" in rows[-1][1]
