"""Readers of checkpoint files: safetensors, torch, Megatron folders."""
