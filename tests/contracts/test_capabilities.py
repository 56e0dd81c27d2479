"""Every capability of a backend offers what its protocol asks for, and is there where the table of support says so."""

from __future__ import annotations

import dataclasses
import typing
from pathlib import Path
from typing import Any

from msprobe.core.backend import protocols
from msprobe.core.backend.protocols import Backend
from msprobe.core.backend.support import supports_of
from msprobe.core.capture.observer import CurrentObserver
from msprobe.core.capture.thread_state import ThreadState
from msprobe.core.config import load_config
from tests.contracts.frameworks import Framework


def made(framework: Framework, folder: Path, **config: Any) -> Backend:
    backend = framework.make(load_config({"dump_path": str(folder), **config}), CurrentObserver(), ThreadState())
    assert isinstance(backend, Backend)
    return backend


def members(protocol: type) -> set[str]:
    """The public methods and attributes that a protocol asks for."""
    names = {*vars(protocol), *typing.get_type_hints(protocol)}
    return {name for name in names if not name.startswith("_")}


def test_a_capability_has_every_method_of_its_protocol(framework: Framework, tmp_path: Path) -> None:
    backend = made(framework, tmp_path, level="mix")
    for field in dataclasses.fields(backend):
        kind = str(field.type).split(" | ")[0].split("[")[0]
        protocol, capability = getattr(protocols, kind, None), getattr(backend, field.name)
        if protocol is not None and capability is not None:
            missing = {name for name in members(protocol) if not hasattr(capability, name)}
            assert not missing, f"{field.name} lacks {missing}"


def test_a_runtime_dumps_kernels_where_the_table_of_support_says_so(framework: Framework, tmp_path: Path) -> None:
    supports = supports_of({"torch": "pytorch"}.get(framework.name, framework.name))
    expected = any(support.runtime_kernels for support in supports)
    section = {"list": ["Functional.linear.0.forward"]}
    assert (made(framework, tmp_path, task="tensor", level="L2", tensor=section).kernel_dump is not None) is expected
    assert made(framework, tmp_path, level="L1").kernel_dump is None


def test_kernel_dumps_have_every_method_of_their_protocol(framework: Framework, tmp_path: Path) -> None:
    """Only the class is looked at: an object of it would ask the runtime for a dump."""
    section = {"list": ["Functional.linear.0.forward"]}
    dump = made(framework, tmp_path, task="tensor", level="L2", tensor=section).kernel_dump
    if dump is not None:
        missing = {name for name in members(protocols.KernelDump) if not hasattr(getattr(dump, "func", dump), name)}
        assert not missing


def test_static_graphs_are_observed_where_the_framework_compiles_them(framework: Framework, tmp_path: Path) -> None:
    assert (made(framework, tmp_path, level="L0").graphs is not None) is (framework.name == "mindspore")
