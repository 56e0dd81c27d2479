"""RNN transducer on synthetic speech: packed bidirectional encoder, recurrent label predictor, lattice loss."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

VOCAB = 9  # 0 is the blank
MELS = 12


class TransducerLoss(torch.autograd.Function):
    """Negative log-likelihood of all alignments; the gradient comes from the forward and backward variables."""

    @staticmethod
    def forward(ctx, blank, label, frames, lengths):
        batch, time, columns = blank.shape
        alpha = torch.full_like(blank, -1e30)
        alpha[:, 0, 0] = 0.0
        for t in range(time):
            for u in range(columns):
                if t > 0:
                    stay = alpha[:, t - 1, u] + blank[:, t - 1, u]
                    alpha[:, t, u] = torch.logaddexp(alpha[:, t, u], stay)
                if u > 0:
                    emit = alpha[:, t, u - 1] + label[:, t, u - 1]
                    alpha[:, t, u] = torch.logaddexp(alpha[:, t, u], emit)
        rows = torch.arange(batch)
        beta = torch.full((batch, time + 1, columns + 1), -1e30)
        for t in reversed(range(time)):
            for u in reversed(range(columns)):
                here = torch.logaddexp(beta[:, t + 1, u] + blank[:, t, u], beta[:, t, u + 1] + label[:, t, u])
                last = (t == frames - 1) & (u == lengths)
                outside = (t > frames - 1) | (u > lengths)
                here = torch.where(last, blank[:, t, u], here)
                beta[:, t, u] = here.masked_fill(outside, -1e30)
        total = alpha[rows, frames - 1, lengths] + blank[rows, frames - 1, lengths]
        ctx.save_for_backward(alpha, beta, blank, label, total, frames, lengths)
        return -total

    @staticmethod
    def backward(ctx, grad):
        alpha, beta, blank, label, total, frames, lengths = ctx.saved_tensors
        rows = torch.arange(len(total))
        after_blank = beta[:, 1:, :-1].clone()
        after_blank[rows, frames - 1, lengths] = 0.0
        norm = total[:, None, None]
        grad_blank = -torch.exp(alpha + blank + after_blank - norm)
        grad_label = -torch.exp(alpha + label + beta[:, :-1, 1:] - norm)
        scale = grad[:, None, None]
        return grad_blank * scale, grad_label * scale, None, None


class Encoder(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.front = nn.Conv1d(MELS, width, kernel_size=3, stride=2, padding=1)
        self.rnn = nn.LSTM(width, width, batch_first=True, bidirectional=True)
        self.proj = nn.Linear(2 * width, width)

    def forward(self, mels, frames):
        h = F.relu(self.front(mels.transpose(1, 2))).transpose(1, 2)
        frames = (frames + 1) // 2
        packed = pack_padded_sequence(h, frames, batch_first=True, enforce_sorted=False)
        h, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
        return self.proj(h), frames


class Predictor(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, width, padding_idx=0)
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.norm = nn.LayerNorm(width)

    def forward(self, labels):
        shifted = F.pad(labels, (1, 0))
        h, _ = self.rnn(self.embed(shifted))
        return self.norm(h)


class Joiner(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.acoustic = nn.Linear(width, width)
        self.lexical = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, VOCAB)

    def forward(self, audio, text):
        joint = self.acoustic(audio).unsqueeze(2) + self.lexical(text).unsqueeze(1)
        return F.log_softmax(self.out(torch.tanh(joint)), dim=-1)


class Transducer(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.predictor = Predictor()
        self.joiner = Joiner()

    def forward(self, mels, frames, labels):
        audio, frames = self.encoder(mels, frames)
        return self.joiner(audio, self.predictor(labels)), frames


def transducer_loss(logp, labels, frames, lengths):
    blank = logp[..., 0].contiguous()
    index = F.pad(labels, (0, 1))[:, None, :, None].expand(-1, logp.shape[1], -1, -1)
    label = logp.gather(-1, index).squeeze(-1)
    ended = torch.arange(label.shape[2]) >= lengths[:, None]
    label = label.masked_fill(ended[:, None, :], -1e30)
    return (TransducerLoss.apply(blank, label, frames, lengths) / lengths).mean()


def make_batch(step):
    g = torch.Generator().manual_seed(100 + step)
    lengths = torch.tensor([4, 2, 5, 3])
    frames = torch.tensor([15, 9, 16, 12])
    labels = torch.randint(1, VOCAB, (4, 5), generator=g)
    labels = labels.masked_fill(torch.arange(5) >= lengths[:, None], 0)
    mels = torch.randn(4, 16, MELS, generator=g) * 0.5
    for row in range(4):
        span = int(frames[row]) // int(lengths[row])
        for u in range(int(lengths[row])):
            mels[row, u * span : (u + 1) * span, int(labels[row, u])] += 2.0
    mean = torch.stack([m[:n].mean(0) for m, n in zip(mels, frames)])
    mels = mels - mean[:, None]
    return mels.masked_fill((torch.arange(16) >= frames[:, None])[..., None], 0.0), frames, labels, lengths


def main():
    torch.manual_seed(21)
    model = Transducer()
    decay = [p for n, p in model.named_parameters() if p.ndim > 1 and "embed" not in n]
    plain = [p for n, p in model.named_parameters() if p.ndim == 1 or "embed" in n]
    optimizer = torch.optim.AdamW(
        [{"params": decay, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}], lr=4e-3, eps=1e-4
    )
    warmup = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: min(1.0, (n + 1) / 3))
    for step in range(4):
        mels, frames, labels, lengths = make_batch(step)
        logp, out_frames = model(mels, frames, labels)
        loss = transducer_loss(logp, labels, out_frames, lengths)
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        optimizer.step()
        warmup.step()
        print(f"step {step} loss {loss.item():.9f} norm {norm.item():.9f}")


if __name__ == "__main__":
    main()
