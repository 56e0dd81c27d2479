"""A program without lines of msprobe: which of its modules are models, and where its iterations end."""
