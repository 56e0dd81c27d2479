"""Environment variables, packages, machine and framework."""

from __future__ import annotations

from msprobe.setup_check.differences.settings import compare_environment, compare_facts, compare_packages
from msprobe.setup_check.document import SetupDocument


def environment(first: dict[str, str], second: dict[str, str]) -> dict[str, tuple[object, object, str]]:
    """Return the differing variables: both values and the level."""
    section = compare_environment(SetupDocument(environment=first), SetupDocument(environment=second))
    assert all(row["reason"] for row in section.rows)
    return {row["bench_env_name"]: (row["bench_value"], row["cmp_value"], row["level"]) for row in section.rows}


def test_one_variable_has_two_names() -> None:
    npu = {"ASCEND_HOME_PATH": "/a", "HCCL_DETERMINISTIC": "true"}
    found = environment(npu, {"NCCL_DETERMINISTIC": "1", "ASCEND_HOME_PATH": "/a"})
    assert found["HCCL_DETERMINISTIC"] == ("true", "False", "error")
    assert "HCCL_DETERMINISTIC" not in environment(npu, {"NCCL_DETERMINISTIC": "1"})


def test_what_is_not_set_has_its_default() -> None:
    assert environment({}, {"CUDA_LAUNCH_BLOCKING": "0"}) == {}
    assert environment({}, {"CUDA_LAUNCH_BLOCKING": "1"}) == {"CUDA_LAUNCH_BLOCKING": ("0", "1", "error")}


def test_levels() -> None:
    found = environment(
        {"OMP_NUM_THREADS": "1", "NCCL_DEBUG": "INFO"}, {"OMP_NUM_THREADS": "2", "NVTE_FLASH_ATTN": "0"}
    )
    assert {name: level for name, (_, _, level) in found.items()} == {
        "OMP_NUM_THREADS": "warning",
        "NVTE_FLASH_ATTN": "error",
        "NCCL_DEBUG": "warning",
    }


def test_packages() -> None:
    section = compare_packages(
        SetupDocument(packages={"Torch": "2.1", "typing_extensions": "4", "numpy": "1", "a": "1"}),
        SetupDocument(packages={"torch": "2.2", "typing-extensions": "5", "numpy": "1"}),
    )
    found = [(row["package"], row["bench version"], row["cmp version"], row["level"]) for row in section.rows]
    assert found == [
        ("torch", "2.1", "2.2", "error"),
        ("a", "1", "None", "warning"),
        ("typing-extensions", "4", "5", "warning"),
    ]


def test_facts() -> None:
    section = compare_facts("framework", {"version": "2.1", "seed": 1}, {"version": "2.2", "threads": 2, "seed": 1})
    assert [(row["name"], row["level"]) for row in section.rows] == [("threads", "warning"), ("version", "error")]
    assert all(row["reason"] for row in section.rows)
    assert compare_facts("machine", {"system": "x"}, {}).level == "warning"
