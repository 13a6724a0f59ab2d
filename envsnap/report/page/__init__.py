"""The page: one self-contained HTML file about one side or two, which needs no network and runs no foreign text.

Each section is a function of `Content` that returns its element, or None where there is nothing to say. All wording of
what was found is that of the text reports.
"""

from __future__ import annotations

from envsnap.report.page.content import Content
from envsnap.report.page.document import render

__all__ = ["Content", "render"]
