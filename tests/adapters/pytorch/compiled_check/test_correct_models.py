"""Models that a compiler gets right give no alarm: families x types x back ends, each layer checked in both passes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
nn = torch.nn

from msprobe.adapters.pytorch.compiled_check.checker import PrecisionChecker  # noqa: E402
from tests.adapters.pytorch.compiled_check.planted_kernels import FAULTS, wrong  # noqa: E402
from tests.matrices import matrix_params  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.slow]
TOKENS = 64


class Family(NamedTuple):
    """A model, the classes of its layers that are compiled, how many of their calls there are, and its loss."""

    model: Any
    layers: tuple[type[Any], ...]
    calls: int
    loss: Callable[[Any], Any]


def llama() -> Family:
    from transformers.models.llama import modeling_llama as llama

    config = llama.LlamaConfig(
        vocab_size=TOKENS, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, use_cache=False,
    )  # fmt: skip
    return Family(llama.LlamaForCausalLM(config), (llama.LlamaDecoderLayer,), 2, _of_tokens)


def experts() -> Family:
    from transformers.models.mixtral import modeling_mixtral as mixtral

    config = mixtral.MixtralConfig(
        vocab_size=TOKENS, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, num_local_experts=4, use_cache=False,
    )  # fmt: skip
    return Family(mixtral.MixtralForCausalLM(config), (mixtral.MixtralDecoderLayer,), 2, _of_tokens)


def vision_transformer() -> Family:
    from transformers.models.vit import modeling_vit as vit

    config = vit.ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=16, patch_size=4,
        num_labels=5,
    )  # fmt: skip

    def loss(model: Any) -> Any:
        return model(pixel_values=_images(model), labels=torch.tensor([0, 3])).loss

    return Family(vit.ViTForImageClassification(config), (vit.ViTLayer,), 2, loss)


class Residual(nn.Module):
    """Two convolutions with batch norm around a shortcut."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(before, after, 3, 2, 1), nn.Conv2d(after, after, 3, 1, 1)
        self.norms = nn.ModuleList(nn.BatchNorm2d(after) for _ in range(2))
        self.short = nn.Conv2d(before, after, 1, 2)

    def forward(self, x: Any) -> Any:
        y = torch.relu(self.norms[0](self.first(x)))
        return nn.functional.silu(self.norms[1](self.second(y)) + self.short(x))


def convolutions() -> Family:
    model = nn.Sequential(Residual(3, 8), Residual(8, 16), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5))

    def loss(model: Any) -> Any:
        return nn.functional.cross_entropy(model(_images(model)).float(), torch.tensor([0, 3]))

    return Family(model, (Residual,), 2, loss)


def _images(model: Any) -> Any:
    return torch.randn(2, 3, 16, 16).to(next(model.parameters()).dtype)


def _of_tokens(model: Any) -> Any:
    ids = torch.randint(0, TOKENS, (2, 12))
    return model(input_ids=ids, labels=ids).loss


FAMILIES = {one.__name__: one for one in (llama, experts, vision_transformer, convolutions)}
CASES = [
    pytest.param(*case, id="-".join(case))
    for case in itertools.product(FAMILIES, ("float32", "bfloat16"), ("aot_eager", "inductor"))
]
SAMPLE = {"convolutions-float32-aot_eager", "experts-bfloat16-aot_eager"}


@pytest.mark.matrix("wide", sample=2)
@pytest.mark.parametrize(("family", "dtype", "backend"), matrix_params("compiled", CASES, SAMPLE))
def test_a_correct_model_gives_no_alarm(family: str, dtype: str, backend: str) -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    model, layers, calls, loss = FAMILIES[family]()
    checker = PrecisionChecker(backend=backend)
    model = checker.install(checker.wrap_by_policy(model.to(getattr(torch, dtype)).train(), layers))
    found = loss(model)
    found.backward()
    result = checker.collect(found)
    assert result.all_pass, list(result.lines)
    assert len(result.diffs) == calls
    kinds = {kind for diff in result.diffs for kind, _, _ in diff.checks}
    assert {"fwd_output", "grad_input", "grad_param"} <= kinds
    assert checker.locate(result) is None


@pytest.mark.matrix("compiled")
def test_a_wrong_kernel_in_a_real_model_is_named_with_its_line() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    model, layers, _, loss = llama()
    with wrong(FAULTS["silu.default-decompositions"]):
        checker = PrecisionChecker(backend="inductor")
        model = checker.install(checker.wrap_by_policy(model, layers))
        loss(model).backward()
        node = checker.locate(checker.collect())
    assert node is not None
    assert (node.operator, node.direction) == ("aten.silu.default", "forward")
    assert node.module.startswith("model.layers.0.mlp")
    assert "act_fn" in node.source or "silu" in node.source
