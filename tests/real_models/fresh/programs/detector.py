"""A detector: which place has to find which box, and the loss."""

import torch
import torch.nn.functional as F
from modeling_detector import STRIDES, Detector

KEPT = ()
SIZE = 32
CLASSES = 3


def build(attention):
    return Detector(classes=CLASSES)


def batch(step):
    generator = torch.Generator().manual_seed(4500 + step)
    corner = torch.randint(2, 14, (2, 3, 2), generator=generator).float()
    extent = torch.randint(6, 17, (2, 3, 2), generator=generator).float()
    return {
        "image": torch.randn(2, 3, SIZE, SIZE, generator=generator),
        "boxes": torch.cat((corner, corner + extent), dim=-1),
        "labels": torch.randint(CLASSES, (2, 3), generator=generator),
    }


def centers():
    found = []
    for stride in STRIDES:
        line = (torch.arange(SIZE // stride) + 0.5) * stride
        y, x = torch.meshgrid(line, line, indexing="ij")
        found.append(torch.stack((x, y), dim=-1).flatten(0, 1))
    return torch.cat(found)


def assigned(places, boxes):
    """Return for every place the distances to the smallest box that holds it, which one it is, and if there is one."""
    sides = torch.cat(
        (places[None, :, None] - boxes[:, None, :, :2], boxes[:, None, :, 2:] - places[None, :, None]), -1
    )
    inside = sides.amin(dim=-1) > 0
    area = (boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1])
    area = area[:, None].expand(inside.shape).masked_fill(~inside, 1e8)
    smallest, index = area.min(dim=-1)
    chosen = sides.gather(2, index[..., None, None].expand(-1, -1, 1, 4)).squeeze(2)
    return chosen, index, smallest < 1e8


def focal(scores, wanted):
    chance = torch.sigmoid(scores)
    terms = F.binary_cross_entropy_with_logits(scores, wanted, reduction="none")
    miss = chance * (1 - wanted) + (1 - chance) * wanted
    weight = 0.25 * wanted + 0.75 * (1 - wanted)
    return (weight * miss.square() * terms).sum()


def overlap(ours, theirs):
    """Return the generalised overlap of boxes around one place."""
    both = torch.minimum(ours, theirs)
    around = torch.maximum(ours, theirs)
    shared = (both[:, 0] + both[:, 2]) * (both[:, 1] + both[:, 3])
    first = (ours[:, 0] + ours[:, 2]) * (ours[:, 1] + ours[:, 3])
    second = (theirs[:, 0] + theirs[:, 2]) * (theirs[:, 1] + theirs[:, 3])
    union = first + second - shared
    hull = (around[:, 0] + around[:, 2]) * (around[:, 1] + around[:, 3])
    return shared / union - (hull - union) / hull


def loss(model, inputs):
    scores, boxes = model(inputs["image"])
    scores, boxes = scores.float(), boxes.float()
    sides, index, known = assigned(centers(), inputs["boxes"].float())
    wanted = F.one_hot(inputs["labels"].gather(1, index), CLASSES) * known[..., None]
    number = known.sum().clamp(min=1)
    score_loss = focal(scores, wanted.float()) / number
    box_loss = (1 - overlap(boxes[known], sides[known])).sum() / number
    return score_loss + box_loss
