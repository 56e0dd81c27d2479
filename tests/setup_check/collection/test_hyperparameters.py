"""Hyperparameters of files, the command line and objects."""

from __future__ import annotations

import argparse
import subprocess
import sys
import types
from dataclasses import dataclass
from pathlib import Path

import pytest

from msprobe.core.errors import ReadError
from msprobe.setup_check.collection.hyperparameters import (
    command_line_settings,
    library_settings,
    model_settings,
    object_settings,
    read_settings,
)
from tests import forked
from tests.rules.tree import ROOT


def test_yaml_and_json(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("trainer: {lr: 0.1, steps: [1, 2]}\nhf_token: abc\nempty: {}\n")
    (tmp_path / "b.json").write_text('{"url": "https://me:pw@host", "n": null}')
    assert read_settings(tmp_path / "a.yaml") == {
        "trainer.lr": 0.1,
        "trainer.steps": [1, 2],
        "hf_token": "***",
        "empty": "{}",
    }
    assert read_settings(tmp_path / "b.json") == {"url": "https://***@host", "n": None}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.yaml", "a: [", "not readable"),
        ("a.json", "{", "not readable"),
        ("a.yaml", "- 1", "holds no table"),
        ("a.yaml", "!!python/object/apply:os.system [echo]", "not readable"),
        ("a.txt", "x", "no set-up file"),
        ("absent.sh", None, "cannot be read"),
    ],
)
def test_wrong_files(tmp_path: Path, name: str, text: str | None, message: str) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(ReadError, match=message):
        read_settings(tmp_path / name)


def test_command_line() -> None:
    assert command_line_settings(["--lr", "1e-3", "--password", "x", "a.b=2"]) == {
        "lr": "1e-3",
        "password": "***",
        "a.b": "2",
    }


@dataclass
class Settings:
    """Settings as a dataclass."""

    lr: float = 0.1
    secret: str = "x"


def test_objects() -> None:
    assert object_settings(argparse.Namespace(lr=1, nested={"a": {"b": 2}})) == {"lr": 1, "nested.a.b": 2}
    assert object_settings(Settings()) == {"lr": 0.1, "secret": "***"}
    assert object_settings({"x": (1, Path("y"))}) == {"x": [1, "y"]}


@pytest.mark.matrix("wide")
def test_transformers_arguments(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    arguments = transformers.TrainingArguments(output_dir=str(tmp_path), learning_rate=3e-4, hub_token="abc")
    settings = object_settings(arguments)
    assert (settings["learning_rate"], settings["hub_token"] == "abc") == (3e-4, False)


HYDRA = """\
import sys, hydra
from msprobe.setup_check.collection.hyperparameters import library_settings, object_settings

@hydra.main(version_base=None, config_path=".", config_name="job")
def main(config):
    print("found", library_settings(), object_settings(config), sep="|")

main()
"""


def test_hydra(tmp_path: Path) -> None:
    pytest.importorskip("hydra")
    (tmp_path / "job.yaml").write_text("optim: {lr: 0.1}\nhf_token: abc\n")
    (tmp_path / "train.py").write_text(HYDRA)
    words = [forked.python(), "train.py", "optim.lr=0.2", "+more=1"]
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    settings = {"optim.lr": 0.2, "hf_token": "***", "more": 1}
    assert done.stdout.strip() == f"found|{ {'hydra': settings} }|{settings}"


def test_a_model_carries_its_settings() -> None:
    model = types.SimpleNamespace(module=types.SimpleNamespace(config=Settings(lr=3)))
    assert model_settings(model) == {"lr": 3, "secret": "***"}
    assert model_settings(types.SimpleNamespace(config=5)) == {}
    assert model_settings(None) == {}


def test_secrets_in_lists_and_numbers() -> None:
    assert object_settings({"password": 1234, "tokens": {"token": ["a", "b"]}, "use_auth": True}) == {
        "password": "***",
        "tokens.token": "***",
        "use_auth": True,
    }


def test_megatron_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("megatron.training")
    module.get_args = lambda: argparse.Namespace(num_layers=2)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "megatron.training", module)
    assert library_settings() == {"megatron": {"num_layers": 2}}
    module.get_args = lambda: 1 / 0  # type: ignore[attr-defined]
    assert library_settings() == {}
