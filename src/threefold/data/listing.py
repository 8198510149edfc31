"""What data there is, for `threefold data list`."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from threefold.data.cache import folder
from threefold.data.fetch import SOURCES, place


@dataclass(frozen=True)
class Entry:
    """One row."""

    name: str
    says: str
    size: str
    licence: str
    recipe: str
    here: str

    def to_dict(self) -> dict[str, str]:
        """As JSON."""
        return asdict(self)


EMBEDDED = (
    Entry("digits", "handwritten digits 8x8, real", "1,797 images", "CC BY 4.0 (UCI)", "digits", "embedded"),
    Entry("opinions", "sentences from a grammar", "any number", "MIT", "sentiment", "embedded"),
    Entry("espeak", "speech by espeak-ng: en, fa, pt", "any number", "your text's", "speech", "made when used"),
    Entry("manual", "Python's own manual", "half a million characters", "PSF", "charlm", "embedded"),
    Entry("toys", "recall, copy, adding, comparator, permutation", "any number", "MIT", "their names", "embedded"),
)
RECIPE_OF = {"octmnist": "octmnist", "ljspeech": "speech", "sst2": "sentiment", "tinyshakespeare": "charlm"}


def entries() -> list[Entry]:
    """Embedded data, made speech that is kept, and what can be fetched."""
    rows = list(EMBEDDED)
    if folder().is_dir():
        made = sorted(path for path in folder().glob("espeak-*") if (path / "metadata.csv").is_file())
        for path in made:
            with (path / "metadata.csv").open(encoding="utf-8") as lines:
                count = sum(1 for _ in lines)
            rows.append(Entry(path.name, "made speech", f"{count} utterances", "your text's", "speech", str(path)))
    for source in SOURCES:
        path = place(source)
        here = str(path) if path.exists() else "not fetched"
        size = f"{source.megabytes:,.0f} MB"
        rows.append(Entry(source.name, source.says, size, source.licence, RECIPE_OF[source.name], here))
    return rows
