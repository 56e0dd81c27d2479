"""Harmless changes of the fresh families that see images and scenes."""

from __future__ import annotations

from tests.real_models.changes import CHECKPOINTING, compiled
from tests.real_models.runs import TASK, TRAIN, Edit

VIT_MAE: dict[str, tuple[Edit, ...]] = {
    "kept-by-index": (
        Edit(
            "torch.gather(sequence, dim=1, index=ids_keep.unsqueeze(-1).repeat(1, 1, dim))",
            "sequence[torch.arange(batch_size)[:, None], ids_keep]",
        ),
    ),
    "restored-by-index": (
        Edit(
            "        unmasked_tokens = torch.gather(\n"
            "            unmasked_tokens,\n"
            "            dim=1,\n"
            "            index=ids_restore.unsqueeze(-1).repeat(1, 1, hidden_states.shape[2])"
            ".to(unmasked_tokens.device),\n"
            "        )\n",
            "        rows = [own[order] for own, order in zip(unmasked_tokens, ids_restore)]\n"
            "        unmasked_tokens = torch.stack(rows)\n",
        ),
    ),
    "patches-by-unfold": (
        Edit(
            "        return patchified_pixel_values\n\n    def unpatchify",
            "        blocks = nn.functional.unfold(pixel_values, patch_size, stride=patch_size)\n"
            "        blocks = blocks.unflatten(1, (num_channels, -1)).permute(0, 3, 2, 1).flatten(2)\n"
            "        return blocks\n\n    def unpatchify",
        ),
    ),
    "standardized-together": (
        Edit(
            "            mean = target.mean(dim=-1, keepdim=True)\n",
            "            var, mean = torch.var_mean(target, dim=-1, keepdim=True)\n",
        ),
        Edit("            var = target.var(dim=-1, keepdim=True)\n", ""),
        Edit("(target - mean) / (var + 1.0e-6) ** 0.5", "(target - mean) * torch.rsqrt(var + 1.0e-6)"),
    ),
    "only-hidden-patches": (
        Edit(
            "        loss = loss.mean(dim=-1)\n        loss = (loss * mask).sum() / mask.sum()\n",
            "        loss = loss[mask.bool()].mean()\n",
        ),
    ),
    "mask-by-rank": (
        Edit(
            "        mask = torch.ones([batch_size, seq_length], device=sequence.device)\n"
            "        mask[:, :len_keep] = 0\n",
            "",
        ),
        Edit("mask = torch.gather(mask, dim=1, index=ids_restore)", "mask = (ids_restore >= len_keep).float()"),
    ),
    "residual-swapped": (Edit("hidden_states + residual", "residual + hidden_states", count=2),),
    "checkpointing": (CHECKPOINTING,),
}
NERF: dict[str, tuple[Edit, ...]] = {
    "free-by-sum-of-logs": (
        Edit(
            "    free = torch.cumprod(1 - alpha + 1e-10, dim=-1)\n",
            "    free = torch.exp(-torch.cumsum(F.softplus(density) * gap, dim=-1))\n",
        ),
    ),
    "pixel-by-einsum": (Edit("(share[..., None] * color).sum(dim=1)", 'torch.einsum("rs,rsc->rc", share, color)'),),
    "pixel-by-product": (Edit("(share[..., None] * color).sum(dim=1)", "torch.bmm(share[:, None], color).squeeze(1)"),),
    "rays-in-halves": (
        Edit(
            "composite(*self.coarse(points, direction), depth)",
            "composite(*in_halves(self.coarse, points, direction), depth)",
        ),
        Edit(
            "class Renderer(",
            "def in_halves(field, points, direction):\n"
            "    parts = [field(p, d) for p, d in zip(points.chunk(2), direction.chunk(2))]\n"
            "    return [torch.cat(values) for values in zip(*parts)]\n\n\nclass Renderer(",
        ),
    ),
    "skip-by-two-products": (
        Edit(
            "x = torch.relu(self.third(torch.cat((x, place), dim=-1)))",
            "inner, outer = self.third.weight.split((x.shape[-1], place.shape[-1]), dim=1)\n"
            "        x = torch.relu(F.linear(x, inner, self.third.bias) + F.linear(place, outer))",
        ),
    ),
    "view-expanded-first": (
        Edit(
            "        seen = waves(direction, self.view_octaves)[:, None].expand(-1, points.shape[1], -1)\n",
            "        seen = waves(direction[:, None].expand_as(points), self.view_octaves)\n",
        ),
    ),
    "fine-loss-first": (
        Edit(
            'F.mse_loss(rough, inputs["pixel"]) + F.mse_loss(pixel, inputs["pixel"])',
            '(pixel - inputs["pixel"]).square().mean() + (rough - inputs["pixel"]).square().mean()',
            TASK,
        ),
    ),
    "noise-ratio-logged": (
        Edit(
            "    return F.mse_loss(rough",
            "    with torch.no_grad():\n"
            '        ratio = -10 * torch.log10(F.mse_loss(pixel, inputs["pixel"]))\n'
            "    assert torch.isfinite(ratio)\n"
            "    return F.mse_loss(rough",
            TASK,
        ),
    ),
    "compiled-field": (compiled("fine."),),
}
DETECTOR: dict[str, tuple[Edit, ...]] = {
    "enlarged-by-repeat": (
        Edit(
            'F.interpolate(small, scale_factor=2, mode="nearest")',
            "small.repeat_interleave(2, dim=2).repeat_interleave(2, dim=3)",
        ),
    ),
    "enlarged-by-view": (
        Edit(
            'F.interpolate(small, scale_factor=2, mode="nearest")',
            "small[:, :, :, None, :, None].expand(-1, -1, -1, 2, -1, 2).flatten(4).flatten(2, 3)",
        ),
    ),
    "small-level-first": (
        Edit(
            "        for level, (x, stride) in enumerate(zip(levels, STRIDES, strict=True)):\n",
            "        for level, x, stride in reversed([(i, *pair) for i, pair in enumerate(zip(levels, STRIDES))]):\n",
        ),
        Edit(
            "return torch.cat(scores, dim=1), torch.cat(boxes, dim=1)",
            "return torch.cat(scores[::-1], dim=1), torch.cat(boxes[::-1], dim=1)",
        ),
    ),
    "focal-by-chance": (
        Edit(
            "    miss = chance * (1 - wanted) + (1 - chance) * wanted\n",
            "    miss = (wanted - chance).abs()\n",
            TASK,
        ),
    ),
    "focal-by-logsigmoid": (
        Edit(
            'F.binary_cross_entropy_with_logits(scores, wanted, reduction="none")',
            "-(wanted * F.logsigmoid(scores) + (1 - wanted) * F.logsigmoid(-scores))",
            TASK,
        ),
    ),
    "known-by-mask": (
        Edit(
            "(1 - overlap(boxes[known], sides[known])).sum() / number",
            "(1 - torch.where(known, overlap(boxes.flatten(0, 1), sides.flatten(0, 1).clamp(min=0.5))"
            ".view_as(known), 1)"
            ").sum() / number",
            TASK,
        ),
    ),
    "function-of-torch": (
        Edit("        x = F.relu(self.norm(self.conv(x)))\n", "        x = torch.relu(self.norm(self.conv(x)))\n"),
    ),
    "channels-last": (
        Edit("    model.train()", "    model.train()\n    model.to(memory_format=torch.channels_last)", TRAIN),
    ),
    "compiled-head": (compiled("head."),),
}
VQVAE: dict[str, tuple[Edit, ...]] = {
    "nearest-by-cdist": (
        Edit(
            "        distance = rows.square().sum(dim=1, keepdim=True) - 2 * rows @ self.codes.t() + "
            "self.codes.square().sum(dim=1)\n",
            "        distance = torch.cdist(rows, self.codes)\n",
        ),
    ),
    "found-by-index": (Edit("F.embedding(index, self.codes)", "self.codes[index]"),),
    "found-by-product": (
        Edit("F.embedding(index, self.codes)", "F.one_hot(index, len(self.codes)).to(rows.dtype) @ self.codes"),
    ),
    "counted-by-index-add": (
        Edit("chosen.sum(dim=0), alpha", "torch.bincount(index, minlength=len(self.codes)), alpha"),
        Edit("chosen.t() @ rows, alpha", "torch.zeros_like(self.sums).index_add_(0, index, rows), alpha"),
    ),
    "followed-by-lerp": (
        Edit(
            "self.counts.mul_(self.decay).add_(chosen.sum(dim=0), alpha=1 - self.decay)",
            "self.counts.lerp_(chosen.sum(dim=0), 1 - self.decay)",
        ),
        Edit(
            "self.sums.mul_(self.decay).add_(chosen.t() @ rows, alpha=1 - self.decay)",
            "self.sums.lerp_(chosen.t() @ rows, 1 - self.decay)",
        ),
    ),
    "codes-after-all": (
        Edit("        self.follow(rows.detach(), index)\n", ""),
        Edit(
            "        found = rows + (found - rows).detach()\n",
            "        known = rows.detach()\n        found = rows + (found - rows).detach()\n"
            "        self.follow(known, index)\n",
        ),
    ),
    "straight-through-function": (
        Edit("found = rows + (found - rows).detach()", "found = Through.apply(rows, found)"),
        Edit(
            "class Book(",
            "class Through(torch.autograd.Function):\n"
            "    @staticmethod\n    def forward(ctx, rows, found):\n        return found.clone()\n\n"
            "    @staticmethod\n    def backward(ctx, grad):\n        return grad, None\n\n\nclass Book(",
        ),
    ),
    "used-codes-counted": (
        Edit(
            'drawn, commitment, _ = model(inputs["image"])',
            'drawn, commitment, index = model(inputs["image"])\n    assert len(index.unique()) > 1',
            TASK,
        ),
    ),
    "average-by-foreach": (
        Edit(
            "    for slow, fast in zip(average.parameters(), model.parameters(), strict=True):\n"
            "        slow.mul_(0.9).add_(fast, alpha=0.1)\n",
            "    slow = list(average.parameters())\n    torch._foreach_lerp_(slow, list(model.parameters()), 0.1)\n",
            TRAIN,
        ),
    ),
    "foreach": (Edit("amsgrad=True)", "amsgrad=True, foreach=True)", TRAIN),),
}
