import torch
from transformers import DeepseekV3Config, DeepseekV3ForCausalLM


def build():
    torch.manual_seed(51)
    config = DeepseekV3Config(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=48,
        moe_intermediate_size=16,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        n_shared_experts=1,
        n_routed_experts=8,
        routed_scaling_factor=2.5,
        kv_lora_rank=16,
        q_lora_rank=24,
        qk_rope_head_dim=8,
        qk_nope_head_dim=16,
        v_head_dim=12,
        n_group=4,
        topk_group=2,
        num_experts_per_tok=3,
        first_k_dense_replace=1,
        max_position_embeddings=128,
        initializer_range=0.2,
        attn_implementation="eager",
    )
    model = DeepseekV3ForCausalLM(config)
    with torch.no_grad():
        for p in model.parameters():
            if p.ndim == 1:
                p.add_(0.1 * torch.randn_like(p))
        gate = model.model.layers[1].mlp.gate
        gate.e_score_correction_bias.copy_(0.6 * torch.rand(8))
    return model


@torch.no_grad()
def main():
    model = build()
    model.load_state_dict(torch.load("weights.pt", weights_only=True))
    model.eval()
    gen = torch.Generator().manual_seed(52)
    for batch in range(2):
        tokens = torch.randint(0, 64, (2, 24), generator=gen)
        logits = model(input_ids=tokens, use_cache=False).logits
        logp = logits[:, :-1].log_softmax(-1)
        scores = logp.gather(2, tokens[:, 1:, None]).squeeze(-1)
        for row in scores:
            print(f"batch {batch} nll {-row.mean().item():.5f} last {row[-1].item():.5f}")


if __name__ == "__main__":
    main()
