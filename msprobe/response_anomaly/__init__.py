"""Odd answers of a language model: repeated, garbled, rare characters, NaN; found from tokens, texts and logprobs."""

from msprobe.response_anomaly.detector import ILLDetector, analyze_output_anomaly

__all__ = ["ILLDetector", "analyze_output_anomaly"]
