"""Correct trainings: no rule may find anything in them. Each gets a debugger at level mix and makes a few steps."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

Debugger = Any
STEPS = 3


def steps(debugger: Debugger, model: Any, count: int = STEPS) -> Iterator[int]:
    """Yield the numbers of steps; what the program does between two of them is recorded as one step."""
    for number in range(count):
        with step(debugger, model):
            yield number


@contextmanager
def step(debugger: Debugger, model: Any) -> Iterator[None]:
    debugger.start(model=model)
    yield
    debugger.stop()
    debugger.step()


def _model(name: str) -> Any:
    import transformers as t

    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    if name == "llama":
        model: Any = t.LlamaForCausalLM(t.LlamaConfig(vocab_size=64, num_key_value_heads=2, **small))
    elif name == "mixtral":
        config = t.MixtralConfig(vocab_size=64, num_key_value_heads=2, num_local_experts=4, **small)
        model = t.MixtralForCausalLM(config)
    elif name == "gpt2":
        model = t.GPT2LMHeadModel(t.GPT2Config(vocab_size=64, n_embd=32, n_layer=2, n_head=4, n_positions=32))
    elif name == "bert":
        model = t.BertForMaskedLM(t.BertConfig(vocab_size=64, **small))
    elif name == "bert_classifier":
        model = t.BertForSequenceClassification(t.BertConfig(vocab_size=64, num_labels=3, **small))
    elif name == "vit":
        model = t.ViTForImageClassification(t.ViTConfig(image_size=16, patch_size=4, num_labels=3, **small))
    else:
        config = t.T5Config(
            vocab_size=64, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0
        )
        model = t.T5ForConditionalGeneration(config)
    return model


def transformer(debugger: Debugger, name: str, autocast: bool = False) -> None:
    """Train a tiny model of transformers with AdamW, a schedule and clipping."""
    import transformers as t

    tokens = torch.randint(4, 60, (STEPS, 4, 12))
    model = _model(name)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = t.get_linear_schedule_with_warmup(optimizer, 2, 10)
    images, classes = torch.randn(STEPS, 4, 3, 16, 16), torch.randint(0, 3, (STEPS, 4))
    for number in range(STEPS):
        ids = tokens[number]
        if name == "bert":
            labels = torch.where(torch.rand(ids.shape) < 0.3, ids, -100)
            given: dict[str, Any] = {"input_ids": ids, "labels": labels}
        elif name == "bert_classifier":
            given = {"input_ids": ids, "labels": classes[number], "attention_mask": torch.ones_like(ids)}
        elif name == "vit":
            given = {"pixel_values": images[number], "labels": classes[number]}
        else:
            given = {"input_ids": ids, "labels": ids.flip(0) if name == "t5" else ids}
        with step(debugger, model):
            with torch.autocast("cpu", torch.bfloat16) if autocast else nullcontext():
                loss = model(**given).loss
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()


def transformer_in_autocast(debugger: Debugger, name: str) -> None:
    transformer(debugger, name, autocast=True)


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.body = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(0.1))
        self.head = nn.Linear(8, 4)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(self.stem(images)).mean((2, 3)))


def convolutions_with_validation(debugger: Debugger) -> None:
    """Train, validate in evaluation mode in the same step, and train again; one parameter group without decay."""
    model = Convolutions()
    groups = [{"params": model.stem.parameters(), "weight_decay": 0.0}, {"params": model.body.parameters()}]
    optimizer = torch.optim.SGD([*groups, {"params": model.head.parameters()}], lr=0.1, momentum=0.9)
    for _ in steps(debugger, model):
        model.train()
        F.cross_entropy(model(torch.randn(4, 3, 8, 8)), torch.randint(0, 4, (4,))).backward()
        optimizer.step()
        optimizer.zero_grad()
        model.eval()
        with torch.no_grad():
            F.cross_entropy(model(torch.randn(4, 3, 8, 8)), torch.randint(0, 4, (4,)))


def evaluation_between_trainings(debugger: Debugger) -> None:
    """A step that only evaluates stands between steps that train."""
    model = Convolutions()
    optimizer = torch.optim.Adam(model.parameters())
    for number in steps(debugger, model, 4):
        if number == 1:
            model.eval()
            with torch.inference_mode():
                model(torch.randn(4, 3, 8, 8))
            model.train()
            continue
        optimizer.zero_grad()
        F.cross_entropy(model(torch.randn(4, 3, 8, 8)), torch.randint(0, 4, (4,))).backward()
        optimizer.step()


def frozen_backbone(debugger: Debugger) -> None:
    """A backbone is frozen in evaluation mode, the head is trained."""
    model = Convolutions()
    for part in (model.stem, model.body):
        part.eval().requires_grad_(False)
    optimizer = torch.optim.Adam(model.head.parameters(), lr=1e-2)
    for _ in steps(debugger, model):
        optimizer.zero_grad()
        F.cross_entropy(model(torch.randn(4, 3, 8, 8)), torch.randint(0, 4, (4,))).backward()
        optimizer.step()


class LowRank(nn.Module):
    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Linear(base.in_features, 2, bias=False)
        self.up = nn.Linear(2, base.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) + self.up(self.down(x))


def low_rank_adapters(debugger: Debugger) -> None:
    """Low rank adapters beside frozen layers; the second factor begins as zero, so the first gets zero gradients."""
    model = nn.Sequential(LowRank(nn.Linear(8, 16)), nn.ReLU(), LowRank(nn.Linear(16, 4)))
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    for _ in steps(debugger, model):
        optimizer.zero_grad()
        F.mse_loss(model(torch.randn(6, 8)), torch.randn(6, 4)).backward()
        optimizer.step()


def adversaries(debugger: Debugger) -> None:
    """Two networks train against each other, each with its optimizer; one pass brings gradients to both."""
    model = nn.ModuleDict({
        "generator": nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8)),
        "critic": nn.Sequential(nn.Linear(8, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1)),
    })
    first = torch.optim.Adam(model["critic"].parameters(), lr=1e-3)
    second = torch.optim.Adam(model["generator"].parameters(), lr=1e-3)
    for _ in steps(debugger, model):
        fake, real = model["generator"](torch.randn(6, 4)), torch.randn(6, 8)
        first.zero_grad()
        scores = model["critic"](real), model["critic"](fake.detach())
        loss = F.binary_cross_entropy_with_logits(scores[0], torch.ones(6, 1))
        (loss + F.binary_cross_entropy_with_logits(scores[1], torch.zeros(6, 1))).backward()
        first.step()
        second.zero_grad()
        F.binary_cross_entropy_with_logits(model["critic"](fake), torch.ones(6, 1)).backward()
        second.step()


def accumulated(debugger: Debugger) -> None:
    """Each step of the dump is a micro step; the optimizer steps after two of them."""
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number in steps(debugger, model, 4):
        (F.cross_entropy(model(torch.randn(6, 8)), torch.randint(0, 4, (6,))) / 2).backward()
        if number % 2:
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)


def cleared_by_hand(debugger: Debugger) -> None:
    """Gradients are cleared without zero_grad, in three old ways."""
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number in steps(debugger, model, 4):
        F.cross_entropy(model(torch.randn(6, 8)), torch.randint(0, 4, (6,))).backward()
        optimizer.step()
        for parameter in model.parameters():
            if number == 0:
                parameter.grad = None
            elif number == 1:
                parameter.grad.data.zero_()
            else:
                parameter.grad.detach_().zero_()


def scaled(debugger: Debugger) -> None:
    """A gradient scaler skips the first step, whose scaled gradients overflow."""
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127, growth_interval=1000)
    for _ in steps(debugger, model, 4):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            loss = F.cross_entropy(model(torch.randn(6, 8)), torch.randint(0, 4, (6,)))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        schedule.step()


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(32, 16)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True) for _ in range(2))
        self.head = nn.Linear(16, 32, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden = self.embedding(tokens)
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        for layer in self.layers:
            hidden = layer(hidden, src_mask=mask, is_causal=True)
        return self.head(hidden)


def tied_language_model(debugger: Debugger) -> None:
    """Tied weights, a causal mask, a warm-up that begins at 0, and a learning rate set by hand."""
    model = Tied()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0)
    for number in range(STEPS):
        tokens = torch.randint(0, 32, (4, 9))
        for group in optimizer.param_groups:
            group["lr"] = 1e-3 * number
        with step(debugger, model):
            logits = model(tokens[:, :-1])
            F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).backward()
            optimizer.step()
            optimizer.zero_grad()


def teacher(debugger: Debugger) -> None:
    """A teacher follows the student as an average, and runs without gradients in training mode."""
    student = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 4))
    model = nn.ModuleDict({"student": student, "teacher": copy.deepcopy(student)})
    optimizer = torch.optim.SGD(model["student"].parameters(), lr=0.1)
    for _ in steps(debugger, model):
        data = torch.randn(6, 8)
        with torch.no_grad():
            target = model["teacher"](data)
        optimizer.zero_grad()
        F.mse_loss(model["student"](data), target).backward()
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(model["teacher"].parameters(), model["student"].parameters(), strict=True):
                slow.lerp_(fast, 0.1)


def value_learning(debugger: Debugger) -> None:
    """A target network that needs gradients is detached, and copied now and then."""
    online = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
    model = nn.ModuleDict({"online": online, "target": copy.deepcopy(online)})
    optimizer = torch.optim.Adam(model["online"].parameters(), lr=1e-2)
    for _ in steps(debugger, model):
        state, after, action = torch.randn(6, 4), torch.randn(6, 4), torch.randint(0, 2, (6, 1))
        wanted = torch.randn(6) + 0.9 * model["target"](after).max(1).values.detach()
        optimizer.zero_grad()
        F.smooth_l1_loss(model["online"](state).gather(1, action).squeeze(1), wanted).backward()
        optimizer.step()
        model["target"].load_state_dict(model["online"].state_dict())


def one_batch(debugger: Debugger) -> None:
    """A model learns one batch by heart; a recurrent network, checkpointed layers and bfloat16 weights."""
    from torch.utils.checkpoint import checkpoint

    model = nn.ModuleDict({"recurrent": nn.LSTM(8, 16, batch_first=True), "head": nn.Linear(16, 4)}).bfloat16()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    data, classes = torch.randn(6, 5, 8).bfloat16(), torch.randint(0, 4, (6,))
    for _ in steps(debugger, model):
        optimizer.zero_grad()
        hidden, _ = model["recurrent"](data)
        logits = checkpoint(model["head"], hidden[:, -1], use_reentrant=False)
        F.cross_entropy(logits.float(), classes).backward()
        optimizer.step()


def unused_parts(debugger: Debugger) -> None:
    """A pooler whose result nobody uses."""
    import transformers as t

    config = t.BertConfig(
        vocab_size=64, hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=64
    )
    model = nn.ModuleDict({"bert": t.BertModel(config), "head": nn.Linear(32, 5)})
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in steps(debugger, model):
        optimizer.zero_grad()
        hidden = model["bert"](torch.randint(0, 64, (3, 7))).last_hidden_state
        F.cross_entropy(model["head"](hidden).flatten(0, 1), torch.randint(0, 5, (21,))).backward()
        optimizer.step()


def variational(debugger: Debugger) -> None:
    """An autoencoder with sampled codes, a sigmoid at its end, and two terms in its loss."""
    model = nn.ModuleDict({"encode": nn.Linear(12, 8), "decode": nn.Linear(4, 12)})
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=5)
    for _ in steps(debugger, model):
        data = torch.rand(6, 12)
        mean, spread = model["encode"](data).chunk(2, 1)
        again = torch.sigmoid(model["decode"](mean + torch.randn_like(spread) * (spread / 2).exp()))
        known = -0.5 * (1 + spread - mean**2 - spread.exp()).sum()
        loss = F.binary_cross_entropy(again, data, reduction="sum") + known
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step(loss.item())


def narrow_gates(debugger: Debugger) -> None:
    """Train gates of bfloat16 whose inputs are so small that all of them are 0.5, and weigh a single loss."""
    model = nn.Linear(8, 8).bfloat16()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number in steps(debugger, model):
        values = model(torch.linspace(-1, 1, 64).reshape(8, 8).bfloat16() + number)
        gated = torch.sigmoid(values * 1e-4) * values
        loss = gated.float().square().mean()
        loss = loss * torch.softmax(loss.detach(), 0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def averaged_copy(debugger: Debugger, repeated: bool = False) -> None:
    """A copy with averaged weights is evaluated on the last batch before every second step."""
    model = nn.Linear(8, 2)
    average, batches = copy.deepcopy(model).eval(), torch.randn(6, 4, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number in steps(debugger, model, 6):
        if number % 2:
            with torch.no_grad():
                average(batches[number - 1])
        optimizer.zero_grad()
        batch = batches[number % 3 if repeated else number]
        F.cross_entropy(model(batch), torch.randint(0, 2, (4,))).backward()
        optimizer.step()


PROGRAMS: dict[str, Callable[..., None]] = {
    program.__name__: program
    for program in (
        convolutions_with_validation, evaluation_between_trainings, frozen_backbone, low_rank_adapters, adversaries,
        accumulated, cleared_by_hand, scaled, tied_language_model, teacher, value_learning, one_batch, unused_parts,
        variational, narrow_gates, averaged_copy,
    )
}  # fmt: skip
TRANSFORMERS = ("llama", "mixtral", "gpt2", "bert", "bert_classifier", "vit", "t5")
