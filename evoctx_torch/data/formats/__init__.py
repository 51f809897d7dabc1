"""The files that data sets are published in, read into our folder: one reader a format, named on the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from evoctx_torch.data.formats import academiceval, hotpotqa, multihoprag, musique
from evoctx_torch.data.formats.pool import Passages

Row = dict[str, Any]  # a line of queries.jsonl


@dataclass(frozen=True, slots=True)
class Format:
    """How a published format is read. `read(files, passages)` yields questions and puts their paragraphs into `passages`.

    `own_documents`: every question has documents of its own by the nature of the task, not only in a distractor setting.
    """

    files: str
    read: Callable[[Sequence[Path], Passages], Iterator[Row]]
    own_documents: bool = False


FORMATS = {
    "hotpotqa": Format("hotpot_dev_distractor_v1.json, hotpot_dev_fullwiki_v1.json, hotpot_train_v1.1.json", hotpotqa.read),
    "2wikimultihopqa": Format("dev.json, train.json", partial(hotpotqa.read, glue=" ")),
    "musique": Format("musique_ans_v1.0_dev.jsonl, musique_full_v1.0_dev.jsonl", musique.read),
    "multihoprag": Format("MultiHopRAG.json corpus.json", multihoprag.read),
    "academiceval": Format("abstract_single_*.json, abstract_multi_*.json or related_multi_*.json, or their folder", academiceval.read, True),
    "hotpotqa-wiki": Format("the folder of enwiki-20171001-pages-meta-current-withlinks-abstracts: a corpus without questions", hotpotqa.read_wiki),
}
