"""Calls inside captured graphs (CUDA graphs, ACL graphs): recorded once while captured, written at each replay."""
