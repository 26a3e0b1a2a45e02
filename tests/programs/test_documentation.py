"""The example of the page runs, and says what comes out."""

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "programs.md"


def test_the_example_of_the_page_runs() -> None:
    text = re.search(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)[1]
    known: dict = {}
    exec(text, known)
    assert known["net"](["a", "b", "b", "c"]) == ["c", "b", "b", "a"]
    assert "['c', 'b', 'b', 'a']" in text
    assert str(known["net"].certificate).startswith("proved: on every sequence of 1 to 100 tokens over 3")
