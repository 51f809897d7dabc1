"""Questions, corpora and data sets: what is read, what is refused and with which words, what is warned about."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evoctx_torch.data.checks import DataWarning
from evoctx_torch.data.corpus import Corpus, load_corpus
from evoctx_torch.data.datasets import PACKAGED, digest_file, resolve
from evoctx_torch.data.jsonl import read_jsonl
from evoctx_torch.data.questions import load_questions
from evoctx_torch.errors import UsageError
from evoctx_torch.operations import Passage, Question

GOOD = '{"id": "q-seven", "question": "Who?", "golden_answers": ["X"]}\n'
PASSAGE = '{"id": "p", "title": "T", "contents": "T\\ntext"}\n'


def write(folder: Path, text: str | bytes, name: str = "queries.jsonl") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def refusal(load, path: Path) -> str:
    with pytest.raises(UsageError) as caught:
        load(path)
    message = str(caught.value)
    assert "\n" not in message
    return message


# ---------------------------------------------------------------- refusals

@pytest.mark.parametrize(("text", "words"), [
    (GOOD + '{"id": "b", "question": \n', ["line 2", "not valid JSON"]),
    (GOOD + GOOD, ["line 2", "'q-seven'", "already in line 1"]),
    (GOOD + "\n\n" + GOOD, ["line 4"]),
    (GOOD + '{"id": "b", "golden_answers": ["X"]}\n', ["line 2", "no field 'question'", "expected a string"]),
    ('{"id": "a", "question": "Who?"}\n', ["line 1", "no field 'golden_answers'"]),
    ('{"id": "a", "question": "Who?", "golden_answers": []}\n', ["line 1", "'golden_answers' is empty"]),
    ('{"id": "a", "question": "Who?", "golden_answers": "X"}\n', ["line 1", "'golden_answers' is a string; expected a list"]),
    ('{"id": "a", "question": "Who?", "golden_answers": ["X", 3]}\n', ["line 1", "golden_answers", "non-blank strings"]),
    ('{"id": "a", "question": "Who?", "golden_answers": ["X", " "]}\n', ["line 1", "golden_answers", "non-blank strings"]),
    ('{"id": "a", "question": "  ", "golden_answers": ["X"]}\n', ["line 1", "'question' is blank"]),
    ('{"id": "", "question": "Who?", "golden_answers": ["X"]}\n', ["line 1", "'id' is blank"]),
    ('{"id": 7, "question": "Who?", "golden_answers": ["X"]}\n', ["line 1", "'id' is a number; expected a string"]),
    ('{"id": "a", "question": null, "golden_answers": ["X"]}\n', ["line 1", "'question' is null"]),
    ('{"id": "a", "question": "Who?", "golden_answers": ["X"], "metadata": []}\n', ["line 1", "'metadata' is a list; expected an object"]),
    ('["a"]\n', ["line 1", "a list; expected an object"]),
    (GOOD.encode() + b'{"id": "\xff"}\n', ["line 2", "UTF-8"]),
    ('{"id": "\\ud800", "question": "Who?", "golden_answers": ["X"]}\n', ["line 1", "not valid Unicode"]),
    ("[" * 100_000 + "\n", ["line 1", "not valid JSON"]),
    ("", ["empty"]),
    ("\n \n", ["empty"]),
])
def test_bad_questions_name_file_line_and_field(tmp_path: Path, text: str | bytes, words: list[str]) -> None:
    message = refusal(load_questions, write(tmp_path, text))
    assert all(word in message for word in ["queries.jsonl", *words]), message


@pytest.mark.parametrize(("text", "words"), [
    ('{"id": "p", "title": "T"}\n', ["line 1", "no field 'contents'"]),
    ('{"id": "p", "contents": "  \\n"}\n', ["line 1", "'contents' is blank"]),
    ('{"id": "p-nine", "contents": "t"}\n{"id": "p-nine", "contents": "u"}\n', ["line 2", "'p-nine'", "line 1"]),
    ('{"id": "p", "contents": "t", "title": 3}\n', ["line 1", "'title' is a number"]),
    ("", ["empty"]),
])
def test_bad_passages_name_file_line_and_field(tmp_path: Path, text: str, words: list[str]) -> None:
    message = refusal(load_corpus, write(tmp_path, text, "corpus.jsonl"))
    assert all(word in message for word in ["corpus.jsonl", *words]), message


def test_a_bad_line_beyond_the_limit_is_refused_too(tmp_path: Path) -> None:
    assert "line 2" in refusal(lambda path: load_questions(path, limit=1), write(tmp_path, GOOD + "{\n"))


@pytest.mark.parametrize("limit", [0, -3])
def test_impossible_limits_are_refused(tmp_path: Path, limit: int) -> None:
    assert "limit" in refusal(lambda path: load_questions(path, limit=limit), write(tmp_path, GOOD))


@pytest.mark.parametrize("load", [load_questions, load_corpus])
def test_missing_files_and_folders_are_refused(tmp_path: Path, load) -> None:
    assert "none.jsonl" in refusal(load, tmp_path / "none.jsonl")
    assert tmp_path.name in refusal(load, tmp_path)


@given(st.one_of(st.binary(max_size=60), st.text(max_size=60).map(str.encode),
                 st.recursive(st.none() | st.booleans() | st.floats() | st.text(max_size=5),
                              lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "x"]), inner, max_size=3))
                 .map(lambda value: json.dumps(value).encode())))
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = write(tmp_path_factory.getbasetemp(), content, "fuzz.jsonl")
    try:
        ids = [row["id"] for _, row in read_jsonl(path, {"id": str})]
        said = ""
    except UsageError as error:
        ids, said = [], str(error)
    assert "fuzz.jsonl" in said if not ids else {type(id) for id in ids} == {str}


# ---------------------------------------------------------------- what is read

def test_questions_keep_order_text_and_metadata(tmp_path: Path) -> None:
    path = write(tmp_path, b"\xef\xbb\xbf" + '{"id": "b", "question": " Who\u2028is <é>? ", "golden_answers": ["X", "Y"], "metadata": {"type": "t"}}\n\n'.encode()
                 + b'{"id": "a", "question": "?", "golden_answers": ["Z"], "metadata": null}')
    assert load_questions(path) == [Question("b", " Who\u2028is <é>? ", ("X", "Y"), {"type": "t"}), Question("a", "?", ("Z",), {})]
    assert [q.id for q in load_questions(path, 1)] == ["b"]
    assert len(load_questions(path, 99)) == 2


def test_passages_have_their_defaults(tmp_path: Path) -> None:
    rows = [{"id": "1", "title": "T", "contents": "T\na"}, {"id": "2", "contents": "b"}, {"id": "3", "title": "", "contents": "\nc"},
            {"id": "4", "title": "T", "doc_id": "D", "contents": "T\nd"}, {"id": "5", "title": None, "doc_id": None, "contents": "e"}]
    path = write(tmp_path, "".join(json.dumps(row) + "\n" for row in rows), "corpus.jsonl")
    corpus = load_corpus(path)
    assert corpus.doc_ids == ("T", "2", "3", "D", "5")
    assert corpus.titles == ("T", "", "", "T", "")
    assert corpus[3] == Passage("4", "D", "T", "T\nd") == corpus[-2]
    assert corpus[1:3] == [corpus[1], corpus[2]]
    assert [corpus.position(id) for id in corpus.ids] == list(range(len(corpus))) == list(range(5))
    assert (next(iter(corpus)).score, corpus.path) == (None, path)
    with pytest.raises(KeyError):
        corpus.position("6")
    with pytest.raises(IndexError):
        corpus[5]


FIELDS = st.tuples(st.text(max_size=3), st.text(max_size=3), st.text(max_size=3), st.text(max_size=3))


@given(st.lists(FIELDS, max_size=4, unique_by=lambda f: f[0]), st.lists(FIELDS, max_size=4, unique_by=lambda f: f[0]))
def test_digests_are_equal_only_for_equal_corpora(a: list, b: list) -> None:
    one, other = (Corpus(Passage(*fields) for fields in rows) for rows in (a, b))
    assert (one.digest == other.digest) == (a == b)
    assert len(one.digest) == 32


def test_digest_sees_where_a_field_ends() -> None:
    assert Corpus([Passage("1", "ab", "c", "d")]).digest != Corpus([Passage("1", "a", "bc", "d")]).digest


@pytest.mark.parametrize(("name", "questions", "passages"), [
    ("hotpotqa", 200, 1965), ("2wikimultihopqa", 164, 7005), ("musique", 200, 3132), ("nq", 300, 2587), ("triviaqa", 300, 3429), ("multihoprag", 200, 2808),
])
def test_real_data_sets_load_without_a_warning_but_the_known_ones(shared: Path, name: str, questions: int, passages: int) -> None:
    found = resolve(shared / "data" / name)
    assert found.name == name
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rows, corpus = load_questions(found.queries), load_corpus(found.corpus)
    assert (len(rows), len(corpus)) == (questions, passages)
    assert [str(w.message) for w in caught] == []
    ids = set(corpus.ids)
    assert all(set(q.metadata.get("supporting_passage_ids", ())) <= ids for q in rows)


# ---------------------------------------------------------------- warnings

def test_trap_gold_that_normalizes_to_nothing_is_warned_about_once(tmp_path: Path) -> None:
    rows = [{"id": f"q{i}", "question": "Which vitamin?", "golden_answers": ["A", "retinol"] if i < 5 else ["B"]} for i in range(7)]
    path = write(tmp_path, "".join(json.dumps(row) + "\n" for row in rows))
    with pytest.warns(DataWarning) as caught:
        load_questions(path)
    assert [str(w.message) for w in caught] == [
        f"{path}: 5 rows with a golden answer that normalizes to nothing: acc is 1 for any answer, em for an empty one (q0, q1, q2, …)"
    ]
    assert caught[0].filename == __file__


def test_trap_unicode_not_nfc_is_warned_about_once(tmp_path: Path) -> None:
    nfd = "Nájera".replace("á", "a\u0301")
    path = write(tmp_path, json.dumps({"id": "q", "question": "Where?", "golden_answers": [nfd]}) + "\n" + GOOD)
    with pytest.warns(DataWarning, match=r"1 row not in Unicode NFC: .* \(q\)"):
        assert load_questions(path)[0].golden_answers == (nfd,)
    corpus = write(tmp_path, json.dumps({"id": "p", "title": nfd, "contents": "x"}) + "\n", "corpus.jsonl")
    with pytest.warns(DataWarning, match="NFC"):
        load_corpus(corpus)


def test_trap_16_duplicate_passages_under_different_ids_are_warned_about(tmp_path: Path) -> None:
    rows = [{"id": f"p{i}", "contents": text} for i, text in enumerate(["same", "other", "same", "same"])]
    path = write(tmp_path, "".join(json.dumps(row) + "\n" for row in rows), "corpus.jsonl")
    with pytest.warns(DataWarning, match=r"2 rows with the contents of an earlier passage.*\(p2, p3\)"):
        assert len(load_corpus(path)) == 4


def test_trap_16_the_same_id_under_different_text_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, PASSAGE + '{"id": "p", "contents": "another text"}\n', "corpus.jsonl")
    assert "line 2: id 'p' stands already in line 1" in refusal(load_corpus, path)
    with pytest.raises(ValueError, match="unique"):
        Corpus([Passage("p", "d", "", "x"), Passage("p", "d", "", "y")])


# ---------------------------------------------------------------- data sets

def test_a_folder_and_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "hotpotqa"
    folder.mkdir()
    write(folder, GOOD)
    write(folder, PASSAGE, "corpus.jsonl")
    found = resolve(folder)
    assert (found.name, found.queries, found.corpus) == ("hotpotqa", folder / "queries.jsonl", folder / "corpus.jsonl")
    monkeypatch.chdir(folder)
    assert resolve(".").name == "hotpotqa"


def test_any_two_files(tmp_path: Path) -> None:
    queries, corpus = write(tmp_path, GOOD, "dev.jsonl"), write(tmp_path, PASSAGE, "wiki.jsonl")
    assert resolve(queries=queries, corpus=str(corpus)).name == "dev"
    folder = tmp_path / "nq"
    folder.mkdir()
    write(folder, GOOD)
    found = resolve(folder, corpus=corpus)
    assert (found.name, found.queries, found.corpus) == ("nq", folder / "queries.jsonl", corpus)
    assert resolve(queries=folder / "queries.jsonl", corpus=corpus).name == "nq"


def test_without_retrieval_no_corpus_is_needed(tmp_path: Path) -> None:
    (tmp_path / "nq").mkdir()
    queries = write(tmp_path / "nq", GOOD)
    for call in ({"data": tmp_path / "nq"}, {"queries": queries}):
        found = resolve(**call, retrieves=False)
        assert (found.name, found.queries, found.corpus) == ("nq", queries, None)
    for call, words in (({"data": tmp_path}, "queries.jsonl: no such file"), ({}, "), or --queries FILE")):
        with pytest.raises(UsageError) as caught:
            resolve(**call, retrieves=False)
        assert words in str(caught.value) and "corpus" not in str(caught.value)


def test_the_packaged_world() -> None:
    found = resolve("demo")
    assert found.name == "demo"
    assert (load_questions(found.queries), load_corpus(found.corpus)) != ([], [])
    assert PACKAGED["demo"] == found.queries.parent


@pytest.mark.parametrize(("call", "words"), [
    ({}, ["--data", "--queries", "--corpus", "demo"]),
    ({"queries": "only.jsonl"}, ["--corpus"]),
    ({"data": "nowhere"}, ["nowhere", "queries.jsonl", "demo"]),
    ({"data": Path(__file__)}, ["is a file", "--queries"]),
    ({"data": Path(__file__).parent}, ["queries.jsonl: no such file"]),
    ({"queries": __file__, "corpus": "missing.jsonl"}, ["missing.jsonl: no such file"]),
])
def test_what_is_not_there_is_said_with_what_is_known(call: dict, words: list[str]) -> None:
    message = refusal(lambda _: resolve(**call), Path())
    assert all(word in message for word in words), message


def test_digest_of_a_file_is_that_of_its_bytes(tmp_path: Path) -> None:
    one, same, other = (write(tmp_path, text, name) for text, name in ((GOOD, "a"), (GOOD, "b"), (GOOD + " ", "c")))
    assert digest_file(one) == digest_file(same) != digest_file(other)
