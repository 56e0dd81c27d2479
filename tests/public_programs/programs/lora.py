"""Low-rank updates of frozen weights, modelled on loralib and examples/NLG of microsoft/LoRA.

An iteration is an update from two micro batches; the evaluation after an epoch merges the updates into the weights.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


class LoRALinear(nn.Linear):
    def __init__(self, inputs, outputs, r=2, lora_alpha=8):
        super().__init__(inputs, outputs)
        self.lora_A = nn.Parameter(torch.empty(r, inputs))
        self.lora_B = nn.Parameter(torch.empty(outputs, r))
        self.scaling, self.merged = lora_alpha / r, False
        nn.init.kaiming_uniform_(self.lora_A, a=math.sqrt(5))
        nn.init.zeros_(self.lora_B)
        self.weight.requires_grad = False

    def train(self, mode=True):
        super().train(mode)
        if self.merged == mode:
            self.weight.data += (-1 if mode else 1) * (self.lora_B @ self.lora_A) * self.scaling
            self.merged = not mode
        return self

    def forward(self, x):
        result = F.linear(x, self.weight, self.bias)
        if not self.merged:
            result += (x @ self.lora_A.T @ self.lora_B.T) * self.scaling
        return result


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.q, self.v = nn.Embedding(9, 6), LoRALinear(6, 6), LoRALinear(6, 6)
        self.head = nn.Linear(6, 3)

    def forward(self, words):
        x = self.embed(words)
        attended = F.softmax(self.q(x) @ x.transpose(1, 2) / math.sqrt(6), dim=-1) @ self.v(x)
        return self.head(attended.mean(1))


model = Classifier()
for name, parameter in model.named_parameters():
    parameter.requires_grad = "lora_" in name
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=2e-2, weight_decay=0.01)
words, labels = torch.randint(0, 9, (4, 3, 5)), torch.randint(0, 3, (4, 3))
for _epoch in range(2):
    model.train()
    for micro, (batch, batch_labels) in enumerate(zip(words, labels)):
        loss = F.cross_entropy(model(batch), batch_labels) / 2
        loss.backward()
        if micro % 2 == 1:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        print(loss.item().hex())
    model.eval()
    with torch.no_grad():
        print("evaluation", F.cross_entropy(model(words[0]), labels[0]).item().hex())
