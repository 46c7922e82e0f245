"""A hook of mkdocs: what becomes of links that lead out of docs/, such as `../tests/test_clock.py`.

Where the sources are shown, such a link opens the file. The site holds docs/ alone, so there it would be dead, and
`mkdocs build --strict` refuses it: the site has its text instead.
"""

from __future__ import annotations

import posixpath
import re
from typing import Any

_LINK = re.compile(r"\[([^\]]+)\]\((\.\./[^)\s]+)\)")


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Called by mkdocs for each page."""
    return without_links_out(markdown, page.file.src_uri)


def without_links_out(markdown: str, where: str) -> str:
    """The page, whose path in docs/ is `where`, with links to other files than those in docs/ made plain text.

    >>> without_links_out("[a test](../tests/test_clock.py) and [a page](simulation.md)", "conformance.md")
    'a test and [a page](simulation.md)'
    >>> without_links_out("[a page](../simulation.md)", "decisions/001.md")
    '[a page](../simulation.md)'
    """

    def shown(link: re.Match[str]) -> str:
        leads_to = posixpath.normpath(posixpath.join(posixpath.dirname(where), link[2]))
        return link[1] if leads_to.startswith("../") else link[0]

    return _LINK.sub(shown, markdown)
