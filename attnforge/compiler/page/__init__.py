"""A compiled target as one HTML page that needs nothing else: facts, certificate, figures, cost, how to load it."""

from attnforge.compiler.page.page import page

__all__ = ["page"]
