"""The code blocks of README and docs, as programs for type checkers."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["PAGES", "REPOSITORY", "program_of_page"]

REPOSITORY = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES = {
    f"{path.stem.lower()}_page": path
    for path in [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
    if _BLOCK.search(path.read_text(encoding="utf-8"))
}
"""The pages with code in them, by the name of their program."""


def program_of_page(page: Path) -> str:
    """All its blocks as one program, for they build on one another; each line has the number that it has in the page.

    Every block may have a `main` of its own. Blocks that are not run are left out: they may be parts of other files.
    """
    text = page.read_text(encoding="utf-8")
    lines = [""] * (text.count("\n") + 1)
    for number, block in enumerate(_BLOCK.finditer(text)):
        if text[: block.start()].rstrip().endswith("skip: next -->"):
            continue
        first = text.count("\n", 0, block.start(1))
        code = re.sub(r"\bmain\b", f"main_{number}", block[1]).splitlines()
        lines[first : first + len(code)] = code
    return "\n".join(lines)
