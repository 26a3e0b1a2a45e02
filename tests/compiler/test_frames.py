"""Data frames in and out."""

import numpy as np
import pandas as pd
import pytest

import attnforge as af

SQUARE = {"x": (-1, 1), "y": (-1, 1)}
DATA = pd.DataFrame({"y": [0.1, 0.2], "kind": ["a", "b"], "x": [0.5, 0.6]}, index=["p", "q"])


@pytest.fixture(scope="module")
def net():
    return af.compile("clamp(x + 0.5*y, -1, 1)", SQUARE, 1e-3)


@pytest.fixture(scope="module")
def several():
    return af.compile(["x + y", "x*y"], SQUARE, 1e-3)


class Frame:
    """As much of a data frame as is asked of one."""

    def __init__(self, **columns):
        self.columns, self._values = list(columns), columns

    def __getitem__(self, name):
        return self._values[name]


def test_columns_are_taken_by_name(net):
    frame = Frame(weight=[9.0, 9.0], y=[-0.5, -0.25], x=[0.2, 0.3])
    np.testing.assert_array_equal(net(frame), net(np.array([[0.2, -0.5], [0.3, -0.25]])))
    with pytest.raises(af.DomainError, match="no column y"):
        net(Frame(x=[0.2]))
    frame.columns.append("x")
    with pytest.raises(af.DomainError, match="several columns x"):
        net(frame)
    unnamed = af.compile(lambda x: x[..., 0], af.Box(0, 1, shape=(2,)), 0.1)
    with pytest.raises(af.DomainError, match="these inputs have none"):
        unnamed(frame)


def test_a_scalar_gives_a_series_with_the_index(net):
    found = net(DATA)
    assert isinstance(found, pd.Series)
    assert found.index.tolist() == ["p", "q"]
    np.testing.assert_array_equal(found, net(np.array([[0.5, 0.1], [0.6, 0.2]])))
    assert net(DATA.iloc[:0]).empty
    assert net(DATA[["x", "y"]].astype("float32")).dtype == np.float32


def test_several_outputs_give_a_frame(several):
    found = several(DATA)
    assert isinstance(found, pd.DataFrame)
    assert (found.shape, found.index.tolist()) == ((2, 2), ["p", "q"])
    np.testing.assert_array_equal(found, several(x=np.array([0.5, 0.6]), y=np.array([0.1, 0.2])))


def test_a_series_is_one_input():
    line = af.compile("2*x", {"x": (0, 1)}, 1e-3)
    assert line(DATA["x"]).index.tolist() == ["p", "q"]
    assert line(DATA).tolist() == line(DATA["x"]).tolist() == line(np.array([0.5, 0.6])).tolist()


@pytest.mark.parametrize(
    ("frame", "match"),
    [
        (DATA[["x"]], "needs the columns x, y. Got no column y"),
        (pd.concat([DATA, DATA[["x"]]], axis=1), "several columns x"),
        (DATA.assign(x=["a", "b"]), "real numbers"),
        (DATA.assign(x=[0.5, np.nan]), "finite"),
        (DATA.assign(x=[0.5, 2.0]), "certified domain"),
    ],
)
def test_wrong_frames(net, frame, match):
    with pytest.raises(af.DomainError, match=match):
        net(frame)


def test_attention_takes_frames_and_names(net):
    by_frame, by_name = net.attention(DATA), net.attention(x=DATA["x"], y=DATA["y"])
    plain = net.attention(DATA[["x", "y"]].to_numpy())
    for found in (by_frame, by_name):
        np.testing.assert_array_equal(found[0][0], plain[0][0])
    with pytest.raises(af.DomainError, match=r"named x, y\. Got x, z"):
        net.attention(x=0.5, z=0.1)


def test_tables_take_the_names_of_columns():
    frame = pd.DataFrame({"a": np.linspace(0, 1, 12), "b": np.linspace(1, 0, 12) ** 2})
    net = af.compile((frame[["a", "b"]], frame["a"] * frame["b"]), tol=1e-2)
    assert net.target.names == ("a", "b")
    assert np.abs(net(frame[["b", "a"]]) - frame["a"] * frame["b"]).max() <= 1e-2
    assert af.compile((frame["a"], frame["b"]), tol=1e-2).target.names == ("a",)
    assert af.constructions.table(frame[["a"]], frame["b"], anchors=6).target.names == ("a",)
    assert af.compile((frame[["a"]].set_axis(["a column"], axis=1), frame["b"]), tol=1e-2).target.names is None
