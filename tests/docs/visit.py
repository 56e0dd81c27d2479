"""Follow a page as its reader would: block after block, in a folder of its own."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from msprobe.core.backend.support import PYTORCH, check_support
from msprobe.core.config import check_config
from tests import forked
from tests.docs.pages import Block, blocks, commands, missing
from tests.rules.tree import ROOT

_TOOLS = {"python": "", "msprobe": " -m msprobe", "torchrun": " -m torch.distributed.run"}


@dataclass
class Visit:
    """A page and an empty folder: ``page`` in it takes the files of the page, ``bin`` its programs."""

    page: Path
    folder: Path
    output: str = field(default="", init=False)
    status: int = field(default=0, init=False)

    def all(self) -> None:
        """Try every block. AssertionError names the block and shows the output of the program."""
        self._make_tools()
        for block in blocks(self.page):
            if not block.reason:
                self._try(block)

    @property
    def _here(self) -> Path:
        return self.folder / "page"

    def _try(self, block: Block) -> None:
        where = f"{self.page.name}:{block.line}"
        if block.language == "text":
            if block.title == "output":
                self._expect(where, block.body)
        elif block.title:
            self._write(block)
        elif block.language == "python":
            script = self._here / f"{self.page.stem}_{block.line}.py"
            script.write_text(block.body, encoding="utf-8")
            self._run(f"python {script.name}")
            assert self.status == 0, f"{where} failed:\n{self.output}"
        elif block.language == "console":
            self._console(where, block)
        elif block.language in {"json", "yaml"}:
            self._configuration(where, block)

    def _write(self, block: Block) -> None:
        target = self._here / block.title
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(block.body, encoding="utf-8")

    def _configuration(self, where: str, block: Block) -> None:
        written = json.loads(block.body) if block.language == "json" else yaml.safe_load(block.body)
        report = check_config({"dump_path": "./dump", **written})
        assert report.config is not None, f"{where}: {report.problems}"
        assert report.warnings == (), f"{where}: {report.warnings}"
        check_support(report.config, PYTORCH)

    def _console(self, where: str, block: Block) -> None:
        steps = commands(block)
        for step, after in zip(steps, [*steps[1:], None], strict=True):
            self._run(step.line)
            assert self.status == 0 or (after and after.line == "echo $?"), f"{where}: {step.line}\n{self.output}"
            self._expect(f"{where}: {step.line}", step.shown)

    def _run(self, line: str) -> None:
        path = f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-c", f"(exit {self.status}); {line}"],
            cwd=self._here,
            env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "COLUMNS": "200"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
        )
        self.output, self.status = done.stdout, done.returncode

    def _expect(self, where: str, shown: str | tuple[str, ...]) -> None:
        line = missing(shown, self.output)
        assert line is None, f"{where}: the output has no line\n    {line}\nat its place; it is\n{self.output}"

    def _make_tools(self) -> None:
        """Write ``python``, ``msprobe`` and ``torchrun`` of this interpreter, whatever else is installed."""
        python = forked.python(forked.MINDSPORE if "mindspore" in self.page.parts else forked.TORCH)
        self._here.mkdir()
        for name, arguments in _TOOLS.items():
            tool = self.folder / "bin" / name
            tool.parent.mkdir(exist_ok=True)
            tool.write_text(f'#!/bin/sh\nexec "{python}"{arguments} "$@"\n')
            tool.chmod(0o755)
