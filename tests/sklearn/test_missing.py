"""Without scikit-learn the import says what to install."""

import subprocess
import sys

PROGRAM = """
import sys
sys.modules["sklearn"] = None  # what an import of a package that is not there looks like
try:
    import attnforge.sklearn
except ImportError as error:
    print(error)
"""


def test_the_install_line_is_named() -> None:
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == (
        "`attnforge.sklearn` needs scikit-learn, the extra `sklearn`. Got no scikit-learn. "
        "Run pip install 'attnforge[sklearn]'."
    )
