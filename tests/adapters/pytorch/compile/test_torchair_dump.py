"""Configurations for dumps of TorchAir, made over a stand-in of it; not run on an NPU."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from msprobe.core.errors import InterfaceError, MsprobeException
from msprobe.pytorch import set_fx_dump_config, set_ge_dump_config

pytestmark = pytest.mark.torch


class Recorded:
    """Stands for the configuration of TorchAir: every attribute is one of its own until it is set."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        child = Recorded()
        setattr(self, name, child)
        return child


@pytest.fixture
def torchair(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("torchair.configs.compiler_config")
    module.CompilerConfig = Recorded  # type: ignore[attr-defined]
    for name in ("torchair", "torchair.configs"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, module.__name__, module)


@pytest.mark.usefixtures("torchair")
def test_nodes_of_the_fx_graph(tmp_path: Path) -> None:
    config = set_fx_dump_config(str(tmp_path), op_list=["add"])
    assert config.debug.data_dump.type == "npy"
    assert config.debug.data_dump.path == str(tmp_path / "msprobe_fx_dump")
    add, other = types.SimpleNamespace(name="add"), types.SimpleNamespace(name="mul")
    assert (config.debug.data_dump.filter(add), config.debug.data_dump.filter(other)) == (add, None)


@pytest.mark.usefixtures("torchair")
def test_operators_of_the_compiled_graph(tmp_path: Path) -> None:
    (tmp_path / "fusion.cfg").write_text("{}")
    switch = str(tmp_path / "fusion.cfg")
    config = set_ge_dump_config(str(tmp_path), "input", switch, dump_token=[1, 2], dump_layer=["a", "b"])
    assert vars(config.dump_config) == {
        "enable_dump": True, "dump_mode": "input", "dump_path": str(tmp_path / "msprobe_ge_dump"), "dump_step": "1|2",
        "dump_layer": "a b",
    }  # fmt: skip
    assert config.fusion_config.fusion_switch_file == switch


def test_a_given_configuration_is_changed(tmp_path: Path) -> None:
    given: Any = Recorded()
    assert set_ge_dump_config(str(tmp_path), compiler_config=given) is given
    assert given.dump_config.enable_dump is True


def test_without_torchair_another_way_is_told(tmp_path: Path) -> None:
    for function in (set_fx_dump_config, set_ge_dump_config):
        with pytest.raises(InterfaceError, match='backend="msprobe"'):
            function(str(tmp_path))


def test_wrong_arguments(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="op_list"):
        set_fx_dump_config(op_list="add", compiler_config=Recorded())
    with pytest.raises(MsprobeException, match="dump_mode"):
        set_ge_dump_config(dump_mode="bad", compiler_config=Recorded())
    with pytest.raises(MsprobeException, match="fusion_switch_file"):
        set_ge_dump_config(fusion_switch_file=str(tmp_path / "none"), compiler_config=Recorded())
