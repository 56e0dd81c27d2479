"""Faults of the fresh families that see images and scenes: what is planted, and where it shows first."""

from __future__ import annotations

from tests.real_models.faults.plant import OPTIMIZER, OUTSIDE, STEP, built, fault
from tests.real_models.runs import TASK, TRAIN, Edit

VIT_MAE = [
    fault(
        "vit_mae/last-ones-kept",
        "vit.embeddings",
        Edit("ids_keep = ids_shuffle[:, :len_keep]", "ids_keep = ids_shuffle[:, -len_keep:]  # <- here"),
        near="sequence_unmasked = torch.gather(",
    ),
    fault(
        "vit_mae/mask-inverted",
        "vit.embeddings",
        Edit("mask[:, :len_keep] = 0", "mask[:, len_keep:] = 0"),
        at="mask[:, len_keep:] = 0",
        near="mask = torch.gather(mask, dim=1, index=ids_restore)",
    ),
    fault(
        "vit_mae/order-not-inverted",
        "vit.embeddings",
        Edit("torch.argsort(ids_shuffle, dim=1).to(sequence.device)", "ids_shuffle.clone()  # <- here"),
        near="mask = torch.gather(mask, dim=1, index=ids_restore)",
    ),
    fault(
        "vit_mae/variance-biased",
        OUTSIDE,
        Edit("target.var(dim=-1, keepdim=True)", "target.var(dim=-1, keepdim=True, correction=0)  # <- here"),
    ),
    fault(
        "vit_mae/class-without-position",
        ("vit.embeddings", "vit.layers.0", "vit.layers.0.layernorm_before"),
        Edit("self.cls_token + position_embeddings[:, :1, :]", "self.cls_token  # <- here"),
        near=("cls_tokens = cls_token.expand(", "embeddings = torch.cat((cls_tokens, embeddings), dim=1)"),
    ),
    fault(
        "vit_mae/mask-token-not-learnt",
        ("decoder", "optimizer", "clip_grad", ""),
        Edit("self.mask_token.repeat(", "self.mask_token.detach().repeat("),
        at="mask_tokens = self.mask_token",
        near=("unmasked_tokens = torch.cat([hidden_states[:, 1:, :]", "torch.nn.utils.clip_grad_norm_(", STEP),
    ),
    fault(
        "vit_mae/mean-of-all-patches",
        OUTSIDE,
        Edit("(loss * mask).sum() / mask.sum()", "(loss * mask).sum() / mask.numel()  # <- here"),
    ),
    fault(
        "vit_mae/scores-not-scaled",
        "decoder.decoder_layers.0.attention",
        built("model.decoder.decoder_layers[0].attention.scaling = 1.0"),
        at="attn_weights = torch.matmul(query, key.transpose(2, 3)) * scaling",
    ),
]
NERF = [
    fault(
        "nerf/own-point-in-the-way",
        OUTSIDE,
        Edit("    free = torch.cat((torch.ones_like(free[:, :1]), free[:, :-1]), dim=-1)\n", ""),
        at="share = alpha * free",
        healthy_at="free = torch.cat((torch.ones_like(",
    ),
    fault(
        "nerf/waves-too-fast",
        "coarse",
        Edit("2.0 ** torch.arange(octaves)", "2.0 ** torch.arange(1, octaves + 1)  # <- here"),
    ),
    fault(
        "nerf/sky-missing",
        OUTSIDE,
        Edit("return pixel + (1 - share.sum(dim=1, keepdim=True)), share", "return pixel, share  # <- here"),
        near="return F.mse_loss(rough",
    ),
    fault("nerf/density-cut", OUTSIDE, Edit("-F.softplus(density)", "-F.relu(density)"), at="alpha = 1 - torch.exp("),
    fault(
        "nerf/depths-not-sorted",
        OUTSIDE,
        Edit("torch.cat((depth, found), dim=-1).sort(dim=-1).values", "torch.cat((depth, found), dim=-1)  # <- here"),
        near="points = origin[:, None] + depth[..., None]",
    ),
    fault(
        "nerf/coarse-for-fine",
        ("", "coarse", "fine", "coarse.first", "fine.first"),
        Edit(
            "composite(*self.fine(points, direction), depth)",
            "composite(*self.coarse(points, direction), depth)",
            after="depth = resampled",
        ),
        at="pixel, _ = composite(",
        near="x = torch.relu(self.first(place))",
    ),
    fault(
        "nerf/last-gap",
        OUTSIDE,
        Edit("torch.full_like(depth[:, :1], 2.0)", "torch.full_like(depth[:, :1], 0.5)"),
        at="gap = torch.cat((depth[:, 1:]",
        near="alpha = 1 - torch.exp(",
    ),
    fault(
        "nerf/chance-too-even",
        OUTSIDE,
        Edit("share.detach() + 1e-3", "share.detach() + 1e-1"),
        at="chance = share.detach() + 1e-1",
    ),
]
DETECTOR = [
    fault(
        "detector/scale-of-first-level",
        ("", "head"),
        Edit("self.head(x, self.scales[level])", "self.head(x, self.scales[0])  # <- here"),
        near="sides = torch.exp((self.box(x) * scale)",
    ),
    fault(
        "detector/stride-of-first-level",
        OUTSIDE,
        Edit("(sides * stride)", "(sides * STRIDES[0])"),
        at="boxes.append((sides * STRIDES[0])",
    ),
    fault(
        "detector/index-of-flipped-boxes",
        OUTSIDE,
        Edit("smallest, index = area.min(dim=-1)", "smallest, index = area.flip(-1).min(dim=-1)  # <- here", TASK),
    ),
    fault(
        "detector/corners-for-centers",
        OUTSIDE,
        Edit("(torch.arange(SIZE // stride) + 0.5) * stride", "torch.arange(SIZE // stride) * stride  # <- here", TASK),
        near=("y, x = torch.meshgrid(", "found.append(torch.stack((x, y)"),
    ),
    fault(
        "detector/focus-not-squared",
        OUTSIDE,
        Edit("weight * miss.square() * terms", "weight * miss * terms", TASK),
        at="return (weight * miss * terms)",
    ),
    fault(
        "detector/shared-counted-twice",
        OUTSIDE,
        Edit("union = first + second - shared", "union = first + second  # <- here", TASK),
        near="return shared / union",
    ),
    fault(
        "detector/divided-by-all-places",
        OUTSIDE,
        Edit("number = known.sum().clamp(min=1)", "number = known.numel()  # <- here", TASK),
        near="score_loss = focal(scores, wanted.float()) / number",
    ),
    fault(
        "detector/running-norm",
        "backbone.norm2",
        built("model.backbone.norm2.eval()"),
        at="large = F.relu(self.norm2(self.conv2(x)))",
    ),
    fault(
        "detector/enlarged-smoothly",
        "pyramid",
        Edit('mode="nearest"', 'mode="bilinear"'),
        at="large = self.lateral_large(large) + F.interpolate(",
    ),
    fault(
        "detector/rows-for-columns",
        OUTSIDE,
        Edit("torch.stack((x, y), dim=-1)", "torch.stack((y, x), dim=-1)", TASK),
        at="found.append(torch.stack((y, x)",
        near=("return torch.cat(found)", "sides = torch.cat(", "(places[None, :, None] - boxes"),
    ),
]
VQVAE = [
    fault(
        "vqvae/gradient-not-passed",
        ("book", "conv2", ""),
        Edit("        found = rows + (found - rows).detach()\n", ""),
        at="return found.view(x.shape[0]",
        healthy_at="found = rows + (found - rows).detach()",
    ),
    fault(
        "vqvae/commitment-weight",
        OUTSIDE,
        Edit("+ BETA * commitment", "+ 0.5 * commitment", TASK),
        at="return F.mse_loss(drawn",
    ),
    fault(
        "vqvae/decay",
        "book",
        built("model.book.decay = 0.99"),
        at="self.counts.mul_(self.decay)",
    ),
    fault(
        "vqvae/length-of-codes-missing",
        "book",
        Edit("self.codes.t() + self.codes.square().sum(dim=1)", "self.codes.t()  # <- here"),
        near="return distance.argmin(dim=1)",
    ),
    fault(
        "vqvae/counts-not-smoothed",
        "book",
        Edit(
            "counts = (self.counts + 1e-3) / (total + len(self.codes) * 1e-3) * total",
            "counts = self.counts  # <- here",
        ),
        near="self.codes.copy_(self.sums / counts[:, None])",
    ),
    fault(
        "vqvae/followed-before-found",
        "book",
        Edit("        self.follow(rows.detach(), index)\n", ""),
        Edit(
            "        found = F.embedding(index, self.codes)\n",
            "        self.follow(rows.detach(), index)  # <- here\n        found = F.embedding(index, self.codes)\n",
        ),
        at="found = F.embedding(index, self.codes)",
    ),
    fault(
        "vqvae/states-not-committed",
        ("book", ""),
        Edit("F.mse_loss(rows, found)", "F.mse_loss(rows.detach(), found)"),
        at=("commitment = F.mse_loss(rows.detach()", "return F.mse_loss(drawn"),
    ),
    fault(
        "vqvae/average-too-slow",
        OUTSIDE,
        Edit("slow.mul_(0.9).add_(fast, alpha=0.1)", "slow.mul_(0.99).add_(fast, alpha=0.01)  # <- here", TRAIN),
    ),
    fault("vqvae/without-amsgrad", OPTIMIZER, Edit("amsgrad=True", "amsgrad=False", TRAIN), at=STEP),
    fault(
        "vqvae/rows-of-channels",
        "book",
        Edit("x.permute(0, 2, 3, 1).flatten(0, 2)", "x.flatten(1).reshape(-1, x.shape[1])  # <- here"),
        near="distance = rows.square()",
    ),
]
