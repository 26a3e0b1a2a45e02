import math

import pytest
import typer

from attnforge.cli.intervals import read_domain


@pytest.mark.parametrize(
    ("texts", "domain"),
    [
        (["x=-1:1"], {"x": (-1, 1)}),
        (["x=-1e-3:-.5e-3", "y=+0:2"], {"x": (-1e-3, -0.5e-3), "y": (0, 2)}),
        ([" x = -1 : 1 , y=0:2"], {"x": (-1, 1), "y": (0, 2)}),
        (["x[0]=0:1,x[1]=-2:-1"], {"x[0]": (0, 1), "x[1]": (-2, -1)}),
        (["x=-pi:pi,y=-pi/2:2*pi"], {"x": (-math.pi, math.pi), "y": (-math.pi / 2, 2 * math.pi)}),
        (["x=0:max(1, sqrt(4)),y=1e-3:1"], {"x": (0, 2), "y": (1e-3, 1)}),
    ],
)
def test_reads(texts: list[str], domain: dict[str, tuple[float, float]]) -> None:
    assert read_domain(texts) == domain
    assert list(read_domain(texts)) == list(domain)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "x=1",
        "=0:1",
        "x=0:1,",
        "x=a:b",
        "x=0:1:2",
        "x=1_0:20",
        "x=\u0661:2",
        "-1:1",
        "x=0:x",
        "x=0:1/0",
        "x=0:max(1",
    ],
)
def test_refuses(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="must "):
        read_domain([text])


def test_a_name_comes_once() -> None:
    with pytest.raises(typer.BadParameter, match="Got x twice"):
        read_domain(["x=0:1", "x=0:2"])
