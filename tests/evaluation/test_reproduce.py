"""The papers' tables: well formed, run as configured, values beside the paper's, verdicts that follow from the cells."""

from __future__ import annotations

import json

import pytest

from evoctx_torch.analysis.paper import paper_cell
from evoctx_torch.errors import UsageError
from evoctx_torch.evaluation.config import known_options
from evoctx_torch.evaluation.reproduce import show
from evoctx_torch.evaluation.reproduce.run import Cells, configure, reproduce
from evoctx_torch.evaluation.reproduce.tables import parse_table, read_table, tables
from evoctx_torch.evaluation.reproduce.verdict import verdicts
from evoctx_torch.methods import get_method

SMALL = {
    "title": "Two", "source": "a test", "data": ["towns"], "metrics": ["em", "llm_calls", "tokens"], "settings": {"generator": "gen", "top_k": 2, "agents": 9},
    "rows": [{"label": "closed book", "method": "closed-book"},
             {"label": "T = {rounds}", "method": "evoctx", "grid": {"rounds": [1, 2]}, "paper": "evoctx"}],
    "means": [{"label": "mean", "rows": ["T = 1", "T = 2"], "paper": "evoctx k = 5"}],
    "claims": [{"text": "evoctx is better", "metric": "em", "better": ["mean"], "worse": ["closed book"]},
               {"text": "closed book is cheaper", "metric": "tokens", "better": ["closed book"], "worse": ["T = 1", "T = 2"], "lower": True}],
}


@pytest.mark.parametrize("name", tables())
def test_every_table_is_well_formed_and_its_options_exist(name):
    table = read_table(name)
    known = set().union(*(known_options(get_method(row.method)) for row in table.rows))
    assert set(table.settings) <= known
    for row in table.rows:
        assert set(row.options) <= known_options(get_method(row.method)), row.label
        configure(table, row, {"data": "demo"}, {}, None)
        if row.paper:
            assert any(paper_cell(row.paper, data, metric) for data in table.data for metric in table.metrics), f"{row.label}: no published value"
    assert table.claims


def test_the_issue_names_all_of_these():
    assert {"ace-table-2", "evoctx-main", "evoctx-ablation", "evoctx-thresholds", "evoctx-rounds", "search-r1-modules", "thought-held-out"} <= set(tables())


@pytest.mark.parametrize(("change", "words"), [
    ({"claims": [{"text": "x", "metric": "em", "better": ["nobody"], "worse": ["closed book"]}]}, "no row 'nobody'"),
    ({"claims": [{"text": "x", "metric": "f1", "better": ["mean"], "worse": ["closed book"]}]}, "no metric 'f1'"),
    ({"claims": [{"text": "x", "metric": "em", "better": ["mean"], "worse": ["closed book"], "data": ["villages"]}]}, "no data set 'villages'"),
    ({"rows": [{"label": "same", "method": "closed-book"}] * 2, "means": [], "claims": []}, "two rows of one label"),
])
def test_a_table_that_contradicts_itself_is_no_table(change, words):
    with pytest.raises(ValueError, match=words):
        parse_table("small", SMALL | change)


def test_the_cells_are_runs_and_the_verdicts_follow_from_them(tmp_path, data, scripted):
    table = parse_table("small", SMALL)
    requests = scripted(lambda p: "Mayor 0" if p.operation.prompt.segments[0].text and len(p.operation.prompt.segments) == 2 else f"Mayor {p.question_id[1:]}")
    places, given = {"towns": {"data": str(data)}}, {"prompt_family": "completion", "limit": 4}
    (found,) = cells = reproduce(table, places, given, tmp_path / "out")
    assert [found.value(label, "llm_calls") for label in ("closed book", "T = 1", "T = 2")] == [1, 2, 3]
    assert (found.value("closed book", "em"), found.value("T = 1", "em")) == (0.25, 1.0)
    first, second = verdicts(table, cells)
    assert (first.holds, first.difference, first.p) == (True, 0.75, None), "a mean has no questions to be paired"
    assert second.holds and second.pair == ("closed book", "T = 1") and 0 < second.p < 1
    show.write(tmp_path / "out", table, cells, [first, second], "toy")
    page = (tmp_path / "out" / "table.md").read_text()
    assert "| T = 2 | 100.0 | 3.00 |" in page and "evoctx is better | as in the paper" in page
    assert json.loads((tmp_path / "out" / "table.json").read_text())["cells"]["towns"]["mean"]["em"]["measured"] == 1.0
    asked = len(requests)
    assert reproduce(table, places, given, tmp_path / "out") == cells and len(requests) == asked, "a finished table was run again"


def test_the_papers_value_stands_beside_the_cell():
    table = read_table("evoctx-ablation")
    metrics = {row.label: {"em": {"mean": 0.5}, "prompt_tokens": {"mean": 10.0}, "completion_tokens": {"mean": 2.0}} for row in table.rows}
    rows = show.cell_rows(table, Cells("multihoprag", metrics, {}))
    assert rows[0][:2] == ["EvoCtx", "50.0 (74.6)"] and rows[1][1] == "50.0 (62.9)" and rows[0][-1] == "12.0 (27,500)" and rows[0][2] == "– (74.6)"
    tie, missing = verdicts(table, [Cells("multihoprag", metrics, {})])
    assert tie.difference == missing.difference == 0
    assert show.verdict_rows([tie])[0][2] == "a tie"
    assert [v.holds for v in verdicts(table, [Cells("multihoprag", {label: {} for label in metrics}, {})])] == [None, None]


def test_a_measured_think_ratio_has_the_unit_of_the_papers():
    table = read_table("ace-table-2")
    metrics = {row.label: {"think_ratio": 0.25, "prompt_tokens": {"mean": 10.0}, "completion_tokens": {"mean": 2.0}} for row in table.rows}
    found = Cells("multihoprag", metrics, {})
    column = table.metrics.index("think_ratio") + 1
    assert show.headings(table)[column] == "THINK actions, %" and show.cell_rows(table, found)[2][column] == "25.0 (50.0)"
    assert show.published("ace N = 2", "multihoprag", "think_ratio") == 0.5


def test_the_memory_of_one_half_is_what_the_other_half_is_asked_with(tmp_path, data, scripted):
    def distilling(p):
        return f" Who is the mayor of {p.question_id}\nConfidence: 1" if "worth remembering" in p.operation.prompt.segments[-1].text else "Mayor"
    table = read_table("thought-held-out")
    places, given = {"towns": {"data": str(data)}}, {"prompt_family": "completion", "generator": "gen", "metrics": None}
    given |= {"top_k": 2, "redundancy": 1.0}
    requests = scripted(distilling)
    (found,) = cells = reproduce(table, places, given, tmp_path / "out")
    recalled = [found.value(row.label, "thoughts_recalled") for row in table.rows]
    assert recalled[2] == 0 < recalled[1] and (tmp_path / "out/towns/memory.sqlite").exists()
    assert [[row["id"] for row in found.predictions[r.label]] for r in table.rows[1:]] == [["q1", "q3", "q5", "q7"]] * 2
    asked = len(requests)
    assert reproduce(table, places, given, tmp_path / "out") == cells and len(requests) == asked


def test_a_claim_is_judged_on_the_data_sets_that_the_paper_says_it_of():
    table = read_table("ace-table-2")
    metrics = {row.label: {"prompt_tokens": {"mean": 10.0}, "completion_tokens": {"mean": 2.0}} for row in table.rows}
    lacking = {data: Cells(data, metrics, {}) for data in (*table.data, "mine")}
    said = {data: [(v.claim.metric, v.claim.better) for v in verdicts(table, [cells])] for data, cells in lacking.items()}
    assert said["2wikimultihopqa"] == [("acc", ("ACE, N = 3",))]
    assert said["multihoprag"][0] == ("multihoprag_acc", ("ACE, N = 5",)), "the paper's Acc there, with its best N"
    assert len(said["mine"]) == len(table.claims)


def test_everything_is_checked_before_the_first_run(tmp_path, data, scripted):
    requests, table = scripted(), parse_table("small", SMALL)
    with pytest.raises(UsageError, match="--set roundz"):
        reproduce(table, {"towns": {"data": str(data)}}, {"roundz": 3}, tmp_path / "out")
    with pytest.raises(UsageError, match="no such folder"):
        reproduce(table, {"towns": {"data": str(data)}, "villages": {"data": str(tmp_path / "villages")}}, {"prompt_family": "completion"}, tmp_path / "out")
    assert not requests and not (tmp_path / "out").exists()


@pytest.mark.parametrize(("given", "words"), [
    ({"data": "demo"}, "--set data: .*--data-root"), ({"rounds": "3"}, "--set rounds: rows of small are defined by this option"),
])
def test_what_would_make_a_row_another_than_its_label_says_is_refused(tmp_path, data, scripted, given, words):
    requests = scripted()
    with pytest.raises(UsageError, match=words):
        reproduce(parse_table("small", SMALL), {"towns": {"data": str(data)}}, {"prompt_family": "completion", **given}, tmp_path / "out")
    assert not requests and not (tmp_path / "out").exists()


def test_an_unknown_table_is_refused():
    with pytest.raises(UsageError, match="ace-table-2"):
        read_table("table-9")


def test_a_judge_fills_its_column_once(tmp_path, data, scripted):
    table = parse_table("small", SMALL | {"metrics": ["em", "llm_match", "llm_calls", "tokens"]})
    requests = scripted(lambda p: "Verdict: yes" if p.operation.role == "judge" else "Mayor 0")
    places, given = {"towns": {"data": str(data)}}, {"prompt_family": "completion", "limit": 2}
    (found,) = reproduce(table, places, given, tmp_path / "out", "judge")
    assert found.value("T = 1", "em") == 0.5 and found.value("T = 1", "llm_match") == 1.0 and found.column("T = 1", "llm_match") == [1, 1]
    asked = len(requests)
    assert sum(p.operation.role == "judge" for p in requests) == 6
    assert reproduce(table, places, given, tmp_path / "out", "judge") == [found] and len(requests) == asked, "a judged table was judged again"
    (without,) = reproduce(table, places, given, tmp_path / "out")
    assert without.value("T = 1", "llm_match") is None
