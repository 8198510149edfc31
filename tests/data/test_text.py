"""Characters and words as numbers."""

from pathlib import Path

import pytest

from threefold.data.text import START, STOP, UNKNOWN, Alphabet, Lexicon, read_plain, split
from threefold.errors import InputError


def test_the_documents_alphabet_has_35_symbols() -> None:
    alphabet = Alphabet.documents()
    assert len(alphabet) == 35
    assert alphabet.decode(alphabet.encode("It's Late, is it?")) == "it's late, is it?"
    assert alphabet.encode("é") == [UNKNOWN]


@pytest.mark.parametrize("text", ["سلام دنیا", "coração", "naïve 漢字 🙂"])
def test_any_script_there_and_back(text: str) -> None:
    alphabet = Alphabet.of([text, "more"])
    assert alphabet.decode([START, *alphabet.encode(text), STOP]) == text
    assert alphabet.decode(alphabet.encode("Ω")) == "#"
    assert len(alphabet) == 4 + len(set(text + "more"))


def test_words_in_any_script() -> None:
    assert split("Not GOOD, not bad!") == ["not", "good", ",", "not", "bad", "!"]
    assert split("غذا سرد بود.") == ["غذا", "سرد", "بود", "."]


def test_bags_hold_the_word_its_pair_and_its_letters() -> None:
    lexicon = Lexicon.of(["good film", "good plot"], least=2, buckets=1000, letters=4)
    assert lexicon.words == ("good",)
    bags = lexicon.encode("good film")
    assert [bag[0] for bag in bags] == [2, 1]
    runs = {"<go", "goo", "ood", "od>", "<goo", "good", "ood>"}
    assert len(bags[0]) == 1 + 1 + len(runs)
    assert all(3 <= i < len(lexicon) for i in bags[0][1:])
    assert bags[0] == Lexicon.of(["good good"], buckets=1000, letters=4).encode("good film")[0]
    assert lexicon.encode("dull film")[1] != bags[1]


def test_letters_tell_unlike_words_of_one_stem() -> None:
    lexicon = Lexicon.of(["x"], buckets=5000, pairs=False)
    a, b, c = (set(lexicon.encode(word)[0]) for word in ("wonderful", "wonderfully", "table"))
    assert len(a & b) > 8 > len(a & c)


def test_plain_text_is_checked(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\ntwo\n\xe9\n")
    with pytest.raises(InputError, match="line 3: byte 0xe9 is not utf-8"):
        read_plain(path)
    path.write_bytes(b" \n")
    with pytest.raises(InputError, match="empty"):
        read_plain(path)
    path.write_bytes(b"RIFF\0\0")
    with pytest.raises(InputError, match="not a text file"):
        read_plain(path)
    with pytest.raises(InputError, match="no such file"):
        read_plain(tmp_path / "b.txt")
