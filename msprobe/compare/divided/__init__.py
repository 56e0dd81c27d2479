"""One pair of dumps compared by several processes: each reads, pairs, describes and writes its own part."""
