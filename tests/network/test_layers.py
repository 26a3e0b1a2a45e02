"""Row sets and heads."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from attnforge.errors import TargetError
from attnforge.network import Rows
from tests.network.examples import head


def test_rows_take_what_they_name():
    tokens = np.arange(24.0).reshape(2, 4, 3)
    assert Rows().take(tokens) is tokens
    np.testing.assert_array_equal(Rows.some([3, 0]).take(tokens), tokens[:, [3, 0]])
    assert Rows.some([1], "context").source == "context"


@pytest.mark.parametrize(("kind", "indices"), [("some", None), ("all", np.array([0])), ("own", np.array([0]))])
def test_only_some_rows_list_their_indices(kind, indices):
    with pytest.raises(TargetError, match=r"Rows of kind 'some', and no others, list their indices\. Got "):
        Rows(kind, indices)


def test_memory_is_counted():
    assert head(memory=7).memory_size == 7
    assert head(rows=Rows()).memory_size == 0


def test_heads_are_frozen():
    with pytest.raises(FrozenInstanceError):
        head(memory=1).query = np.zeros((3, 2))  # type: ignore[misc]
