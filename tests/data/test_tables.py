"""Labelled text in any script, with every fault named by its line."""

import gzip
import json
from pathlib import Path

import pytest

from threefold.data.splits import classes, load, whole
from threefold.data.tables import Columns, read
from threefold.errors import InputError

PERSIAN = "غذا خیلی سرد بود، ولی «خوشمزه»"


def put(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.tsv", f'a "fine" film\t1\n{PERSIAN}\t0\n'),
        ("a.csv", f'label,comment\n1,"a ""fine"" film"\n0,{PERSIAN}\n'),
        ("a.csv", f'comment,label\r\n"a ""fine"" film",1\r\n{PERSIAN},0\r\n'),
        (
            "a.jsonl",
            json.dumps({"text": 'a "fine" film', "label": 1}) + "\n\n" + json.dumps({"text": PERSIAN, "label": 0}),
        ),
        ("a.tsv", "\ufeffsentence\tlabel\n" + f'a "fine" film\t1\n{PERSIAN}\t0'),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_each_layout_reads_the_same(tmp_path: Path, name: str, text: str, packed: bool) -> None:
    path = put(tmp_path, name + ".gz", gzip.compress(text.encode())) if packed else put(tmp_path, name, text)
    table = read(path)
    assert table.problems == ()
    assert (table.texts, table.labels) == (('a "fine" film', PERSIAN), ("1", "0"))


def test_columns_by_name_and_by_number(tmp_path: Path) -> None:
    path = put(tmp_path, "a.tsv", "0\tid7\tdull\n1\tid8\tfine\n")
    assert read(path, Columns("2", "0")).texts == ("dull", "fine")
    with pytest.raises(InputError, match="no text column"):
        read(path)
    named = put(tmp_path, "b.csv", "stars,words\n5,fine\n")
    assert read(named, Columns("words", "stars")).labels == ("5",)
    with pytest.raises(InputError, match="no label column"):
        read(named, Columns("words"))


@pytest.mark.parametrize(
    ("name", "text", "where", "what"),
    [
        ("a.tsv", "fine\t1\ndull\n", "line 2", "1 columns where the first line has 2"),
        ("a.tsv", "fine\t1\n  \t0\n", "line 2", "text is empty"),
        ("a.csv", "text,label\nfine,\n", "line 2", "label is empty"),
        ("a.tsv", b"fine\t1\n\xff\xfe\t0\n", "line 2", "not utf-8"),
        ("a.tsv", b"PK\x03\x04\0\0\0", "a.tsv", "not a text file"),
        ("a.tsv", "", "a.tsv", "empty"),
        ("a.csv", "text,label\n", "a.csv", "no rows"),
        ("a.csv", 'text,label\n"fine,1\n', "line 2", "not readable"),
        ("a.jsonl", '{"text": "fine", "label": 1}\n{oops}\n', "line 2", "not JSON"),
        ("a.jsonl", "[1]\n", "line 1", "not a JSON object"),
        ("a.jsonl", '{"words": "fine", "label": 1}\n', "line 1", "no text among the keys"),
        ("a.jsonl", '{"text": 3, "label": 1}\n', "line 1", "not a string"),
        ("a.jsonl", '{"text": "fine", "label": null}\n', "line 1", "label is null"),
        ("a.tsv.gz", b"not gzip", "a.tsv.gz", "gzip"),
        ("a.tsv", f"{'x' * 100_001}\t1\n", "line 1", "over the limit"),
    ],
)
def test_a_fault_is_named_with_its_line(tmp_path: Path, name: str, text: str | bytes, where: str, what: str) -> None:
    (problem,) = read(put(tmp_path, name, text)).problems
    assert where in problem.where
    assert what in problem.what


def test_all_faults_at_once_and_nothing_is_dropped(tmp_path: Path) -> None:
    path = put(tmp_path, "a.tsv", "fine\t1\n\t0\ndull\t0\nbad\n")
    assert len(read(path).problems) == 2
    with pytest.raises(InputError, match=r"2 problems: a.tsv line 2: .*; a.tsv line 4: "):
        whole(path, Columns())


def rows(count: int, offset: int = 0) -> str:
    return "".join(f"text {i + offset}\t{'good' if i % 2 else 'bad'}\n" for i in range(count))


def test_an_unknown_header_is_not_a_row(tmp_path: Path) -> None:
    path = put(tmp_path, "a.csv", "avaliação,nota\nbom,1\nmau,0\nótimo,1\n")
    (problem,) = read(path).problems
    assert "line 1" in problem.where and "a header? its label 'nota' stands in no other line" in problem.what
    assert read(path, Columns("avaliação", "nota")).labels == ("1", "0", "1")
    assert read(path, Columns("0", "1")).problems == (), "numbers say that there is no header"
    assert read(put(tmp_path, "b.csv", "bom,1\nmau,0\nótimo,1\n")).problems == ()


def test_too_few_rows_to_deal(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="rows: 2; at least 3"):
        load(put(tmp_path, "a.tsv", "good\t1\nbad\t0\n"), Columns())
    put(tmp_path, "train.tsv", "good\t1\n")
    with pytest.raises(InputError, match="one row; at least 2"):
        load(tmp_path, Columns())


def test_one_file_is_dealt(tmp_path: Path) -> None:
    splits = load(put(tmp_path, "a.tsv", rows(50)), Columns())
    assert {name: len(part.texts) for name, part in splits.items()} == {"train": 40, "valid": 5, "test": 5}
    assert len({text for part in splits.values() for text in part.texts}) == 50


def test_a_folder_is_read_by_its_names(tmp_path: Path) -> None:
    put(tmp_path, "dev.tsv", rows(20))
    put(tmp_path, "test.tsv", rows(7, 100))
    with pytest.raises(InputError, match=r"no train.tsv.*dev, test.*--data.split"):
        load(tmp_path, Columns())
    splits = load(tmp_path, Columns(), train="dev")
    assert {name: len(part.texts) for name, part in splits.items()} == {"train": 18, "valid": 2, "test": 7}
    put(tmp_path, "train.tsv", rows(30))
    assert len(load(tmp_path, Columns())["valid"].texts) == 20
    assert len(whole(tmp_path, Columns()).texts) == 7


def test_labels_that_training_lacks_are_refused(tmp_path: Path) -> None:
    put(tmp_path, "train.tsv", rows(20))
    put(tmp_path, "test.tsv", "odd\tmixed\n")
    with pytest.raises(InputError, match=r"test row 1: label 'mixed' does not occur in training \(bad, good\)"):
        classes(load(tmp_path, Columns()))


def test_one_label_or_a_text_column_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="one label only"):
        classes(load(put(tmp_path, "a.tsv", "a\t1\nb\t1\nc\t1\n"), Columns()))
    swapped = "".join(f"1\tsome text {i}\n" for i in range(200))
    path = put(tmp_path, "b.tsv", swapped)
    with pytest.raises(InputError):
        classes(load(path, Columns()))
