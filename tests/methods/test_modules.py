"""De-duplication and contextualization on methods that retrieve (PAPERS section 3): what is shown, asked and counted."""

from __future__ import annotations

import pytest
from worlds import PASSAGES, QUESTION, AlwaysDecides, WordRetriever, in_turn

from evoctx_torch.engine import Engine
from evoctx_torch.errors import UsageError
from evoctx_torch.evaluation.config import resolve
from evoctx_torch.generation.scripted import ScriptedGenerator
from evoctx_torch.generation.settings import Roles, RoleSettings
from evoctx_torch.methods.evoctx import EvoCtxOptions
from evoctx_torch.methods.modules import Modules
from evoctx_torch.methods.naive_rag import NaiveRagOptions
from evoctx_torch.methods.search_r1 import SearchR1Options
from evoctx_torch.operations import Question
from evoctx_torch.prompts import Family, PromptBook


def walk(method, options, modules, notes=("Extract 1.", "Extract 2.", "Extract 3.", "Extract 4."), family="chat", question=QUESTION):
    extract = in_turn(*notes)
    generator = ScriptedGenerator(lambda p: extract(p) if p.operation.role == "contextualizer" else "mayor Ostrand", Roles(RoleSettings(99)))
    retriever = WordRetriever()
    engine = Engine(method, options, generator=generator, retriever=retriever, controller=AlwaysDecides("RETRIEVE"), modules=modules,
                    prompts=PromptBook(Family(family)))
    (record,) = engine.run([question])
    return record, generator, retriever


def prompts(generator, role):
    return [p.operation.prompt for p in generator.requests if p.operation.role == role]


@pytest.mark.parametrize("family", ["chat", "completion"])
def test_naive_rag_answers_with_an_extract(family):
    record, generator, _ = walk("naive-rag", NaiveRagOptions(2), Modules(contextualize=True), family=family)
    (reading,), (answering,) = prompts(generator, "contextualizer"), prompts(generator, "generator")
    assert reading.passage_ids == answering.passage_ids == ("p1", "p2") and QUESTION.text in reading.text
    assert answering.text.index(PASSAGES[2].contents) < answering.text.index("Extract 1.")
    assert [c.role for c in record.calls] == ["contextualizer", "generator"] and record.counts()["llm_calls"] == 2
    cost = sum(c.completion.prompt_tokens for c in record.calls if c.role == "contextualizer")
    assert 0 < cost < record.counts()["prompt_tokens"]


def test_evoctx_asks_the_contextualizer_once_a_retrieval_that_brought_something():
    record, generator, _ = walk("evoctx", EvoCtxOptions(rounds=3, top_k=3), Modules(contextualize=True))
    # Bootstrap brings 3 of 5 passages of 4 documents, the first round the other 2 (EvoCtx excludes seen documents itself), then nothing is left.
    assert [len(r.passages) for r in record.rounds] == [2, 0, 0] and len(record.retrievals) == 4
    assert len(prompts(generator, "contextualizer")) == 2
    last = prompts(generator, "generator")[-1].text
    assert last.count("Extract 1.") == last.count("Extract 2.") == 1
    assert last.index("Extract 1.") < last.index(record.rounds[0].passages[0].contents) < last.index("Extract 2.")
    second = prompts(generator, "decider")[1].text
    assert "Extract 2." in second, "an extract stands in every later prompt"
    assert record.finish_reason == "eos"


def test_no_document_is_shown_twice():
    for modules in (Modules(dedup=True), Modules(dedup=True, contextualize=True)):
        record, _, retriever = walk("evoctx", EvoCtxOptions(rounds=3, top_k=2, refill=False), modules)
        found = [record.bootstrap, *(r.passages for r in record.rounds)]
        documents = [{p.doc_id for p in passages} for passages in found]
        assert sum(map(len, documents)) == len(set().union(*documents)) == 4
        seen = [p.operation.exclude for p in retriever.asked]
        assert seen == [set().union(*documents[:i]) for i in range(4)] and all(p.operation.refill for p in retriever.asked)


def test_without_the_module_a_document_comes_again():
    twice = Question("q", "mayor Ostrand", ("x",))
    for modules, times in ((Modules(), 2), (Modules(dedup=True), 1)):
        replies = in_turn("<search>mayor Ostrand</search>", "<search>mayor Ostrand</search>", "<answer>x</answer>")
        engine = Engine("search-r1", SearchR1Options(2, 1), generator=ScriptedGenerator(replies), retriever=WordRetriever(), modules=modules,
                        prompts=PromptBook(Family("chat")))
        (record,) = engine.run([twice])
        assert [p.id for p in record.passages].count("p1") == times and len(record.passages) == 2


def test_a_contextualizer_that_says_nothing_adds_nothing():
    _, generator, _ = walk("naive-rag", NaiveRagOptions(2), Modules(contextualize=True), notes=("<think>hm</think>  ",))
    assert "Notes on the passages" not in prompts(generator, "generator")[0].text


def test_a_retrieval_that_finds_nothing_is_counted_and_asks_no_contextualizer():
    record, generator, _ = walk("naive-rag", NaiveRagOptions(2), Modules(dedup=True, contextualize=True),
                                question=Question("q", "Who?", ("x",), {"doc_ids": ["nowhere"]}))
    assert record.counts()["retrieval_calls"] == 1 and record.counts()["retrieved_passages"] == 0
    assert [p.operation.role for p in generator.requests] == ["generator"] and record.finish_reason == "eos"


def test_what_is_asked_of_a_role_that_a_run_does_not_have_is_refused():
    given = {"generator": "g", "contextualizer": "c"}
    with pytest.raises(UsageError, match="--contextualizer sets a role that this run does not ask: add --contextualize, or leave it out"):
        resolve("search-r1", given)
    config = resolve("search-r1", {**given, "contextualize": "true", "contextualizer_max_new_tokens": "64"})
    assert (config.models["contextualizer"], config.roles["contextualizer"].max_new_tokens) == ("c", 64)
    assert config.roles["generator"].max_new_tokens == 500
    assert resolve("search-r1", {"generator": "g", "contextualize": "true"}).models["contextualizer"] == "g"


def test_a_method_that_does_not_retrieve_has_no_modules(tmp_path):
    (tmp_path / "c.toml").write_text('generator = "g"\ndedup = true\n')
    with pytest.raises(UsageError, match="'dedup', which is no option of closed-book"):
        resolve("closed-book", {}, config=tmp_path / "c.toml")
