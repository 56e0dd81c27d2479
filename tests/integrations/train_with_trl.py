"""A tiny GRPO training with both callbacks: ``python -m tests.integrations.train_with_trl FOLDER SEED``."""

from __future__ import annotations

import sys
from typing import Any

from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, set_seed
from trl import GRPOConfig, GRPOTrainer

from msprobe.pytorch.integrations import TransformersCallback, TrlCallback

WORDS = ["<pad>", "<eos>", "<unk>", *(f"w{number}" for number in range(40))]


def rewarded(completion_ids: Any, **_: Any) -> list[float]:
    """Reward different tokens."""
    return [float(len(set(ids))) for ids in completion_ids]


def main(folder: str, seed: int) -> None:
    """Train two steps."""
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()  # type: ignore[assignment]
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>")
    set_seed(1)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(WORDS), pad_token_id=0, eos_token_id=1, **sizes))
    arguments = GRPOConfig(
        output_dir=f"{folder}/out", per_device_train_batch_size=2, num_generations=2, max_completion_length=4,
        max_steps=2, report_to=[], use_cpu=True, save_strategy="no", disable_tqdm=True, seed=seed,
    )  # fmt: skip
    rollouts = TrlCallback(f"{folder}/rollout")
    config = {"task": "statistics", "level": "L0", "dump_path": f"{folder}/dump", "step": [], "rank": []}
    trainer = GRPOTrainer(
        model=model, reward_funcs=[rewarded, rollouts.reward], args=arguments, processing_class=fast,
        train_dataset=Dataset.from_dict({"prompt": ["w1 w2 w3", "w4 w5"] * 2}),
        callbacks=[rollouts, TransformersCallback(config)],
    )  # fmt: skip
    trainer.train()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
