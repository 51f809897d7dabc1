"""`--metrics rouge bertscore`: what is refused, and BERTScore against its formula with a tiny model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from evoctx_torch.cli import main
from evoctx_torch.errors import MissingExtra, UsageError
from evoctx_torch.evaluation import bertscore
from evoctx_torch.evaluation.bertscore import BertScore
from evoctx_torch.evaluation.long_answers import LONG_METRICS, LongAnswers
from evoctx_torch.evaluation.results import COUNTS, SCORES, summarize

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "river", "vell", "rises", "in", "hollow", "hills", "##s", "bridge"]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of three layers with random weights."""
    from transformers import BertConfig, BertModel, BertTokenizer

    folder = tmp_path_factory.mktemp("tiny-t5-bert")  # a name that the library's own loader takes for a T5
    torch.manual_seed(0)
    config = BertConfig(vocab_size=len(WORDS), hidden_size=16, num_hidden_layers=3, num_attention_heads=2, intermediate_size=32, max_position_embeddings=24)
    BertModel(config).save_pretrained(folder)
    BertTokenizer(vocab={word: i for i, word in enumerate(WORDS)}, model_max_length=24).save_pretrained(folder)
    return folder


def formula(folder: Path, layer: int, prediction: str, gold: str) -> float:
    """Zhang et al. 2020, equation 1 to 3: greedy matching by cosine; [CLS] and [SEP] may be matched but do not count."""
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()

    def vectors(text: str) -> torch.Tensor:
        ids = tokenizer(text, return_tensors="pt", truncation=True)["input_ids"]
        with torch.no_grad():
            out = model(ids, output_hidden_states=True).hidden_states[layer][0].double()
        return out / out.norm(dim=1, keepdim=True)

    cosines = vectors(prediction) @ vectors(gold).T
    precision, recall = cosines.max(1).values[1:-1].mean(), cosines.max(0).values[1:-1].mean()
    return float(2 * precision * recall / (precision + recall))


@pytest.mark.parametrize("layers", [None, 1, 2])
def test_bertscore_is_its_formula_and_takes_the_best_gold(tiny: Path, layers: int | None) -> None:
    predictions = ["the river vell", "hills", "bridge in the hollow " * 20, "the river rises"]
    golds = [["the river vell rises", "hills"], ["the river", "the bridge", "hollow hills"], ["the bridge"], ["the river rises"]]
    found = BertScore(str(tiny), layers, "cpu").score(predictions, golds)
    wanted = [max(formula(tiny, layers or 3, p, gold) for gold in several) for p, several in zip(predictions, golds, strict=True)]
    assert found == pytest.approx(wanted, abs=1e-5)
    assert found[3] == pytest.approx(1, abs=1e-6) and max(found) <= 1


def test_an_empty_side_scores_zero_and_needs_no_model(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scorer = BertScore(str(tiny), device="cpu")
    monkeypatch.setattr(scorer, "_load", lambda: pytest.fail("a model was loaded"))
    assert scorer.score(["", " \n", "x"], [["the river"], ["x"], [" "]]) == [0, 0, 0]


def test_rows_hold_the_columns_that_were_asked_for(tiny: Path) -> None:
    both = LongAnswers(["bertscore", "rouge"], bertscore_model=str(tiny), device="cpu")
    rows = both.score(["the river", ""], [["the river"], ["the hills"]])
    assert [tuple(row) for row in rows] == [LONG_METRICS, LONG_METRICS] == [both.columns] * 2
    assert rows[0] == pytest.approx(dict.fromkeys(("rouge1", "rouge2", "rougeL", "bertscore"), 1.0), abs=1e-6)
    assert set(rows[1].values()) == {0.0}
    assert LongAnswers([]).score(["x"], [["x"]]) == [{}]


def test_columns_join_the_lines_of_a_run() -> None:
    rows = [{"id": "a", "prediction": "the river", "golden_answers": ["a river"]}, {"id": "b", "prediction": "", "golden_answers": ["x"]}]
    LongAnswers(["rouge"]).add_to(rows)
    assert rows[0]["rouge1"] == 0.5 and rows[1]["rougeL"] == 0 and rows[0]["id"] == "a"
    assert list(summarize_columns(rows)) == ["rouge1", "rouge2", "rougeL"]


def summarize_columns(rows: list[dict]) -> dict:
    """What `summarize` makes of the long-answer columns alone."""
    row = dict.fromkeys((*SCORES, *COUNTS), 0.0) | {"actions": [], "error": None, "finish_reason": "eos"}
    return {name: value for name, value in summarize([row | r for r in rows], {}).items() if name in LONG_METRICS}


@pytest.mark.parametrize("argv", [["--metrics", "blue"], ["--metrics", "bertscore"], ["--bertscore-layers", "3"], ["--metrics", "bertscore", "--bertscore-model", "."]])
def test_the_score_command_refuses_wrong_choices_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], argv: list[str]) -> None:
    (tmp_path / "p.jsonl").write_text('{"id": "a", "prediction": "y", "golden_answers": ["y"]}\n')
    assert main(["score", str(tmp_path / "p.jsonl"), "--out", str(tmp_path / "s.jsonl"), *argv]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1 and not (tmp_path / "s.jsonl").exists()


@pytest.mark.parametrize(("names", "how", "words"), [
    (["blue"], {}, "--metrics has 'blue'; expected some of rouge, bertscore"), (["bertscore"], {}, "needs --bertscore-model M"),
    (["rouge"], {"bertscore_model": "m"}, "are for --metrics bertscore"), (["bertscore"], {"bertscore_model": "no/model"}, "'no/model' is neither"),
])
def test_wrong_choices_are_refused_before_anything_loads(names: list[str], how: dict, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        LongAnswers(names, **how)


def test_a_model_that_cannot_be_used_is_refused(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="--bertscore-layers is 4; expected 1 to 3"):
        BertScore(str(tiny), 4, "cpu")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "t5"}))
    with pytest.raises(UsageError, match="safetensors"):
        BertScore(str(tmp_path), device="cpu")
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(UsageError, match="is a t5; expected an encoder"):
        BertScore(str(tmp_path), device="cpu")
    monkeypatch.setattr(bertscore, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"--metrics bertscore needs bert-score.*pip install 'evoctx-torch\[metrics\]'"):
        BertScore(str(tiny))


def test_robertas_words_keep_their_leading_blank(tmp_path: Path) -> None:
    """transformers 5 ignores `add_prefix_space` where the library passes it: the first word would be another token."""
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import RobertaConfig, RobertaModel, RobertaTokenizer

    words = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", *sorted(ByteLevel.alphabet())]
    RobertaTokenizer(vocab={word: i for i, word in enumerate(words)}, merges=[], model_max_length=30).save_pretrained(tmp_path)
    config = RobertaConfig(vocab_size=len(words), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, max_position_embeddings=32)
    RobertaModel(config).save_pretrained(tmp_path)
    _, tokenizer = BertScore(str(tmp_path), device="cpu")._load()
    from bert_score.utils import sent_encode
    assert tokenizer.convert_ids_to_tokens(sent_encode(tokenizer, "ab"))[:3] == ["<s>", "Ġ", "a"]


@pytest.mark.slow
@pytest.mark.models
def test_the_embedded_encoder_prefers_a_paraphrase() -> None:
    scorer = BertScore("all-minilm-l6-v2", device="cpu")
    close, far = scorer.score(["the cat lay on the mat", "stocks fell sharply today"], [["a cat was lying on the rug"]] * 2)
    assert close > far + 0.2


def test_a_run_scores_long_answers_where_asked(tmp_path, configure, scripted):
    from evoctx_torch.evaluation.run import evaluate
    scripted()
    outcome = evaluate(configure("closed-book", metrics="rouge", limit=2), tmp_path / "run")
    assert outcome.metrics["rougeL"]["mean"] == 1.0 and outcome.config["metrics"] == "rouge"
    with pytest.raises(UsageError, match="--metrics has 'rogue'"):
        evaluate(configure("closed-book", metrics="rogue"), tmp_path / "other")
    assert not (tmp_path / "other").exists()
