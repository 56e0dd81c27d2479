"""wav2vec 2.0: convolutions over sound, then an encoder; a CTC loss."""

import torch
import torch.nn.functional as F
from modeling_wav2vec2 import Wav2Vec2ForCTC
from transformers.models.wav2vec2.configuration_wav2vec2 import Wav2Vec2Config

KEPT = ()


def build(attention):
    config = Wav2Vec2Config(
        vocab_size=16,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        conv_dim=(16, 16, 16),
        conv_stride=(4, 2, 2),
        conv_kernel=(8, 3, 2),
        num_feat_extract_layers=3,
        num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=4,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        activation_dropout=0.0,
        feat_proj_dropout=0.1,
        final_dropout=0.0,
        layerdrop=0.0,
        apply_spec_augment=False,
        pad_token_id=0,
        attn_implementation=attention,
    )
    return Wav2Vec2ForCTC(config)


def batch(step):
    generator = torch.Generator().manual_seed(1600 + step)
    sound = torch.randn(2, 320, generator=generator)
    mask = torch.ones(2, 320, dtype=torch.long)
    mask[1, 260:] = 0
    return {"input_values": sound, "attention_mask": mask, "labels": torch.randint(1, 16, (2, 5), generator=generator)}


def loss(model, inputs):
    logits = model(input_values=inputs["input_values"], attention_mask=inputs["attention_mask"]).logits
    scores = F.log_softmax(logits.float(), dim=-1).transpose(0, 1)
    lengths = torch.tensor([scores.shape[0], scores.shape[0] - 4])
    return F.ctc_loss(scores, inputs["labels"], lengths, torch.tensor([5, 5]), blank=0)
