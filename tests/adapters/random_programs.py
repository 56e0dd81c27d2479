"""Random programs: text made of blocks, one seed each, which must run with the tool as they run without it.

``Programs.text(seed)`` returns a program: a header, and functions whose bodies are drawn from a file of blocks; the
words after ``$`` in both are drawn from lists. ``Programs.run(load(text))`` executes it and returns what each block has
made: values, gradients, the type and text of an exception, and the state of all random generators afterwards. Header,
blocks, words and what compares two tensors belong to a framework.
"""

from __future__ import annotations

import hashlib
import json
import linecache
import os
import random
import re
import string
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

_BLOCK = re.compile(r"^== (\w+)( \(rare\))?\n(.*?)(?=^== |\Z)", re.MULTILINE | re.DOTALL)
_FILE = "<program>"


class Framework(NamedTuple):
    """What programs of one framework are made of.

    Attributes:
        header: the imports and classes of each program. It defines ``made``, which makes tensors, and the list ``LOG``.
        seeded: the line that makes all generators start from ``{seed}`` and sets ``MODEL``.
        words: the texts that the words after ``$`` stand for.
        tensor: returns all that compares a tensor by, or None for what is no tensor.
        random_state: returns the bytes of the state of the framework's generators.
        noise: a pattern of what differs between two runs in texts of values and exceptions.
        attempts: how often a program differs before that counts, where the framework itself is not reproducible.
    """

    header: str
    seeded: str
    words: Mapping[str, Sequence[str]]
    tensor: Callable[[Any], Any]
    random_state: Callable[[], bytes]
    noise: str = "0x[0-9a-f]+"
    attempts: int = 1


class Programs:
    """The random programs of one framework.

    Args:
        framework: what they are made of.
        blocks: the file of blocks. Those marked ``(rare)`` take a second or more.
    """

    def __init__(self, framework: Framework, blocks: Path) -> None:
        found = _BLOCK.findall(blocks.read_text(encoding="utf-8"))
        self.blocks = {name: body.strip() for name, rare, body in found if not rare}
        self.rare_blocks = {name: body.strip() for name, rare, body in found if rare}
        self._framework = framework
        self.attempts = framework.attempts

    def text(self, seed: int, blocks: int = 12, rare: float = 0.0, only: Sequence[str] = ()) -> str:
        """Return one program of ``blocks`` blocks; ``rare`` is the share of rare ones, ``only`` names all to use."""
        rng = random.Random(seed)
        every = self.blocks | self.rare_blocks
        lines = [self._substituted(rng, self._framework.header), self._framework.seeded.format(seed=seed)]
        for number in range(blocks):
            table = self.rare_blocks if rng.random() < rare else self.blocks
            name = rng.choice(list(only) or list(table))
            body = self._substituted(rng, every[name]).replace("\n", "\n    ")
            lines.append(f"\ndef block_{number}_{name}():\n    {body}")
        return "\n".join(lines) + "\n"

    def _substituted(self, rng: random.Random, text: str) -> str:
        words = self._framework.words
        return string.Template(text).substitute({word: rng.choice(values) for word, values in words.items()})

    def run(self, names: dict[str, Any]) -> list[Any]:
        """Run the blocks of a loaded program and return what each has made."""
        blocks = [(name, block) for name, block in names.items() if name.startswith("block_")]
        return [(name, *self._made_by(block, names["LOG"])) for name, block in blocks]

    def _made_by(self, block: Any, log: list[Any]) -> Iterator[Any]:
        del log[:]
        try:
            yield self.described(block())
        except Exception as error:  # noqa: BLE001  (wrong calls are part of the programs)
            yield type(error).__name__, self._quiet(str(error))
        yield self.described(log)
        others = repr((random.getstate(), np.random.get_state())).encode()
        yield digest(self._framework.random_state()), digest(others)

    def described(self, value: Any) -> Any:
        """Return ``value`` in a form that compares by all its bits."""
        facts = self._framework.tensor(value)
        if facts is not None:
            return facts
        kind = type(value).__name__
        if isinstance(value, dict):
            return kind, [(self.described(key), self.described(part)) for key, part in value.items()]
        if isinstance(value, (list, tuple)):
            return kind, [self.described(part) for part in value]
        if hasattr(value, "__dataclass_fields__"):
            return kind, self.described(vars(value))
        return self._quiet(repr(value))

    def _quiet(self, text: str) -> str:
        return re.sub(self._framework.noise, "", text)

    def main(self) -> None:
        """Print the program whose seed is the first argument, and what it makes; further ones name its blocks."""
        text = self.text(int(sys.argv[1]), only=sys.argv[2:])
        print(text)
        for made in self.run(load(text)):
            print(made)


def load(text: str) -> dict[str, Any]:
    """Return the names of a program that was defined and not run; ``MODEL`` is its model."""
    module = types.ModuleType("random_program")
    module.__file__ = _FILE
    sys.modules[module.__name__] = module  # where dataclasses and pickle look for it
    linecache.cache[_FILE] = len(text), None, text.splitlines(keepends=True), _FILE  # where compilers look for the text
    exec(compile(text, _FILE, "exec"), vars(module))
    return vars(module)


def digest(data: bytes) -> str:
    """Return a short checksum of ``data``."""
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def differences(
    bench: Any, programs: Programs, text: str, settings: tuple[str, str, dict[str, Any]], count: Callable[[int], object]
) -> list[Any]:
    """Run a program without and with the tool and return what differs in what it makes, as pairs.

    Args:
        bench: opens the debugger.
        programs: those that the program is one of.
        text: the program.
        settings: level, task, and the section of the task.
        count: is told how many calls the tool has recorded.
    """
    for _ in range(programs.attempts):
        alone = programs.run(load(text))
        debugger = bench.open(*settings, risk_level="ALL")
        names = load(text)
        debugger.start(names["MODEL"])
        watched = programs.run(names)
        debugger.stop()
        count(recorded_calls(bench.root))
        found = [pair for pair in zip(alone, watched, strict=True) if pair[0] != pair[1]]
        if not found:
            break
    return found


def recorded_calls(folder: Path) -> int:
    """Return the number of calls in the dump of this process below ``folder``: each has one forward record."""
    (dump,) = folder.glob(f"*/proc{os.getpid()}/dump.json")
    return sum(".forward" in name for name in json.loads(dump.read_text(encoding="utf-8"))["data"])
