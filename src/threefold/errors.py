"""The one exception that means: the input was wrong, and this sentence says how to mend it."""

from collections.abc import Iterable
from difflib import get_close_matches


class InputError(ValueError):
    """A wrong input: what was given, what is needed, what to do. The command line exits 2 with this sentence."""


def nearest(word: str, words: Iterable[str]) -> str:
    """The end of a sentence: `; did you mean X?` for the nearest of `words`, or a full stop when none is near."""
    found = get_close_matches(word, list(words), n=1, cutoff=0.5)
    return f"; did you mean {found[0]!r}?" if found else "."


def require(condition: bool, sentence: str) -> None:
    """Raise InputError with the sentence unless the condition holds."""
    if not condition:
        raise InputError(sentence)
