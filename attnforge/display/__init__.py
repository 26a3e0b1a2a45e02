"""What notebooks show of an object: cards of HTML and Markdown, made from escaped parts."""

from attnforge.display.card import Card, Displayed, Fact, Grid, Section, shares

__all__ = ["Card", "Displayed", "Fact", "Grid", "Section", "shares"]
