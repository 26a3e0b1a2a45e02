"""What the explorer needs beyond attnforge's own dependencies, named where it is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from attnforge.errors import TargetError


@contextmanager
def needed() -> Iterator[None]:
    """What is imported inside may be missing: the error then says what to install.

    >>> with needed():
    ...     import no_such_server
    Traceback (most recent call last):
    attnforge.errors.TargetError: The explorer needs fastapi and uvicorn. Got no module no_such_server. Install ...
    """
    try:
        yield
    except ModuleNotFoundError as error:
        remedy = 'Install them: pip install "attnforge[web]"'
        raise TargetError("The explorer needs fastapi and uvicorn", f"no module {error.name}", remedy) from error
