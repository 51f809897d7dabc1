"""The two normalizers of the official answer programs. For scoring only.

Votes, de-duplication and cache keys never use them: removing articles turns the vote "A" into nothing.
Neither does any Unicode normalization, since the official programs have none: NFC and NFD texts differ.
"""

from __future__ import annotations

import re
import string
from functools import lru_cache

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_DELETE_PUNCTUATION = str.maketrans("", "", string.punctuation)
# TriviaQA also turns these quotation signs into blanks; the others keep them.
_BLANK_PUNCTUATION = str.maketrans(dict.fromkeys(string.punctuation + "‘’´", " "))


@lru_cache(maxsize=256)  # one row asks for the same few texts many times
def normalize(text: str) -> str:
    """SQuAD, HotpotQA, 2Wiki, MuSiQue, FlashRAG: lower-case, delete ASCII punctuation, drop a/an/the, squeeze white space."""
    return _drop_articles(text.lower().translate(_DELETE_PUNCTUATION))


@lru_cache(maxsize=256)
def normalize_triviaqa(text: str) -> str:
    """TriviaQA: as `normalize`, but punctuation and the signs ‘ ’ ´ become blanks."""
    return _drop_articles(text.lower().translate(_BLANK_PUNCTUATION))


def _drop_articles(text: str) -> str:
    return " ".join(_ARTICLES.sub(" ", text).split())
