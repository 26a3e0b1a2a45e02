"""Pictures of compiled networks. Every function returns a matplotlib figure; nothing is shown or saved by itself."""

from attnforge.plot.overview import overview
from attnforge.plot.section import section

__all__ = ["overview", "section"]
