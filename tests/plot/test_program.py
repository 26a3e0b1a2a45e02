"""The picture of a program: one map a head over tokens, one line a register."""

import numpy as np
import pytest

import attnforge as af
from attnforge.plot.program import program


@pytest.fixture(scope="module")
def net():
    return af.programs.compile(af.programs.library["induction"], max_length=12)


def texts(axes):
    return [text.get_text() for text in axes.texts]


def test_maps_and_registers(net) -> None:
    figure = program(net, list("abca"))
    *maps, trace = figure.axes
    assert [axes.get_title() for axes in maps] == ["1: previous", "2: next"]
    assert [label.get_text() for label in maps[0].get_xticklabels()] == ["·", "a", "b", "c", "a"]
    assert maps[0].images[0].get_array().shape == (4, 5)
    assert np.argmax(maps[0].images[0].get_array(), axis=1).tolist() == [0, 1, 2, 3]
    names = [label.get_text() for label in trace.get_yticklabels()]
    assert names[-1].endswith("result")
    assert len(names) == len(net.layout.registers)  # without the constant one, with the result
    assert "∅" in texts(trace)


def test_text_of_a_user_is_drawn_as_it_is() -> None:
    net = af.programs.compile(af.programs.tokens, ["$x$", "<b>"], 4)
    figure = program(net, ["$x$", "<b>"])
    figure.canvas.draw()
    assert "$x$" in texts(figure.axes[-1])


def test_too_many_tokens_and_other_things_are_refused(net) -> None:
    with pytest.raises(af.TargetError, match="1 to 24 tokens"):
        program(net, ["a"] * 25)
    with pytest.raises(af.TargetError, match="compiled program"):
        program(3, ["a"])
