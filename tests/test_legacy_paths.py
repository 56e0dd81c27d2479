"""Import paths of earlier versions: all from one table, free until used, clear when they lead nowhere."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import msprobe
from msprobe import legacy_paths
from msprobe.legacy_paths import legacy_modules

MODULES = legacy_modules()
ABSENT = ("torch_npu", "mindspore", "tensorboard")


def of_framework(name: str) -> object:
    """Mark an old module with the framework that it needs."""
    return pytest.param(
        name, marks=pytest.mark.mindspore if name.startswith("msprobe.mindspore") else pytest.mark.torch
    )


@pytest.mark.parametrize("name", [of_framework(name) for name in sorted(MODULES)])
def test_every_old_module_has_its_names(name: str) -> None:
    module = importlib.import_module(name)
    assert [attribute for attribute in module.__all__ if not callable(getattr(module, attribute))] in (
        [],
        ["logger"],
        ["BENCHMARK_COMPARE_SUPPORT_LIST"],
    )


@pytest.mark.torch
@pytest.mark.parametrize(
    "line",
    [
        "from msprobe.pytorch.debugger.precision_debugger import PrecisionDebugger as old",
        "from msprobe.pytorch.dump.debugger.precision_debugger import PrecisionDebugger as old",
        "from msprobe.core.debugger.precision_debugger import BasePrecisionDebugger as old",
    ],
)
def test_the_debugger_is_the_same_class(line: str) -> None:
    from msprobe.pytorch import PrecisionDebugger

    names: dict[str, object] = {}
    exec(line, names)
    assert names["old"] is PrecisionDebugger


@pytest.mark.torch
def test_the_chain_of_the_inductor_back_end_falls_back_to_its_own_tolerance() -> None:
    head = "msprobe.pytorch.api_accuracy_checker"
    const = importlib.import_module("msprobe.core.common.const").CompareConst
    supported = importlib.import_module(f"{head}.compare.compare_utils").BENCHMARK_COMPARE_SUPPORT_LIST
    importlib.import_module(f"{head}.triton_adapter.get_compare_result")
    importlib.import_module(f"{head}.triton_adapter.precision_compare")
    importlib.import_module(f"{head}.triton_adapter.common.compare_utils")
    register = importlib.import_module(f"{head}.triton_adapter.precision_standard.triton_standard_register")
    assert register.exist_in_precision_standard("triton_poi_fused_add_0") is False
    assert const.ERROR != const.PASS
    assert "torch.bfloat16" in supported


def test_an_unknown_path_gets_a_hint() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"did you mean 'msprobe\.pytorch\.common'"):
        importlib.import_module("msprobe.pytorch.comon.utils")
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'msprobe\.xyzzy'"):
        importlib.import_module("msprobe.xyzzy")


def test_an_unknown_name_of_an_old_module_lists_what_there_is() -> None:
    with pytest.raises(AttributeError, match="offers PrecisionDebugger"):
        importlib.import_module("msprobe.pytorch.debugger").Debugger
    with pytest.raises(ImportError):
        exec("from msprobe.pytorch.debugger import Debugger")
    with pytest.raises(ImportError):
        exec("from msprobe.core import nothing_like_it")


def test_no_module_of_today_is_in_the_table() -> None:
    """Nor is an old path a file of its own somewhere in the package: the table is the one place."""
    package = Path(msprobe.__file__).parents[1]
    places = {name: package.joinpath(*name.split(".")) for name in MODULES}
    assert [name for name, place in places.items() if place.is_dir() or place.with_suffix(".py").exists()] == []


def test_installing_twice_adds_one_finder() -> None:
    before = list(sys.meta_path)
    legacy_paths.install()
    assert sys.meta_path == before


@pytest.mark.torch
def test_nothing_optional_is_needed() -> None:
    program = (
        "import sys\n"
        f"for name in {ABSENT!r}: sys.modules[name] = None\n"
        "import importlib\n"
        "import msprobe\n"
        "assert 'yaml' not in sys.modules\n"
        "from msprobe.legacy_paths import legacy_modules\n"
        "for name in legacy_modules(): importlib.import_module(name)\n"
        "from msprobe.core import SingleSave, SingleComparator\n"
        "from msprobe.pytorch import AclGraphDumper, PrecisionDebugger, TrainerMon, compare, random_save, seed_all\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


IN_THE_WILD = [
    ("vllm_ascend", "from msprobe.pytorch import AclGraphDumper, PrecisionDebugger"),
    ("vllm_ascend_dfx", "from msprobe.response_anomaly.detector import ILLDetector"),
    ("sglang", "from msprobe.pytorch import PrecisionDebugger, seed_all"),
    ("verl_omni_debugger", "from msprobe.pytorch.debugger.precision_debugger import PrecisionDebugger"),
    ("verl_omni_seed", "from msprobe.pytorch.common.utils import seed_all"),
    ("mindspeed_rl", "from msprobe.core import SingleSave, SingleComparator"),
    ("megatron_monitor", "from msprobe.pytorch import TrainerMon"),
    ("megatron_config", "from msprobe.core.config_check import ConfigChecker"),
    (
        "torchtitan",
        "from msprobe.pytorch.compile_accuracy_checker.precision_checker import PrecisionChecker",
    ),
    ("torch_npu_words", "from msprobe.core.common.const import CompareConst"),
    (
        "torch_npu_list",
        "from msprobe.pytorch.api_accuracy_checker.compare.compare_utils import BENCHMARK_COMPARE_SUPPORT_LIST",
    ),
    ("mindie", "from msprobe.response_anomaly import ILLDetector, analyze_output_anomaly"),
    ("mstt_config", "from msprobe.core.common_config import CommonConfig"),
    ("mstt_sections", "from msprobe.pytorch.pt_config import StatisticsConfig, TensorConfig"),
    ("mstt_functions", "from msprobe.pytorch import compare, compare_distributed, enable_dataloader, monitor"),
    ("current_debugger", "from msprobe.pytorch.dump.debugger.precision_debugger import PrecisionDebugger"),
    ("current_base", "from msprobe.core.dump.debugger.precision_debugger import BasePrecisionDebugger"),
    (
        "current_functions",
        "from msprobe.pytorch import (module_dump, module_dump_end, random_save, acl_save, set_fx_dump_config,"
        " set_ge_dump_config)",
    ),
]


@pytest.mark.torch
@pytest.mark.parametrize("line", [line for _, line in IN_THE_WILD], ids=[name for name, _ in IN_THE_WILD])
def test_an_import_that_integrations_make(line: str) -> None:
    names: dict[str, object] = {}
    exec(line, names)
    assert all(value is not None for name, value in names.items() if not name.startswith("__"))


@pytest.mark.mindspore
def test_an_import_that_users_of_mindspore_make() -> None:
    names: dict[str, object] = {}
    exec(
        "from msprobe.mindspore import (PrecisionDebugger, seed_all, MsprobeStep, MsprobeInitStep, TrainerMon, save,"
        " save_grad, step)\nfrom msprobe.mindspore.common.utils import MsprobeStep as older",
        names,
    )
    assert names["older"] is names["MsprobeStep"]
    assert callable(names["TrainerMon"])


def test_a_module_that_was_a_program_still_is_one() -> None:
    words = [sys.executable, "-m", "msprobe.core.monitor.anomaly_processor", "-d", "no_such_folder"]
    result = subprocess.run(words, capture_output=True, text=True)
    assert result.returncode == 2
    assert result.stderr.startswith("msprobe: error: Cannot read: no_such_folder: there is no rank*/anomaly.json")
