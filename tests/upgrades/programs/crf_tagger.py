import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

VOCAB, CHARS, TAGS, PAD = 40, 12, 5, 0


class CharEncoder(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.emb = nn.Embedding(CHARS, 8, padding_idx=PAD)
        self.conv = nn.Conv1d(8, dim, 3, padding=1)

    def forward(self, chars):
        b, t, c = chars.shape
        x = self.emb(chars.reshape(b * t, c)).transpose(1, 2)
        x = self.conv(x).masked_fill((chars.reshape(b * t, 1, c) == PAD), -1e4)
        return x.amax(dim=2).reshape(b, t, -1)


class CRF(nn.Module):
    def __init__(self, tags):
        super().__init__()
        self.trans = nn.Parameter(torch.randn(tags, tags) * 0.3)  # [from, to]
        self.start = nn.Parameter(torch.randn(tags) * 0.3)
        self.end = nn.Parameter(torch.randn(tags) * 0.3)

    def path_score(self, emit, tags, mask):
        m = mask.float()
        picked = emit.gather(2, tags.unsqueeze(2)).squeeze(2)
        score = self.start[tags[:, 0]] + (picked * m).sum(1)
        steps = self.trans[tags[:, :-1], tags[:, 1:]]
        score = score + (steps * m[:, 1:]).sum(1)
        last = mask.sum(1) - 1
        last_tag = tags.gather(1, last.unsqueeze(1)).squeeze(1)
        return score + self.end[last_tag]

    def partition(self, emit, mask):
        alpha = self.start + emit[:, 0]
        for t in range(1, emit.size(1)):
            scores = alpha.unsqueeze(2) + self.trans.unsqueeze(0) + emit[:, t].unsqueeze(1)
            new = torch.logsumexp(scores, dim=1)
            alpha = torch.where(mask[:, t].unsqueeze(1), new, alpha)
        return torch.logsumexp(alpha + self.end, dim=1)

    def forward(self, emit, tags, mask):
        return self.partition(emit, mask) - self.path_score(emit, tags, mask)


class Tagger(nn.Module):
    def __init__(self, dim=16, char_dim=10, hidden=14):
        super().__init__()
        self.words = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.chars = CharEncoder(char_dim)
        self.lstm = nn.LSTM(dim + char_dim, hidden, batch_first=True, bidirectional=True)
        self.proj = nn.Linear(2 * hidden, TAGS)
        self.crf = CRF(TAGS)

    def forward(self, words, chars, tags, lengths):
        x = torch.cat([self.words(words), self.chars(chars)], dim=-1)
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        h, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=words.size(1))
        emit = self.proj(torch.tanh(h))
        return self.crf(emit, tags, words != PAD)


def sample_batch(gen, n=6, t=9, c=5):
    lengths = torch.randint(4, t + 1, (n,), generator=gen)
    words = torch.randint(1, VOCAB, (n, t), generator=gen)
    chars = torch.randint(1, CHARS, (n, t, c), generator=gen)
    chars[:, :, 3:] *= torch.randint(0, 2, (n, t, 1), generator=gen)
    pad = torch.arange(t)[None, :] >= lengths[:, None]
    words[pad] = PAD
    chars[pad] = PAD
    tags = (words + words.roll(1, dims=1)) % TAGS
    tags[pad] = 0
    return words, chars, tags, lengths


def train():
    torch.manual_seed(5)
    gen = torch.Generator().manual_seed(6)
    model = Tagger()
    crf_params = list(model.crf.parameters())
    base = [p for n, p in model.named_parameters() if not n.startswith("crf.")]
    opt = torch.optim.SGD([{"params": base, "lr": 0.2}, {"params": crf_params, "lr": 0.5}], lr=0.1, momentum=0.9)
    for step in range(3):
        words, chars, tags, lengths = sample_batch(gen)
        nll = model(words, chars, tags, lengths)
        loss = nll.sum() / lengths.sum()
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(base, 0.1)
        opt.step()
        print(f"step {step + 1} loss {loss.item():.9f}")


train()
