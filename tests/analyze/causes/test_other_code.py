"""Two programs of other code: the difference is looked for between the values that both should have."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import msprobe
from msprobe.report.summary_text import lines_text, summary_text
from tests.fresh_debugger import forget
from tests.recordings import Recordings

torch = pytest.importorskip("torch")
from torch.utils.checkpoint import checkpoint  # noqa: E402

from msprobe.pytorch import PrecisionDebugger  # noqa: E402

nn, F = torch.nn, torch.nn.functional
pytestmark = pytest.mark.torch
WIDTH, HEADS, LENGTH = 16, 2, 6


def line_of(mark: str) -> str:
    """Return ``FILE:LINE`` of the line of this file that a comment marks."""
    lines = Path(__file__).read_text().splitlines()
    (number,) = (number for number, line in enumerate(lines, 1) if line.endswith(f"# {mark}"))
    return f"{Path(__file__).name}:{number}"


class Fused(nn.Module):
    """Attention as the library has it, its three projections in one."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).flatten(2))


class Written(nn.Module):
    """The same, written out; the keys of the fault are those of the wrong heads, or the scores are of another scale."""

    def __init__(self, fused: Fused, fault: str = "") -> None:
        super().__init__()
        self.fault = fault
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        with torch.no_grad():
            for layer, weight, bias in zip(
                (self.q, self.k, self.v), fused.qkv.weight.chunk(3), fused.qkv.bias.chunk(3), strict=True
            ):
                layer.weight.copy_(weight)
                layer.bias.copy_(bias)
        self.out.load_state_dict(fused.out.state_dict())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (layer(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for layer in (self.q, self.k, self.v))
        scores = q @ k.mT / math.sqrt(WIDTH if self.fault == "scale" else WIDTH // HEADS)  # scores
        scores = scores + torch.full((LENGTH, LENGTH), -torch.inf).triu(2 if self.fault == "mask" else 1)  # mask
        weights = torch.softmax(scores, -2 if self.fault == "axis" else -1)  # weights
        mixed = weights @ v
        if self.fault != "order":
            mixed = mixed.transpose(1, 2)
        merged = mixed.reshape(x.shape)  # merged
        return self.out(merged)


class Block(nn.Module):
    """One layer of a model; ``dropped`` leaves the norm before the second half out, ``again`` takes the first one."""

    def __init__(self, attention: nn.Module, *, dropped: bool = False, again: bool = False) -> None:
        super().__init__()
        self.dropped, self.again = dropped, again
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention, self.wide = attention, nn.Sequential(nn.Linear(WIDTH, 32), nn.GELU(), nn.Linear(32, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.first(x))
        if self.dropped:
            return x + self.wide(x)  # dropped
        if self.again:
            return x + self.wide(self.first(x))  # again
        return x + self.wide(self.second(x))


def models(fault: str = "") -> dict[str, nn.Module]:
    """Return the model with fused and with written attention, of the same weights."""
    torch.manual_seed(0)
    fused = Block(Fused())
    written = Block(Written(fused.attention, fault), dropped=fault == "dropped", again=fault == "again")
    written.load_state_dict({k: v for k, v in fused.state_dict().items() if "attention" not in k}, strict=False)
    return {"golden": fused, "target": written}


def record(folder: Path, fault: str = "", more: int = 0) -> tuple[str, str]:
    """Record one step of training of both models; return the folders of target and golden run.

    The golden run computes ``more`` tokens than the loss needs.
    """
    for name, model in models(fault).items():
        forget()
        torch.manual_seed(1)
        x, goal = torch.randn(2, 2, LENGTH, WIDTH)
        debugger = PrecisionDebugger({"dump_path": str(folder / name), "level": "mix", "task": "statistics"})
        if name == "golden":
            x = torch.cat([x, torch.randn(2, more, WIDTH)], 1)
        with debugger.collect(model=model):
            F.mse_loss(model(x)[:, :LENGTH], goal).backward()
    forget()
    return str(folder / "target"), str(folder / "golden")


def test_another_implementation_is_the_same(tmp_path: Path) -> None:
    assert msprobe.compare(*record(tmp_path)).summary.verdict == "same"


@pytest.mark.parametrize(
    ("fault", "mark", "module"),
    [
        ("scale", "scores", "attention.Written"),
        ("mask", "mask", "attention.Written"),
        ("axis", "weights", "attention.Written"),
        ("order", "merged", "attention.Written"),
        ("dropped", "dropped", "second.LayerNorm"),
    ],
)
def test_fault_in_other_code_is_among_the_lines(tmp_path: Path, fault: str, mark: str, module: str) -> None:
    first = msprobe.compare(*record(tmp_path, fault)).summary.first_divergence
    assert first is not None
    assert (first.module or "Block").endswith(module)
    assert any(f"{line_of(mark)} " in line for line in (first.source, first.target_source, *first.stretch))


@pytest.mark.parametrize("fault", ["", "scale", "axis", "dropped"])
def test_a_part_of_the_golden_values_tells_where_a_fault_is(tmp_path: Path, fault: str) -> None:
    summary = msprobe.compare(*record(tmp_path, fault, more=1)).summary
    assert summary.verdict == ("diverged" if fault else "same")
    if (first := summary.first_divergence) is not None:
        part = "wide" if fault == "dropped" else "attention"
        assert part in f"{first.module} {first.target}", summary_text(summary)


def test_a_norm_that_nobody_uses_is_named_by_its_gradient(tmp_path: Path) -> None:
    """A new norm changes nothing but by its name."""
    first = msprobe.compare(*record(tmp_path, "again")).summary.first_divergence
    assert first is not None and "second.weight gets a gradient in the golden run alone" in first.reason
    assert any(f"{line_of('again')} " in line for line in (first.source, first.target_source))


class Stored(nn.Module):
    """A layer as libraries store it that began elsewhere: the matrix is transposed, and all rows are one axis."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(linear.weight.detach().T.clone()), linear.bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.addmm(self.bias, x.reshape(-1, WIDTH), self.weight).view(x.shape)


@pytest.mark.parametrize("fault", ["", "order"])
def test_a_transposed_matrix_hides_no_other_order(tmp_path: Path, fault: str) -> None:
    for name, model in models(fault).items():
        forget()
        if name == "golden":
            model.attention.out = Stored(model.attention.out)
        x, goal = torch.randn(2, 2, LENGTH, WIDTH, generator=torch.Generator().manual_seed(1))
        debugger = PrecisionDebugger({"dump_path": str(tmp_path / name), "level": "mix", "task": "statistics"})
        with debugger.collect(model=model):
            F.mse_loss(model(x), goal).backward()
    forget()
    summary = msprobe.compare(str(tmp_path / "target"), str(tmp_path / "golden")).summary
    assert summary.verdict == ("diverged" if fault else "same")
    if (first := summary.first_divergence) is not None:
        assert any(f"{line_of('merged')} " in line for line in (first.source, *first.stretch)), summary_text(summary)


class Cached(nn.Module):
    """A layer of attention that keeps keys and values; the fault forgets how many there are, or scales scores
    otherwise."""

    def __init__(self, *, forgets: bool = False, scale: float | None = None) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(20, WIDTH), nn.Linear(WIDTH, 20)
        self.attention, self.forgets, self.scale = Fused(), forgets, scale

    def forward(self, tokens: torch.Tensor, kept: list[torch.Tensor] | None = None) -> torch.Tensor:
        q, k, v = self.attention.qkv(self.embed(tokens)).chunk(3, -1)
        if kept is not None:
            k, v = (torch.cat(pair, 1) for pair in zip(kept or (k[:, :0], v[:, :0]), (k, v), strict=True))
            kept[:] = k, v
        start = 0 if self.forgets else k.shape[1] - tokens.shape[1]
        seen = torch.arange(k.shape[1]) <= start + torch.arange(tokens.shape[1])[:, None]  # seen
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen, scale=self.scale)  # scaled
        return self.head(self.attention.out(y))


@pytest.mark.parametrize("forgets", [False, True])
def test_parts_of_a_prompt_are_compared_as_a_whole(tmp_path: Path, forgets: bool) -> None:
    for name in ("golden", "target"):
        forget()
        torch.manual_seed(0)
        model = Cached(forgets=forgets and name == "target").eval()
        tokens, kept = torch.randint(0, 20, (2, 12)), []
        debugger = PrecisionDebugger({"dump_path": str(tmp_path / name), "level": "mix", "task": "statistics"})
        with torch.no_grad(), debugger.collect(model=model):
            parts = [model(part, kept) for part in tokens.chunk(3, 1)] if name == "target" else [model(tokens)]
            torch.cat(parts, 1).softmax(-1).max()
    forget()
    summary = msprobe.compare(str(tmp_path / "target"), str(tmp_path / "golden")).summary
    assert summary.verdict == ("diverged" if forgets else "same")
    if summary.first_divergence is not None:
        first = summary.first_divergence
        assert any(f"{line_of('seen')} " in line for line in (first.source, *first.stretch)), summary_text(summary)


@pytest.mark.parametrize("scale", [None, 0.5])
def test_requests_are_compared_as_a_batch(tmp_path: Path, scale: float | None) -> None:
    """One run makes each round for all requests at once, the other one all rounds of a request before the next."""
    rounds = 2
    for name in ("golden", "target"):
        forget()
        torch.manual_seed(0)
        layers = nn.ModuleDict({"layer": Cached(scale=scale if name == "target" else None)}).eval()
        model = layers["layer"]
        tokens, kept = torch.randint(0, 20, (3, 8)), []
        debugger = PrecisionDebugger({"dump_path": str(tmp_path / name), "level": "mix", "task": "statistics"})
        with torch.no_grad(), debugger.collect(model=layers):
            if name == "target":
                results = [model(tokens[:, :6], kept)[:, -1], model(tokens[:, 6:7], kept)[:, -1]]
            else:
                one_by_one = [model(one[None, : 6 + i], [])[:, -1] for one in tokens for i in range(rounds)]
                results = [torch.cat(one_by_one[i::rounds]) for i in range(rounds)]
            for logits in results:
                logits.softmax(-1).tolist()
    forget()
    summary = msprobe.compare(str(tmp_path / "target"), str(tmp_path / "golden")).summary
    assert summary.verdict == ("diverged" if scale else "same")
    if summary.first_divergence is not None:
        first = summary.first_divergence
        assert first.target == "Functional.scaled_dot_product_attention.0.forward", summary_text(summary)
        assert any(f"{line_of('scaled')} " in line for line in first.stretch)


def test_lines_are_shown_by_function() -> None:
    sources = ["/a/b.py:9 in f: x", "/a/b.py:3 in f: y", "/a/c.py:7 in g: z", "/a/b.py:3 in f: y"]
    assert lines_text(sources) == "/a/b.py:3, 9 in f; /a/c.py:7 in g"
    assert lines_text([f"a.py:{n} in f: x" for n in range(14)]).endswith("11 in f; and 2 more")


class HandNorm(nn.Module):
    """The norm of the library, written out: what is scaled is normalised already."""

    def __init__(self, norm: nn.LayerNorm) -> None:
        super().__init__()
        self.weight, self.bias, self.eps = norm.weight, norm.bias, norm.eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        centred = x - x.mean(-1, keepdim=True)
        normal = centred * (centred.square().mean(-1, keepdim=True) + self.eps).rsqrt()
        return normal * self.weight + self.bias


def smooth(folder: Path, by_hand: bool, share: float = 0.1) -> None:
    """One step with smoothed labels, by the library or written out."""
    forget()
    torch.manual_seed(0)
    norm, head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 5)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    model = nn.Sequential(HandNorm(norm) if by_hand else norm, nn.Tanh(), head)
    y = torch.tensor([0, 4, 2])
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "mix", "task": "statistics"})
    with debugger.collect(model=model):
        scores = model(torch.randn(3, WIDTH))
        if by_hand:
            soft = F.one_hot(y, 5) * (1.0 - share) + share / 5
            loss = -(scores.log_softmax(-1) * soft).sum(-1).mean()  # smoothed
        else:
            loss = F.cross_entropy(scores, y, label_smoothing=0.1)
        loss.backward()
    forget()


def test_another_form_of_what_comes_out_right_is_not_blamed(recordings: Recordings) -> None:
    golden = recordings(smooth, False)
    assert msprobe.compare(recordings(smooth, True), golden).verdict == "same"
    first = msprobe.compare(recordings(smooth, True, 0.3), golden).summary.first_divergence
    assert first is not None and first.module is None, first


class Again(nn.Module):
    """A layer whose activations are computed again in the backward pass."""

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.block = block

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return checkpoint(self.block, x, use_reentrant=False)


def in_micro_batches(folder: Path, weight: float) -> None:
    """Two batches with recomputed activations and losses written out; ``weight`` 0 is one batch without."""
    forget()
    fused = models()["golden"]
    model = nn.Sequential(Again(models()["target"]) if weight else fused, nn.Linear(WIDTH, 4))
    nn.init.eye_(model[1].weight), nn.init.zeros_(model[1].bias)
    optimizer, debugger = (
        torch.optim.SGD(model.parameters(), 0.1),
        PrecisionDebugger({"dump_path": str(folder), "level": "mix"}),
    )
    x, goal = torch.randn(4, LENGTH, WIDTH, generator=torch.Generator().manual_seed(2)), torch.arange(4)
    for _ in range(2):
        debugger.start(model=model)
        if not weight:
            F.cross_entropy(model(x).mean(1), goal).backward()
        for part, wanted in zip(x.split(1), goal.split(1), strict=True) if weight else ():
            rows = torch.log_softmax(model(part).mean(1), -1)
            (-rows.gather(1, wanted[:, None]).sum() * weight).backward()  # weighted
        optimizer.step()
        optimizer.zero_grad()
        debugger.stop()
        debugger.step()
    forget()


def test_recomputed_calls_are_no_part_of_a_whole(recordings: Recordings) -> None:
    golden = recordings(in_micro_batches, 0.0)
    assert msprobe.compare(recordings(in_micro_batches, 0.25), golden).verdict == "same"
    first = msprobe.compare(recordings(in_micro_batches, 0.5), golden).summary.first_divergence
    assert first is not None and first.module is None, first
    assert any(line_of("weighted") in line for line in (first.source, *first.stretch))
