"""The tests mirror the package: ``tests/compare/rows/test_summary.py`` tests ``msprobe/compare/rows/summary.py``.

A test file that tells of a topic has a name that no module has, and lies in the folder that it tests.
"""

from __future__ import annotations

from pathlib import Path

from tests.rules.tree import ROOT, sources
from tests.rules.tree_figures import modules

TOPICS = {
    "adapters/pytorch/distributed": "one job of two ranks that many tests look at",
    "benchmarks": "the programs in benchmarks/",
    "contracts": "one set of tests for all frameworks",
    "crash": "processes that are killed, full disks, removed folders",
    "docs": "the guide, executed",
    "emulated": "trainings on emulated devices",
    "end_to_end": "from a script to a verdict",
    "examples": "the programs in examples/",
    "golden": "recorded dumps of the reference",
    "golden_analyze": "recorded analyses of the reference",
    "golden_checkpoints": "recorded checkpoint comparisons of the reference",
    "golden_compare": "recorded comparisons of the reference",
    "golden_monitor": "trainings under the monitor of the reference",
    "golden_trend": "a recorded monitoring of the reference",
    "golden_vis": "recorded graphs of the reference",
    "integrations": "programs that others have built on msprobe or on its adapters",
    "monitor/first_version": "TrainerMon: its fields and methods in real trainings",
    "layouts": "one model in many parallel layouts",
    "megatron": "megatron-core in several layouts",
    "noisy": "trainings that never compute the same twice",
    "reference_dumps": "dumps of the reference against ours of the same programs",
    "cuda": "collection, monitor and compiled code on a GPU",
    "parallel_modes": "trainings that are spread over processes in every way",
    "mindspore_layouts": "ranks of MindSpore and of PyTorch against one process of MindSpore",
    "torch_layouts": "layouts that torch and transformers make",
    "real_models": "harmless changes and planted faults in real models",
    "public_programs": "trainings of public repositories under msprobe run",
    "rules": "rules about the source",
    "silent_errors": "what msprobe check says of trainings with a silent error, and of correct ones",
    "twins": "layers and models in two frameworks",
    "upgrades": "programs under other versions, in other implementations and precisions",
    "versions": "older versions of PyTorch and MindSpore",
    "zoo": "trainings with one planted fault each",
}
"""Folder of tests without a counterpart in ``msprobe/`` -> what its tests are about; folders below it are covered."""
SHARE_WITH_TESTS = 0.53
"""Of the modules; the others are tested under a topic, or through the modules that use them."""


def folder_in(path: Path, root: str) -> str:
    """Return the folder of a file relative to ``root``, with an empty text for ``root`` itself."""
    return path.parent.relative_to(ROOT / root).as_posix().removeprefix(".")


def mirrored() -> list[Path]:
    """Return the test files whose folder follows from the package."""
    files = [path for path in sources("tests") if path.name.startswith("test_")]
    roots = tuple(f"{name}/" for name in TOPICS)
    return [path for path in files if not f"{folder_in(path, 'tests')}/".startswith(roots)]


def folders_of_modules() -> dict[str, set[str]]:
    """Return for each name of a module the folders of ``msprobe/`` that hold one of that name."""
    result: dict[str, set[str]] = {}
    for path in modules():
        result.setdefault(path.stem, set()).add(folder_in(path, "msprobe"))
    return result


def modules_with_tests() -> list[str]:
    """Return the modules that have a test file of their name in the folder of tests that mirrors theirs."""
    files = {(folder_in(path, "tests"), path.stem) for path in mirrored()}
    names = [(folder_in(path, "msprobe"), path.stem) for path in modules()]
    return [f"{folder}/{name}" for folder, name in names if (folder, f"test_{name}") in files]


def test_every_folder_of_tests_mirrors_a_folder() -> None:
    folders = {folder_in(path, "msprobe") for path in sources()}
    strange = {folder_in(path, "tests") for path in mirrored()} - folders
    assert sorted(strange) == [], "name it as the folder in msprobe/, or add it to TOPICS"


def test_a_test_with_the_name_of_a_module_lies_in_its_folder() -> None:
    folders = folders_of_modules()
    misplaced = {
        path.relative_to(ROOT).as_posix(): sorted(folders[name])
        for path in mirrored()
        if (name := path.stem.removeprefix("test_")) in folders and folder_in(path, "tests") not in folders[name]
    }
    assert misplaced == {}, "move the file to the folder of the module, or name its topic"


def test_every_topic_has_tests() -> None:
    folders = {folder_in(path, "tests") for path in sources("tests")}
    assert [name for name in TOPICS if not any(folder.startswith(name) for folder in folders)] == []


def test_most_modules_have_a_test_file_of_their_name() -> None:
    assert len(modules_with_tests()) >= SHARE_WITH_TESTS * len(modules())
