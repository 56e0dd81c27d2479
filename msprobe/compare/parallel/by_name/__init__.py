"""Ranks put together by the names of calls, where dumps have no modules; its rules of shapes and stages serve all."""
