"""Kernel dumps that a framework's runtime writes by itself: read, given names and source lines, and imported.

* `file_names`: the grammar of one file's name.
* `native_folder`: what lies where below `rank_{N}`, and in which order kernels run.
* `ir_source`: the printed graph (IR): every kernel's full name and source lines.
* `node_names`: from the name in a file to the kernel in the graph.
* `categories`, `statistic_csv`: the statistics of a tensor as the runtime would have written them.
* `records`, `importing`: from files or rows to `dump.json` in our own store.
* `request`, `exception_request`: what the runtime is asked for, from our configuration.
* `code_mapping`: the table of files and source lines.
"""
