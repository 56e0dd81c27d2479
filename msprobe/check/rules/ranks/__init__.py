"""Rules about several ranks: what they hold in common, what they tell each other, and how they step."""
