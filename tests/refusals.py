"""What a refusal is: an error of the project's own that says what is required, what it got and what helps.

``with refused(af.DomainError): ...`` is how a test says it. The kind and the parts count, the wording is free.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest

import attnforge as af

Error = TypeVar("Error", bound=af.AttnforgeError)


def parts_missing(error: af.AttnforgeError) -> list[str]:
    """Which parts are empty; a refusal by all constructions lists their reasons in the place of what it got."""
    listed = isinstance(error, af.RefusalError) and error.requirement.startswith("No construction")
    wanted = {"requirement": error.requirement, "got": listed or error.got}
    return [name for name, part in wanted.items() if not part]


@contextmanager
def refused(kind: type[Error] = af.AttnforgeError) -> Iterator[pytest.ExceptionInfo[Error]]:  # type: ignore[assignment]
    """What is done inside is refused by an error of this kind, in whole sentences."""
    with pytest.raises(kind) as caught:
        yield caught
    assert parts_missing(caught.value) == [], str(caught.value)
