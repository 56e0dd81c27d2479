"""Commands that run recorded calls again."""
