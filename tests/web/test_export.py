"""The page as one file: everything inside, nothing of a user's text as markup."""

import re

import pytest

from attnforge.errors import TargetError
from attnforge.web.export import STATIC, bundled, exported, page, positions
from attnforge.web.index import INDEX


def test_scripts_are_bundled_in_the_order_in_which_they_are_needed() -> None:
    text = bundled("main.js")
    assert not re.search(r"^(import|export) ", text, re.MULTILINE)
    names = re.findall(r"^modules\['(.*)'\] = ", text, re.MULTILINE)
    assert names[-1] == "main.js"
    assert set(names) == {
        path.relative_to(STATIC).as_posix() for path in STATIC.rglob("*.js") if "vendor" not in path.parts
    }
    for i, name in enumerate(names):
        body = text.split(f"modules['{name}'] = ")[1].split("\nmodules['")[0]
        assert set(re.findall(r"= modules\['(.*?)'\];", body)) <= set(names[:i])


def test_the_page_needs_nothing_else() -> None:
    text = page([["line", {"function": "</script><b>x"}, {}]])
    outside = re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
    assert not re.search(r"""(src|href)=["'](?!data:|#|\?)""", outside)
    assert "<b>x" not in text
    assert text.count("</script>") == text.count("<script>") == 3
    assert "default-src 'none'" in text


def test_every_position_is_a_request() -> None:
    asked = list(positions("sin(8*x)", {"x": (-1, 1)}))
    assert {job for job, _ in asked} == set(INDEX) - {"download"}
    for job, request in asked:
        INDEX[job].request.model_validate(request)


def test_a_function_of_two_inputs_is_refused() -> None:
    with pytest.raises(TargetError, match="one input"):
        exported("x*y", {"x": (0, 1), "y": (0, 1)}, lambda fraction, text: None)
