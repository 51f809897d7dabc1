"""Published formats, on small samples of our own in the shape that each data set is published in."""

from __future__ import annotations

import bz2
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evoctx_torch.cli import main
from evoctx_torch.data.convert import Written, convert, restrict
from evoctx_torch.data.corpus import Corpus, load_corpus
from evoctx_torch.data.datasets import resolve
from evoctx_torch.data.formats.pool import joined
from evoctx_torch.data.questions import load_questions
from evoctx_torch.errors import UsageError
from evoctx_torch.metrics.evidence import gold_passages
from evoctx_torch.operations import Question

LIGHT = ["Keri Light", ["The Keri Light stands on an island.", " It was built in 1858.", ""]]
ISLAND = ["Keri", ["Keri is an island.", " It is small."]]
HOTPOT = [
    {"_id": "5a1", "question": "When was the light on the small island built?", "answer": "1858", "type": "bridge", "level": "hard",
     "supporting_facts": [["Keri Light", 1], ["Keri", 1], ["Keri", 0]], "context": [ISLAND, ["Other", ["Nothing."]], LIGHT]},
    {"_id": "5a2", "question": "Are Keri and Other islands?", "answer": "no", "type": "comparison", "level": "easy",
     "supporting_facts": [["Keri", 0], ["Other", 3]], "context": [ISLAND, ["Other", ["Another text."]]]},
]
WIKI2 = [{
    "_id": "13f", "type": "compositional", "question": "Who built it?", "answer": "Ann Ost", "answer_id": "Q5", "entity_ids": "Q1_Q2",
    "context": [["Keri", ["Keri is an island."]], ["Lamp", ["The lamp.", "Ann Ost built it."]]], "supporting_facts": [["Lamp", 1]],
    "evidences": [["Lamp", "builder", "Ann Ost"]], "evidences_id": [["Q2", "P1", "Q5"]],
}]


def put(folder: Path, name: str, value: Any) -> Path:
    path = folder / name
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


def read(folder: Path) -> tuple[list[Question], Corpus]:
    """What the loaders that a run uses make of a converted folder."""
    files = resolve(folder)
    return load_questions(files.queries), load_corpus(files.corpus)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


# ---------------------------------------------------------------- HotpotQA, 2WikiMultihopQA

def test_hotpotqa_paragraphs_become_passages_once_and_facts_name_them(tmp_path: Path) -> None:
    done = convert("hotpotqa", [put(tmp_path, "hotpot_dev_distractor_v1.json", HOTPOT)], tmp_path / "out")
    (first, second), corpus = read(tmp_path / "out")
    assert done == Written(2, 4)
    assert list(zip(corpus.ids, corpus.titles, corpus.contents, strict=True)) == [
        ("0", "Keri", "Keri\nKeri is an island. It is small."), ("1", "Other", "Other\nNothing."),
        ("2", "Keri Light", "Keri Light\nThe Keri Light stands on an island. It was built in 1858."), ("3", "Other", "Other\nAnother text."),
    ]
    assert corpus.doc_ids == corpus.titles
    assert (first.id, first.golden_answers, first.metadata["type"], first.metadata["level"]) == ("5a1", ("1858",), "bridge", "hard")
    assert gold_passages(first.metadata) == ("2", "0")
    assert first.metadata["context_passage_ids"] == ["0", "1", "2"]
    assert first.metadata["supporting_facts"][0] == {"passage_id": "2", "title": "Keri Light", "sent_id": 1, "sentence": "It was built in 1858."}
    assert [fact["sentence"] for fact in second.metadata["supporting_facts"]] == ["Keri is an island.", None]  # published data has such facts
    assert second.metadata["context_passage_ids"] == ["0", "3"]
    assert "doc_ids" not in first.metadata
    spans = {row["id"]: row["spans"] for row in lines(tmp_path / "out" / "sentence_spans.jsonl")}
    assert [corpus.contents[2][a:b] for a, b in spans["2"]] == ["The Keri Light stands on an island.", "It was built in 1858.", ""]


@given(st.lists(st.tuples(st.sampled_from(["", " ", "  "]), st.sampled_from(["", "Ann", "is it", "A. B"]), st.sampled_from(["", " "])), max_size=6), st.sampled_from(["", " "]))
def test_sentences_stand_where_their_spans_say(pieces, glue: str) -> None:
    sentences = ["".join(piece) for piece in pieces]
    text, spans = joined("T", sentences, glue)
    assert [f"T\n{text}"[a:b] for a, b in spans] == [sentence.strip() for sentence in sentences]
    assert text == ("".join(sentences).strip() if not glue else " ".join(filter(None, map(str.strip, sentences))))
    assert all(a[1] <= b[0] for a, b in pairwise(spans))


def test_in_the_distractor_setting_a_question_has_its_own_paragraphs_as_documents(tmp_path: Path) -> None:
    convert("hotpotqa", [put(tmp_path, "a.json", HOTPOT)], tmp_path / "out", own_documents=True)
    questions, corpus = read(tmp_path / "out")
    # The two paragraphs called "Other" are two documents: neither question may see the other's.
    assert [[corpus[corpus.doc_ids.index(doc)].contents for doc in q.metadata["doc_ids"]] for q in questions] == [
        [corpus.contents[0], corpus.contents[1], corpus.contents[2]], [corpus.contents[0], corpus.contents[3]],
    ]


def test_in_the_fullwiki_setting_gold_paragraphs_are_looked_up_by_title(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wiki = tmp_path / "wiki" / "AA"
    wiki.mkdir(parents=True)
    articles = [{"id": "12", "url": "u", "title": "Keri", "text": ["Keri is an island.", " It is small."]},
                {"id": "13", "url": "u", "title": "Keri Light", "text": [["The Keri Light."], [" It was built in 1858."]]}, {"id": 14, "title": "Void", "text": []}]
    (wiki / "wiki_00.bz2").write_bytes(bz2.compress("".join(json.dumps(a) + "\n" for a in articles).encode()))
    assert main(["data", "convert", "hotpotqa-wiki", str(tmp_path / "wiki"), "--out", str(tmp_path / "corpus")]) == 0
    corpus = load_corpus(tmp_path / "corpus" / "corpus.jsonl")
    assert list(zip(corpus.ids, corpus.contents, strict=True)) == [
        ("12", "Keri\nKeri is an island. It is small."), ("13", "Keri Light\nThe Keri Light. It was built in 1858.")]
    file = put(tmp_path, "hotpot_dev_fullwiki_v1.json", HOTPOT)
    command = ["data", "convert", "hotpotqa", str(file), "--corpus", str(tmp_path / "corpus" / "corpus.jsonl"), "--out", str(tmp_path / "out")]
    assert main(command) == 0
    assert "1 questions have a supporting fact whose paragraph is not in the corpus" in capsys.readouterr().out  # "Other"
    first, second = load_questions(tmp_path / "out" / "queries.jsonl")
    assert (gold_passages(first.metadata), gold_passages(second.metadata)) == (("13", "12"), ("12",))
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["queries.jsonl"]


def test_a_retrieved_context_without_its_gold_paragraph_is_counted(tmp_path: Path) -> None:
    row = HOTPOT[0] | {"context": [ISLAND]}
    assert convert("hotpotqa", [put(tmp_path, "a.json", [row])], tmp_path / "out").incomplete == 1
    assert gold_passages(read(tmp_path / "out")[0][0].metadata) == ("0",)


def test_2wikimultihopqa_keeps_its_evidences(tmp_path: Path) -> None:
    convert("2wikimultihopqa", [put(tmp_path, "dev.json", WIKI2)], tmp_path / "out")
    (question,), corpus = read(tmp_path / "out")
    assert corpus.contents[1] == "Lamp\nThe lamp. Ann Ost built it."
    assert {name: question.metadata[name] for name in ("evidences", "evidences_id", "answer_id", "entity_ids", "type")} == {
        name: WIKI2[0][name] for name in ("evidences", "evidences_id", "answer_id", "entity_ids", "type")}
    assert gold_passages(question.metadata) == ("1",)


# ---------------------------------------------------------------- MuSiQue

def musique(answerable: bool) -> dict[str, Any]:
    paragraphs = [{"idx": 0, "title": "Keri", "paragraph_text": "Keri is an island.", "is_supporting": answerable},
                  {"idx": 1, "title": "Keri", "paragraph_text": "It has a light.", "is_supporting": False},
                  {"idx": 2, "title": "Light", "paragraph_text": "Ann built it.", "is_supporting": True}]
    steps = [{"id": 1, "question": "Where is it?", "answer": "Keri", "paragraph_support_idx": 0 if answerable else None},
             {"id": 2, "question": "Who built #1?", "answer": "Ann", "paragraph_support_idx": 2}]
    return {"id": "3hop1__1_2", "paragraphs": paragraphs, "question": "Who built it?", "question_decomposition": steps,
            "answer": "Ann", "answer_aliases": ["Ann Ost", "Ann"], "answerable": answerable}


def test_musique_full_holds_both_forms_of_a_question(tmp_path: Path) -> None:
    rows = "".join(json.dumps(musique(answerable)) + "\n" for answerable in (True, False))
    convert("musique", [put(tmp_path, "musique_full_v1.0_dev.jsonl", rows)], tmp_path / "out", own_documents=True)
    (yes, no), corpus = read(tmp_path / "out")
    assert (yes.id, no.id, yes.golden_answers) == ("3hop1__1_2", "3hop1__1_2__unanswerable", ("Ann", "Ann Ost"))
    assert (yes.metadata["type"], yes.metadata["answerable"], no.metadata["answerable"]) == ("3hop1", True, False)
    assert (yes.metadata["support_idxs"], no.metadata["support_idxs"]) == ([0, 2], [2])
    assert (gold_passages(yes.metadata), gold_passages(no.metadata)) == (("0", "2"), ("2",))
    assert [step["passage_id"] for step in no.metadata["decomposition"]] == [None, "2"]
    assert yes.metadata["doc_ids"] == ["0", "1", "2"] == list(corpus.doc_ids)  # one page, two paragraphs: two documents


# ---------------------------------------------------------------- MultiHop-RAG

ARTICLES = [{"title": f"News {i}", "author": "A", "source": source, "published_at": f"2023-09-2{i}T17:01:22+00:00", "category": "tech", "url": f"https://n/{i}",
             "body": f"Long body {i}.\n\nMore."} for i, source in enumerate(["The Verge", "Wired"])]
QUERIES = [
    {"query": "Do both agree?", "answer": "Yes", "question_type": "comparison_query",
     "evidence_list": [{name: article[name] for name in ("title", "author", "url", "source", "category", "published_at")} | {"fact": "Long body."} for article in ARTICLES]},
    {"query": "What of the rest?", "answer": "Insufficient information.", "question_type": "null_query", "evidence_list": []},
]


@pytest.mark.parametrize("reverse", [False, True])
def test_multihoprag_takes_its_two_files_in_any_order(tmp_path: Path, reverse: bool) -> None:
    files = [put(tmp_path, "MultiHopRAG.json", QUERIES), put(tmp_path, "corpus.json", ARTICLES)]
    convert("multihoprag", files[::-1] if reverse else files, tmp_path / "out")
    (first, null), corpus = read(tmp_path / "out")
    assert corpus.titles == ("News 0 (The Verge, 2023-09-20)", "News 1 (Wired, 2023-09-21)")  # questions ask for source and date
    assert corpus.contents[0] == "News 0 (The Verge, 2023-09-20)\nLong body 0.\n\nMore."
    assert (gold_passages(first.metadata), gold_passages(null.metadata)) == (("0", "1"), ())
    assert first.metadata["evidence"][1] == {"passage_id": "1", **QUERIES[0]["evidence_list"][1]}
    assert (null.metadata["type"], null.golden_answers) == ("null_query", ("Insufficient information.",))
    assert lines(tmp_path / "out" / "passage_meta.jsonl")[1] == {
        "id": "1", "source": "Wired", "author": "A", "category": "tech", "published_at": "2023-09-21T17:01:22+00:00", "url": "https://n/1"}


def test_multihoprag_refuses_files_that_do_not_belong_together(tmp_path: Path) -> None:
    queries, half = put(tmp_path, "q.json", QUERIES), put(tmp_path, "c.json", ARTICLES[:1])
    for files, said in (([queries], "expected two files"), ([queries, half], "https://n/1 is no article"), ([put(tmp_path, "x.json", [{}])], "neither")):
        with pytest.raises(UsageError, match=said):
            convert("multihoprag", files, tmp_path / "out")


# ---------------------------------------------------------------- AcademicEval

PAPER = {"url": "http://a/1v1", "title": "On light", "abstract": "We light.", "authors": "A, B", "published": "2024-01-02"}


def test_academiceval_has_three_tasks_over_documents_of_their_own(tmp_path: Path) -> None:
    folder = tmp_path / "samples"
    folder.mkdir()
    put(folder, "abstract_single_1v1.json", PAPER | {"gt": "We light.", "pre_questions": ["Why?"], "main_content": "Long text."})
    papers = [PAPER | {"title": f"Paper {i}", "main_content": f"Text {i}."} for i in range(5)]
    put(folder, "abstract_multi_0.json", [{"id": "0", "published": "2024-01-02", "gt": ["All light."], "pre_questions": []}, *papers])
    cited = [{"title": "Cited", "abstract": "Old light.", "label": "Related Work"}, {"title": "Random", "abstract": "Fish.", "category": "biology"}]
    put(folder, "related_multi_1v1.json", [PAPER | {"gt": "Cited lit first.", "main_content": "Long text."}, *cited])
    assert main(["data", "convert", "academiceval", str(folder), "--out", str(tmp_path / "out")]) == 0
    (multi, single, related), corpus = read(tmp_path / "out")
    assert [q.metadata["type"] for q in (single, multi, related)] == ["abstract-single", "abstract-multi", "related-multi"]
    assert (single.golden_answers, multi.golden_answers, related.golden_answers) == (("We light.",), ("All light.",), ("Cited lit first.",))
    assert "On light" in single.text and "We light." not in single.text  # the abstract is what is asked for
    assert "On light" in related.text and "We light." in related.text
    assert all(f"Paper {i}" in multi.text for i in range(5))
    own = [[corpus[corpus.doc_ids.index(doc)].contents for doc in q.metadata["doc_ids"]] for q in (single, multi, related)]
    assert own == [["On light\nLong text."], [f"Paper {i}\nText {i}." for i in range(5)], ["Cited\nOld light.", "Random\nFish."]]
    assert [corpus[corpus.position(id)].title for id in gold_passages(related.metadata)] == ["Cited"]
    assert single.metadata["pre_questions"] == ["Why?"]


def test_academiceval_samples_without_reference_or_papers_are_refused(tmp_path: Path) -> None:
    for sample, said in (([{"id": "0", "gt": []}, PAPER | {"main_content": "x"}], "'gt' is empty"), ([PAPER], "list of the task and its papers"),
                         (PAPER | {"gt": "x"}, "no field 'main_content'"), ("x", "expected an object")):
        with pytest.raises(UsageError, match=said):
            convert("academiceval", [put(tmp_path, "a.json", json.dumps(sample))], tmp_path / "out")


# ---------------------------------------------------------------- refusals, restriction

@pytest.mark.parametrize(("rows", "said"), [
    ({"data": []}, "expected a list"), ([], "expected a list"), ("{", "not valid JSON"), ([3], "entry 0 is a number"),
    ([{key: value for key, value in HOTPOT[0].items() if key != "answer"}], "entry 0: no field 'answer' .test sets"),
    ([HOTPOT[0] | {"context": [["Keri", "text"]]}], "'context' is a string; expected a list"),
    ([HOTPOT[0] | {"context": {"title": ["Keri"]}}], "'context' is an object; expected a list"),
    ([HOTPOT[0] | {"supporting_facts": [["Keri"]]}], "expected pairs"), ([HOTPOT[0] | {"question": "\ud83d"}], "surrogate"),
])
def test_other_shapes_are_refused_by_file_and_entry_and_write_nothing(tmp_path: Path, rows: Any, said: str) -> None:
    path = put(tmp_path, "dev.json", rows)
    with pytest.raises(UsageError, match=said) as caught:
        convert("hotpotqa", [path], tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == [path]


def test_wrong_calls_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = put(tmp_path, "dev.json", HOTPOT)
    for command, said in (
        (["squad", str(path), "--out", "o"], "format is 'squad'; expected one of hotpotqa"),
        (["hotpotqa", str(path), str(path), "--out", "o"], "2 files; expected one"),
        (["hotpotqa", str(tmp_path / "none.json"), "--out", "o"], "none.json: No such file"),
        (["hotpotqa", str(path), "--out", str(tmp_path)], "holds something"),
        (["hotpotqa", str(path), "--out", "o", "--corpus", str(path), "--own-documents"], "leave it out"),
        (["multihoprag", str(put(tmp_path, "q.json", QUERIES)), str(put(tmp_path, "c.json", ARTICLES)), "--out", "o", "--own-documents"], "no paragraphs that belong"),
    ):
        assert main(["data", "convert", *command]) == 2
        said_here = capsys.readouterr().err
        assert said in said_here and said_here.count("\n") == 1
    assert not Path("o").exists()


def test_a_folder_is_restricted_to_the_documents_that_its_questions_name(tmp_path: Path) -> None:
    convert("hotpotqa", [put(tmp_path, "dev.json", HOTPOT)], tmp_path / "all")
    assert main(["data", "restrict", str(tmp_path / "all"), "--to", "supporting_passage_ids", "--out", str(tmp_path / "own")]) == 0
    (before, corpus), (after, same) = read(tmp_path / "all"), read(tmp_path / "own")
    assert [q.metadata.pop("doc_ids") for q in after] == [["Keri Light", "Keri"], ["Keri", "Other"]]
    assert (after, same.digest) == (before, corpus.digest)
    for key, said in (("no_such", "metadata.no_such is no list"), ("supporting_facts", "which is no passage")):
        with pytest.raises(UsageError, match=said):
            restrict(resolve(tmp_path / "all"), key, tmp_path / "no")


@pytest.mark.parametrize("name", ["qmsum", "scitldr"])
def test_long_documents_load_and_are_restricted_to_their_own(shared: Path, tmp_path: Path, name: str) -> None:
    files = resolve(shared / "data_long" / name)
    restrict(files, "supporting_passage_ids", tmp_path / name)
    questions, corpus = read(tmp_path / name)
    assert corpus.digest == load_corpus(files.corpus).digest
    for question in questions:
        (document,) = question.metadata["doc_ids"]
        assert corpus[corpus.doc_ids.index(document)].id == question.metadata["supporting_passage_ids"][0]
