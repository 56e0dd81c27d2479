"""Checkpoints of Megatron-LM and MindSpeed: shards of many ranks put together to the tensors of the whole model."""
