"""Speech recognition with CTC, modelled on train.py and model.py of SeanNaren/deepspeech.pytorch.

An iteration is a batch of utterances of several lengths.
"""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
LABELS, BANDS, SIZE = 6, 8, 5


class MaskConv(nn.Module):
    def __init__(self, seq_module):
        super().__init__()
        self.seq_module = seq_module

    def forward(self, x, lengths):
        for module in self.seq_module:
            x = module(x)
            mask = torch.arange(x.size(3)) >= lengths.view(-1, 1)
            x = x.masked_fill(mask[:, None, None, :], 0)
        return x


class BatchRNN(nn.Module):
    def __init__(self, inputs):
        super().__init__()
        self.rnn = nn.GRU(inputs, SIZE, bidirectional=True)

    def forward(self, x, lengths):
        x = nn.utils.rnn.pack_padded_sequence(x, lengths)
        x, _ = nn.utils.rnn.pad_packed_sequence(self.rnn(x)[0])
        return x.view(x.size(0), x.size(1), 2, -1).sum(2)


class DeepSpeech(nn.Module):
    def __init__(self):
        super().__init__()
        convolution = nn.Conv2d(1, 2, (3, 3), stride=(2, 2), padding=(1, 1))
        self.conv = MaskConv(nn.Sequential(convolution, nn.BatchNorm2d(2), nn.Hardtanh(0, 20, inplace=True)))
        self.rnns = nn.ModuleList([BatchRNN(2 * BANDS // 2), BatchRNN(SIZE)])
        self.fc = nn.Linear(SIZE, LABELS, bias=False)

    def forward(self, x, lengths):
        lengths = (lengths + 1) // 2
        x = self.conv(x, lengths)
        x = x.flatten(1, 2).permute(2, 0, 1)
        for rnn in self.rnns:
            x = rnn(x, lengths)
        return F.log_softmax(self.fc(x), dim=-1), lengths


model = DeepSpeech()
criterion = nn.CTCLoss(blank=0, reduction="sum", zero_infinity=True)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9, nesterov=True)
lengths, target_lengths = torch.tensor([20, 18, 14]), torch.tensor([4, 3, 2])
for _batch in range(3):
    inputs, targets = torch.randn(3, 1, BANDS, 20), torch.randint(1, LABELS, (9,))
    output, output_lengths = model(inputs, lengths)
    loss = criterion(output, targets, output_lengths, target_lengths)
    loss = loss / inputs.size(0)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 400)
    optimizer.step()
    print(loss.item().hex())
