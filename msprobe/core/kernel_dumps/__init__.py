"""Kernel dumps that a framework's runtime writes by itself: the session that collects them."""
