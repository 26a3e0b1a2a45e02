"""What the experiment can be told."""

from __future__ import annotations

from dataclasses import dataclass

from attnforge.experiments.settings import Settings, setting


@dataclass(frozen=True)
class LengthSettings(Settings):
    """How long sequences are, how wide, and how many anchors and heads there are."""

    tokens: tuple[int, ...] = setting((50, 1000, 10_000), (50, 1000, 10_000), explain="Numbers n of tokens.")
    features: tuple[int, ...] = setting((10, 30, 100), (10, 100), explain="Numbers d of features.")
    anchors: tuple[int, ...] = setting((64, 128, 256, 512, 1024), (64, 128, 256), explain="Numbers p of anchors.")
    heads: tuple[int, ...] = setting((1, 2, 4, 8), (1, 2, 4), explain="Numbers H of heads, n keys each.")
    sentinels: tuple[int, ...] = setting((2, 4), (4,), explain="Sentinels a side of the heads.")
    timed: tuple[int, ...] = setting(
        (50, 250, 500, 1000, 2000, 4000, 10_000), (500, 1000, 2000, 10_000), explain="Tokens of timed runs."
    )
    widths: tuple[int, ...] = setting((10, 30, 100), (10,), explain="Features of timed runs.")
    longest: int = setting(4000, 2000, explain="Tokens up to which the paper's padded sequence is timed.")
    memory: int = setting(256, explain="Anchors of timed memory heads; the padded sequence has at least n.")
