"""Rules about losses: the terms that they are made of, and what they compare."""
