"""Kernel dumps that a framework's runtime writes by itself: request, read and import them.

* the name of one file, and of the kernel in the graph that it belongs to;
* the folders below `rank_{N}`, and the order in which kernels run;
* the printed graph (IR): the full name and the source lines of every kernel;
* the statistics of a tensor as the runtime would have written them;
* from files or rows to records in dump.json;
* the request to the runtime, made from the configuration;
* the table of files and source lines (`code_mapping`);
* the session that collects the kernels of each step.
"""
