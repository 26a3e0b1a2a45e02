"""Words of a file that a figure shows: as they are, never as mathematics, and without failing."""

import pytest

import attnforge as af
from tests.attacks.files import agreeing, join, split

WORDS = r"$\frac{$ \alpha^{ <script> [red]"


@pytest.mark.parametrize(
    "build",
    [
        lambda: af.constructions.gate([1.0], 0.1, -1, 1, sharpness=20.0),
        lambda: af.compile("sin(3*x)", {"x": (-1, 1)}, 1e-2),
        lambda: af.compile("x*y", {"x": (-1, 1), "y": (-1, 1)}, 5e-2),
        lambda: af.compile(([0.0, 0.5, 1.0], [0.0, 0.25, 1.0])),
    ],
    ids=["gate", "one input", "two inputs", "table"],
)
def test_figures_show_words_as_they_are(build, tmp_path):
    build().save(tmp_path / "honest")
    metadata, arrays = split(tmp_path / "honest")
    metadata = metadata | {"construction": WORDS, "reason": WORDS}
    for layer in metadata["network"]["layers"]:
        for head in layer.get("heads", ()):
            if head["claims"] is not None:
                head["claims"] |= {"construction": WORDS, "roles": [WORDS] * len(head["claims"]["roles"])}
    net = af.load(join(tmp_path / "net", agreeing(metadata, arrays), arrays, honest=True))
    figure = net.plot()
    figure.savefig(tmp_path / "figure.png", dpi=40)
    figure.savefig(tmp_path / "figure.svg")
    assert "<script>" not in (tmp_path / "figure.svg").read_text()
    texts = [text for text in figure.findobj(lambda each: hasattr(each, "get_parse_math")) if WORDS in text.get_text()]
    assert texts
    assert not any(text.get_parse_math() for text in texts)
