"""What is right for each of the programs in ``programs/``: small rebuilds of public trainings, one file for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = Path(__file__).with_name("programs")
STEPS, LOSSES, REPEATED, FAULT, CHECK, MODELS = "steps", "losses", "repeated", "fault", "check", "models"


@dataclass(frozen=True, slots=True)
class Fault:
    """A realistic edit of one place, and what should be named.

    Attributes:
        right: a text that the program has; the first is meant.
        wrong: what stands there in the program with the fault.
        module: the layer in which the fault is, a regular expression for the end of its path; "" outside of layers.
        place: a text of the line that should be named; "" for the line that is edited.
    """

    right: str
    wrong: str
    module: str = ""
    place: str = ""

    def in_text(self, text: str) -> str:
        return text.replace(self.right, self.wrong, 1)

    def line(self, text: str, *, faulty: bool) -> int:
        """Return the number of the line that should be named, in the program with the fault or in the right one."""
        text, there = (self.in_text(text), self.wrong) if faulty else (text, self.right)
        return text[: text.index(self.place or there.strip())].count("\n") + 1


@dataclass(frozen=True, slots=True)
class Program:
    """A program and what msprobe should say of it.

    Attributes:
        name: the name of its file.
        steps: its iterations, as its author counts them; the docstring of the program says what one is.
        faults: what may be wrong in it.
        trained: layers of its trained models: a regular expression for the end of a path -> how many layers have it.
        hints: rules of ``msprobe check`` that may give a hint.
    """

    name: str
    steps: int
    faults: tuple[Fault, ...]
    trained: Mapping[str, int]
    hints: frozenset[str] = frozenset()

    @property
    def text(self) -> str:
        return (PROGRAMS / f"{self.name}.py").read_text(encoding="utf-8")


CATALOGUE = (
    Program(
        "actor_critic",
        steps=3,
        faults=(
            Fault(
                right="policy_losses.append(-log_probability * advantage)",
                wrong="policy_losses.append(log_probability * advantage)",
            ),
        ),
        trained={r"affine\.Linear": 1, r"action_head\.Linear": 1},
    ),
    Program(
        "cycle_gan",
        steps=3,
        faults=(
            Fault(
                right="self.criterionCycle(self.rec_A, self.real_A)",
                wrong="self.criterionCycle(self.rec_A, self.real_B)",
            ),
            Fault(
                right="self.rec_B = self.netG_A(self.fake_A)",
                wrong="self.rec_B = self.netG_B(self.fake_A)",
                module=r"\b0\.Conv2d",
            ),
        ),
        trained={r"0\.Conv2d": 4},
    ),
    Program(
        "dcgan",
        steps=3,
        faults=(
            Fault(right="label.fill_(1.0)", wrong="label.fill_(0.0)  # of the images that should pass for real"),
            Fault(right="    net_g.zero_grad()\n", wrong="", module="optimizer", place="loss_g.backward()"),
        ),
        trained={r"main\.0\.ConvTranspose2d": 1, r"main\.0\.Conv2d": 1},
    ),
    Program(
        "deep_speech",
        steps=3,
        faults=(
            Fault(right="loss = loss / inputs.size(0)", wrong="loss = loss / inputs.size(1)"),
            Fault(right="arange(x.size(3)) >=", wrong="arange(x.size(3)) >", module=r"conv\.MaskConv"),
        ),
        trained={r"conv\.seq_module\.0\.Conv2d": 1, r"rnns\.1\.rnn\.GRU": 1},
    ),
    Program(
        "diffusion",
        steps=4,
        faults=(
            Fault(
                right="added = (1 - self.alphas_cumprod[timesteps]).sqrt().view(",
                wrong="added = (1 - self.alphas_cumprod[timesteps]).view(",
            ),
        ),
        trained={r"conv_in\.Conv2d": 1, r"to_kv\.Linear": 1},
    ),
    Program(
        "distillation",
        steps=4,
        faults=(
            Fault(right="divergence * (ALPHA * TEMPERATURE * TEMPERATURE)", wrong="divergence * (ALPHA * TEMPERATURE)"),
            Fault(right="student.train()", wrong="student.eval()"),
        ),
        trained={r"conv\.Conv2d": 1, r"bn\.BatchNorm2d": 1},
        hints=frozenset({"parameter_not_updated"}),  # a bias before a norm: its gradient is rounding, which may vanish
    ),
    Program(
        "dlrm",
        steps=4,
        faults=(
            Fault(right='mode="sum"', wrong='mode="mean"', module=r"emb_l\.0\.EmbeddingBag", place="ly = [table("),
        ),
        trained={r"emb_l\.\d\.EmbeddingBag": 3, r"bot_l\.0\.Linear": 1, r"top_l\.0\.Linear": 1},
    ),
    Program(
        "forward_forward",
        steps=6,
        faults=(Fault(right="g_neg - self.threshold", wrong="g_neg + self.threshold"),),
        trained={r"Layer\w*\.relu\.ReLU": 2},
        hints=frozenset({"batches_repeat"}),  # each layer learns from one batch
    ),
    Program(
        "gcn",
        steps=4,
        faults=(
            Fault(
                right="F.log_softmax(self.gc2(x, adjacency), dim=1)",
                wrong="F.log_softmax(self.gc2(x, adjacency), dim=0)",
            ),
            Fault(right="weight_decay=5e-4", wrong="weight_decay=5e-3", module="optimizer", place="optimizer.step()"),
        ),
        trained={r"gc1\.GraphConvolution": 1, r"gc2\.GraphConvolution": 1},
    ),
    Program(
        "lora",
        steps=4,
        faults=(
            Fault(
                right="result += (x @ self.lora_A.T @ self.lora_B.T) * self.scaling",
                wrong="result += x @ self.lora_A.T @ self.lora_B.T",
                module=r"[qv]\.LoRALinear",
            ),
            Fault(right="batch_labels) / 2", wrong="batch_labels)"),
        ),
        trained={r"q\.LoRALinear": 1, r"v\.LoRALinear": 1},
    ),
    Program(
        "maml",
        steps=3,
        faults=(
            Fault(right="weight - 0.4 * gradient for", wrong="weight - 0.4 * gradient.detach() for"),
            Fault(right="weight - 0.4", wrong="weight + 0.4"),
        ),
        trained={r"net\.vars\.ParameterList": 1},
    ),
    Program(
        "moco",
        steps=4,
        faults=(
            Fault(right="        logits /= self.temperature\n", wrong="        logits *= self.temperature\n"),
            Fault(
                right="data * self.momentum + trained.data * (1.0 - self.momentum)",
                wrong="data * (1.0 - self.momentum) + trained.data * self.momentum",
            ),
        ),
        trained={r"encoder_q\.0\.Conv2d": 1},
    ),
    Program(
        "nano_gpt",
        steps=6,
        faults=(
            Fault(
                right="    scaler.unscale_(optimizer)\n    torch",
                wrong="    torch",
                module="clip_grad",
                place="torch.nn.utils.clip_grad_norm_(",
            ),
            Fault(right="1.0 / math.sqrt(k.size(-1))", wrong="1.0 / k.size(-1)", module=r"h\.0\.attn\.SelfAttention"),
        ),
        trained={r"h\.0\.attn\.c_attn\.Linear": 1, r"wte\.Embedding": 1},
        hints=frozenset({"non_finite"}),  # three updates are skipped
    ),
    Program(
        "neural_style",
        steps=3,
        faults=(Fault(right="/ (channels * height * width)", wrong="/ (height * width)"),),
        trained={r"conv1\.Conv2d": 1, r"in1\.InstanceNorm2d": 1},
    ),
    Program(
        "ppo",
        steps=8,
        faults=(
            Fault(right="policy_loss - 0.01 * entropy", wrong="policy_loss + 0.01 * entropy"),
            Fault(right="(value.view(-1) - returns[batch])", wrong="(value - returns[batch])"),
        ),
        trained={r"\b0\.Linear": 2, r"\b2\.Linear": 2},
    ),
    Program(
        "td3",
        steps=6,
        faults=(
            Fault(right="0.99 * torch.min(target1, target2)", wrong="0.99 * torch.max(target1, target2)"),
            Fault(right="copy_(0.05 * parameter.data + 0.95 *", wrong="copy_(0.5 * parameter.data + 0.5 *"),
        ),
        trained={r"fc1\.Linear": 3, r"fc_mu\.Linear": 1},
    ),
    Program(
        "time_sequence",
        steps=3,
        faults=(
            Fault(
                right="self.lstm1(value, (h1, c1))\n            h2, c2 = self.lstm2(h1, (h2, c2))",
                wrong="self.lstm1(value, (h1, c1))\n            h2, c2 = self.lstm2(h1, (h2, c1))",
                module=r"lstm2\.LSTMCell",
                place="self.lstm2(h1, (h2, c",
            ),
            Fault(right="lr=0.8", wrong="lr=0.08", module="optimizer", place="optimizer.step(closure)"),
        ),
        trained={r"lstm1\.LSTMCell": 1, r"linear\.Linear": 1},
    ),
    Program(
        "vae",
        steps=6,
        faults=(
            Fault(right="torch.exp(0.5 * log_variance)", wrong="torch.exp(log_variance)"),
            Fault(
                right="self.fc21(hidden), self.fc22(hidden)",
                wrong="self.fc22(hidden), self.fc21(hidden)",
            ),
        ),
        trained={r"fc1\.Linear": 1, r"fc22\.Linear": 1},
        hints=frozenset({"batches_repeat"}),  # it has no shuffling
    ),
    Program(
        "wgan",
        steps=6,
        faults=(
            Fault(
                right="torch.mean(discriminator(real)) + torch.mean(discriminator(fake))",
                wrong="torch.mean(discriminator(real)) - torch.mean(discriminator(fake))",
            ),
            Fault(right="clamp_(-CLIP, CLIP)", wrong="clamp_(-CLIP)"),
        ),
        trained={r"model\.0\.Linear": 2},
        hints=frozenset({"gradient_is_zero"}),  # the last bias of a critic cancels
    ),
    Program(
        "word_language_model",
        steps=6,
        faults=(
            Fault(right="alpha=-rate", wrong="alpha=rate"),
            Fault(right="        model.zero_grad()\n", wrong="", module="optimizer", place="loss.backward()"),
        ),
        trained={r"encoder\.Embedding": 1, r"rnn\.LSTM": 1},
        hints=frozenset({"batches_repeat"}),  # the text is read in its order
    ),
)
BY_NAME = {program.name: program for program in CATALOGUE}
