"""Word lists for made speech, and the voices that can say them."""

from __future__ import annotations

from pathlib import Path

VOICES = {
    "en": ("en-us", "en", "en-us+f1", "en-us+m3", "en+f4"),
    "fa": ("fa", "fa+f1", "fa+m3"),
    "pt": ("pt", "pt-br", "pt+f1", "pt-br+m3"),
}
LANGUAGES = tuple(VOICES)


def listed(language: str) -> tuple[str, ...]:
    """The words of a language, 200 in English."""
    return tuple((Path(__file__).parent / "words_of" / f"{language}.txt").read_text(encoding="utf-8").split())
