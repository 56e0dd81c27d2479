"""One computation whose batch or sequence comes in other pieces: results are compared as wholes, or by their uses."""

from __future__ import annotations

from pathlib import Path

import pytest

import msprobe
from tests.fresh_debugger import forget
from tests.recordings import Recordings

torch = pytest.importorskip("torch")
from msprobe.pytorch import PrecisionDebugger  # noqa: E402

nn, F = torch.nn, torch.nn.functional
pytestmark = pytest.mark.torch


class Attention(nn.Module):
    """Causal attention; ``late`` is a fault: keys that are one position too far behind."""

    def __init__(self, *, late: int = 0) -> None:
        super().__init__()
        self.qkv, self.out, self.late = nn.Linear(16, 48), nn.Linear(16, 16), late

    def forward(self, x: torch.Tensor, start: int, cache: list[torch.Tensor] | None) -> torch.Tensor:
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        angles = torch.arange(start, start + x.shape[1])[:, None] / 10.0 ** torch.arange(16)
        q, k = q * angles.cos(), k * (angles + self.late).cos()
        if cache is not None:
            k, v = (
                torch.cat([old, new], dim=1) for old, new in zip(cache or (k[:, :0], v[:, :0]), (k, v), strict=True)
            )
            cache[:] = [k, v]
        seen = torch.arange(k.shape[1])[None] <= start + torch.arange(x.shape[1])[:, None]
        return self.out(F.scaled_dot_product_attention(q, k, v, attn_mask=seen))


class Decoder(nn.Module):
    def __init__(self, *, late: int = 0) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(30, 16), nn.Linear(16, 30)
        self.layers = nn.ModuleList(Attention(late=late) for _ in range(2))

    def forward(self, tokens: torch.Tensor, start: int = 0, caches: list[list[torch.Tensor]] | None = None):
        x = self.embed(tokens)
        for layer, cache in zip(self.layers, caches or (None, None), strict=True):
            x = x + layer(x, start, cache)
        return self.head(x)


def generate(folder: Path, cached: bool, late: int = 0) -> None:
    """Three tokens after a prompt of five, two sequences at once, with a cache of keys and values or without one."""
    forget()
    torch.manual_seed(0)
    model = Decoder(late=late).eval()
    tokens = torch.randint(0, 30, (2, 5))
    caches, start = ([[], []] if cached else None), 0
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "mix", "task": "statistics"})
    with torch.no_grad(), debugger.collect(model=model):
        for _ in range(3):
            scores = model(tokens[:, start:] if cached else tokens, start, caches)[:, -1]
            start = tokens.shape[1] if cached else 0
            tokens = torch.cat([tokens, scores.argmax(dim=-1, keepdim=True)], dim=1)
    forget()


def classify(folder: Path, one_by_one: bool, factor: float = 1.0) -> None:
    """Rows of other lengths, padded together or one by one in the order of their lengths."""
    forget()
    torch.manual_seed(0)
    body, head = nn.Embedding(30, 8, padding_idx=0), nn.Linear(8, 3)
    model = nn.Sequential(body, head).eval()
    rows = [torch.randint(1, 30, (length,)) for length in (2, 6, 4)]
    padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    inputs = [row[None] for row in sorted(rows, key=len)] if one_by_one else [padded]
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "mix", "task": "statistics"})
    with torch.no_grad(), debugger.collect(model=model):
        for tokens in inputs:
            head(body(tokens).sum(dim=1) * factor)
    forget()


@pytest.mark.parametrize("turned", [False, True])
def test_decoding_with_a_cache_is_the_full_forward_pass(recordings: Recordings, turned: bool) -> None:
    pair = recordings(generate, True), recordings(generate, False)
    result = msprobe.compare(*(pair[::-1] if turned else pair))
    assert result.verdict == "same", result.summary.first_divergence


def test_another_position_in_a_cache_is_a_difference(recordings: Recordings) -> None:
    assert msprobe.compare(recordings(generate, True, 1), recordings(generate, False)).verdict == "diverged"


def test_rows_one_by_one_are_the_padded_batch(recordings: Recordings) -> None:
    result = msprobe.compare(recordings(classify, True), recordings(classify, False))
    assert result.verdict == "same", result.summary.first_divergence


def test_other_rows_one_by_one_are_a_difference(recordings: Recordings) -> None:
    assert msprobe.compare(recordings(classify, True, 1.01), recordings(classify, False)).verdict == "diverged"
