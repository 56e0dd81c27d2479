"""Sections of tasks: what their keys mean."""

from __future__ import annotations

import pytest

from msprobe.core.config.sections import FreeBenchmarkSection, OnlineCheckSection


@pytest.mark.parametrize(
    ("written", "fragment"),
    [
        ("mindspore.ops.bmm", "Functional.bmm."),
        ("mindspore.mint.nn.functional.gelu", "MintFunctional.gelu."),
        ("mindspore.mint.exp", "Mint.exp."),
        ("torch.nn.functional.linear", "Functional.linear."),
        ("torch.Tensor.add_", "Tensor.add_."),
        ("torch.exp", "Torch.exp."),
        ("softmax", "softmax"),
        ("Functional.linear.0.forward", "Functional.linear.0.forward"),
        ("my.ops.bmm", "my.ops.bmm"),
    ],
)
def test_full_names_of_functions_are_names_of_entries(written: str, fragment: str) -> None:
    assert FreeBenchmarkSection(list=[written]).names == (fragment,)


def test_every_finding_is_reported() -> None:
    assert FreeBenchmarkSection().finding_limit == OnlineCheckSection().finding_limit == -1
