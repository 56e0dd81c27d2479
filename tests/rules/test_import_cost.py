"""What an import may load. Bans on modules, not times: the same answer on every machine."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.rules.import_graph import imports
from tests.rules.tree import ROOT, label, module_name, sources

FRAMEWORKS = {"torch", "torch_npu", "mindspore", "msadapter"}
CORE_MAY_IMPORT = {"msprobe", "numpy", "pydantic", "pydantic_core", "yaml"}
HEAVY_OUTPUT = {"xlsxwriter", "jinja2", "rich", "pandas", "matplotlib", "tensorboard"}
CLI_MAY_IMPORT = {"click"}
CLI_OWN_MODULES = ("msprobe.cli", "msprobe.core.distribution", "msprobe.core.errors", "msprobe.core.log")


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


def third_party(names: set[str]) -> set[str]:
    return {name.split(".")[0] for name in names} - set(sys.stdlib_module_names)


def test_import_msprobe_loads_no_third_party_module() -> None:
    assert loaded_by("import msprobe") == set()


@pytest.mark.parametrize("argument", ["--help", "--version", "-V"])
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


def test_a_comparison_of_equal_runs_loads_only_what_it_needs() -> None:
    """What explains differences and exempts them takes as long to load as comparing a thousand calls."""
    folder = ROOT / "tests" / "golden_compare" / "08_stat_noise" / "golden"
    program = "import sys, msprobe; msprobe.compare(sys.argv[1], sys.argv[1]); print(*sorted(sys.modules), sep='\\n')"
    command = [sys.executable, "-c", program, str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    unwanted = (
        "msprobe.compare.regions",
        "msprobe.compare.exemptions.other_",
        "msprobe.analyze.",
        "msprobe.compare.inputs.slices",
    )
    assert [name for name in done.stdout.splitlines() if name.startswith(unwanted)] == []


def test_the_probe_sees_third_party_modules() -> None:
    assert "numpy" in loaded_by("import numpy")


def test_core_imports_only_its_four_libraries() -> None:
    extra = {label(path): third_party(imports(path)) - CORE_MAY_IMPORT for path in sources("msprobe/core")}
    assert {name: libraries for name, libraries in extra.items() if libraries} == {}


def test_commands_import_their_tool_when_they_run() -> None:
    early = {}
    for path in sources("msprobe/cli"):
        names = imports(path, top_level_only=True)
        libraries = third_party(names) - CLI_MAY_IMPORT - {"msprobe"}
        tools = {name for name in names if name.startswith("msprobe.") and not name.startswith(CLI_OWN_MODULES)}
        early[label(path)] = libraries | tools
    assert {name: modules for name, modules in early.items() if modules} == {}


def test_output_libraries_are_imported_when_a_file_is_written() -> None:
    early = {label(path): third_party(imports(path, top_level_only=True)) & HEAVY_OUTPUT for path in sources()}
    assert {name: libraries for name, libraries in early.items() if libraries} == {}
