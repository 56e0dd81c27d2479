"""What an import may load. Bans on modules, not times: the same answer on every machine."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.rules.tree import ROOT, label, module_name, sources

FRAMEWORKS = {"torch", "torch_npu", "mindspore", "msadapter"}
CORE_MAY_IMPORT = {"msprobe", "numpy", "pydantic", "pydantic_core", "yaml"}
HEAVY_OUTPUT = {"xlsxwriter", "jinja2", "rich", "pandas", "matplotlib", "tensorboard"}
CLI_MAY_IMPORT = {"click"}
CLI_OWN_MODULES = ("msprobe.cli", "msprobe.core.errors", "msprobe.core.log")


def loaded_by(code: str) -> set[str]:
    """Top-level names of third-party modules that `code` loads in a fresh interpreter."""
    program = (
        "import json, sys\n"
        "before = set(sys.modules)\n"
        f"try:\n    exec({code!r})\nexcept SystemExit as stop:\n    assert not stop.code, stop.code\n"
        "names = {name.split('.')[0] for name in set(sys.modules) - before}\n"
        "print('\\n' + json.dumps(sorted(names - set(sys.stdlib_module_names) - {'msprobe'})))\n"
    )
    result = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return set(json.loads(result.stdout.splitlines()[-1]))


def imports(path: Path, *, top_level_only: bool = False) -> set[str]:
    """Absolute names of the modules imported by a file, imports for type checkers left out."""
    found: set[str] = set()
    pending: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            pending += node.orelse
        elif not (top_level_only and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))):
            pending += ast.iter_child_nodes(node)
    return found


def third_party(names: set[str]) -> set[str]:
    return {name.split(".")[0] for name in names} - set(sys.stdlib_module_names)


def test_import_msprobe_loads_no_third_party_module() -> None:
    assert loaded_by("import msprobe") == set()


@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_help_needs_only_click(argument: str) -> None:
    code = f"import sys; sys.argv = ['msprobe', {argument!r}]\nfrom msprobe.cli.main import main\nmain()"
    assert loaded_by(code) <= CLI_MAY_IMPORT | {"colorama"}


def test_core_loads_no_framework() -> None:
    modules = [module_name(path) for path in sources("msprobe/core")]
    assert modules
    assert not loaded_by("\n".join(f"import {name}" for name in modules)) & FRAMEWORKS


def test_a_comparison_needs_no_models_and_no_yaml() -> None:
    folder = ROOT / "tests" / "golden_compare" / "08_stat_noise"
    code = f"import msprobe; msprobe.compare({str(folder / 'target')!r}, {str(folder / 'golden')!r})"
    assert not loaded_by(code) & {"pydantic", "yaml", "click"}


def test_the_probe_sees_third_party_modules() -> None:
    assert "numpy" in loaded_by("import numpy")


@pytest.mark.parametrize("path", sources("msprobe/core"), ids=label)
def test_core_imports_only_its_four_libraries(path: Path) -> None:
    assert third_party(imports(path)) <= CORE_MAY_IMPORT


@pytest.mark.parametrize("path", sources("msprobe/cli"), ids=label)
def test_commands_import_their_tool_when_they_run(path: Path) -> None:
    names = imports(path, top_level_only=True)
    assert third_party(names) <= CLI_MAY_IMPORT | {"msprobe"}
    own = {name for name in names if name.startswith("msprobe.")}
    assert {name for name in own if not name.startswith(CLI_OWN_MODULES)} == set()


@pytest.mark.parametrize("path", sources(), ids=label)
def test_output_libraries_are_imported_when_a_file_is_written(path: Path) -> None:
    assert not third_party(imports(path, top_level_only=True)) & HEAVY_OUTPUT
