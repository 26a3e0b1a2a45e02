"""Links of the documentation lead somewhere."""

import re
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[1]
PAGES = [CHECKOUT / "README.md", CHECKOUT / "CONTRIBUTING.md", *sorted((CHECKOUT / "docs").glob("*.md"))]
PAGES += sorted((CHECKOUT / "experiments/results").glob("**/*.md"))


def missing(page: Path, text: str) -> list[str]:
    links = re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    files = [link.partition("#")[0] for link in links if not re.match(r"[a-z]+:|#", link)]
    return [link for link in files if not (page.parent / link).exists()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_every_relative_link_leads_to_a_file(page: Path) -> None:
    assert missing(page, page.read_text("utf-8")) == []


def test_a_link_to_nowhere_is_seen() -> None:
    assert missing(PAGES[0], "[a](LICENSE) [b](https://x.org) [c](#d) ![e](no/such.png)") == ["no/such.png"]
