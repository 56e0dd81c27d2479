"""The inputs of one process cut for the ranks of another layout, so that each module is fed and judged by itself."""
