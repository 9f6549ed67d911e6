"""Character classes of writing systems."""

from __future__ import annotations

#: Scripts written without spaces (ideographs, kana, Hangul): words cannot be found by looking for gaps.
#: The inside of a regular expression's square brackets.
CJK = (
    "\u3005\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0002fa1f"
)
