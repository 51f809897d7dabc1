"""AcademicEval's samples as Thought-Retriever uses them (PAPERS section 4): one JSON file each, of three tasks.

The shapes are those that the authors' scripts write (github.com/ulab-uiuc/AcademicEval main.py, construct_*):
abstract-single is one object with `title`, `abstract`, `main_content`, `gt`; the others are lists whose first object holds
`gt`, followed by the papers: with `main_content` in abstract-multi, with `title` and `abstract` in related-multi.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from evoctx_torch.data.formats.pool import Passages, unique
from evoctx_torch.data.formats.reading import checked, field, read_json
from evoctx_torch.errors import UsageError

SINGLE = "Write the abstract of the paper “{title}”."
MULTI = "Write one summary of these papers: {titles}."
RELATED = "Write the related-work section of the paper “{title}”. Its abstract: {abstract}"


def read(files: Sequence[Path], passages: Passages) -> Iterator[dict[str, Any]]:
    """One question a file; a folder stands for its *.json. Every question has its own documents."""
    found = [path for file in files for path in (sorted(file.glob("*.json")) if file.is_dir() else [file])]
    if not found:
        raise UsageError(f"{', '.join(map(str, files))}: no *.json; expected AcademicEval's samples, one file each")
    for path in found:
        sample = read_json(path)
        if isinstance(sample, dict):
            yield _single(path, sample, passages)
        elif not isinstance(sample, list) or len(sample) < 2 or not all(isinstance(part, dict) for part in sample):
            raise UsageError(f"{path}: expected an object (abstract-single), or a list of the task and its papers")
        elif "title" in sample[0]:
            yield _related(path, sample, passages)
        else:
            yield _multi(path, sample, passages)


def _single(path: Path, paper: dict[str, Any], passages: Passages) -> dict[str, Any]:
    title = field(paper, "title", str, str(path))
    id = passages.add(title, field(paper, "main_content", str, str(path)))
    return _question(path, paper, "abstract-single", SINGLE.format(title=title), [id], [id])


def _multi(path: Path, sample: list[dict[str, Any]], passages: Passages) -> dict[str, Any]:
    task, *papers = sample
    titles = [field(paper, "title", str, f"{path} paper {i}") for i, paper in enumerate(papers)]
    ids = [passages.add(title, field(paper, "main_content", str, f"{path} paper {i}"))
           for i, (title, paper) in enumerate(zip(titles, papers, strict=True))]
    return _question(path, task, "abstract-multi", MULTI.format(titles="; ".join(titles)), ids, ids)


def _related(path: Path, sample: list[dict[str, Any]], passages: Passages) -> dict[str, Any]:
    """The cited papers are those labelled "Related Work"; the rest were drawn at random. The paper itself is not retrieved."""
    task, *papers = sample
    ids, cited = [], []
    for i, paper in enumerate(papers):
        where = f"{path} paper {i}"
        ids.append(passages.add(field(paper, "title", str, where), field(paper, "abstract", str, where)))
        if str(paper.get("label", "")).lower() == "related work":
            cited.append(ids[-1])
    text = RELATED.format(title=task["title"], abstract=field(task, "abstract", str, str(path)))
    return _question(path, task, "related-multi", text, ids, cited)


def _question(
    path: Path, task: dict[str, Any], kind: str, text: str, own: list[str | None], gold: list[str | None]
) -> dict[str, Any]:
    golds = task.get("gt")
    golds = [golds] if isinstance(golds, str) else checked(golds, list, f"{path} field 'gt'")
    if not golds:
        raise UsageError(f"{path}: 'gt' is empty: the sample was published without its reference text; leave it out")
    metadata = {"type": kind, "supporting_passage_ids": unique(gold), "context_passage_ids": unique(own)}
    if questions := task.get("pre_questions"):
        metadata["pre_questions"] = questions  # what the authors ask before the task, to grow thoughts
    return {"id": path.stem, "question": text, "golden_answers": golds, "metadata": metadata}
