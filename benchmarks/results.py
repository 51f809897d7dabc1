"""Every method on the same questions with the embedded models: writes docs/results.md (`make results`).

    python benchmarks/results.py --data-root DIR [--limit 12] [--out results] [--page docs/results.md]

A 135M model answers badly whatever it is given: the scores mean little. What must be right are the accounting columns, so
the token counts of every question are counted again from the trajectories' calls, and a difference ends the program.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from evoctx_torch.evaluation.reproduce import show
from evoctx_torch.evaluation.reproduce.run import Cells, reproduce, slug
from evoctx_torch.evaluation.reproduce.tables import PaperTable, parse_table

HERE = Path(__file__).parent
COUNTED = ("llm_calls", "prompt_tokens", "completion_tokens")
PAGE = """\
# {title}

{limit} questions of each set, T = {rounds} rounds, k = {top_k} passages, {new} new tokens a call, greedy; {source}.
Made by `make results`{when}. **The scores of a 135M model mean little**: twelve questions and a model that follows few
instructions. What a reader may compare are evidence recall, calls, passages and tokens. Token counts were counted again
from every trajectory's calls.

"""


def main() -> None:
    """Run what is missing and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-root", type=Path, default=Path(os.environ.get("EVOCTX_SHARED", "../shared")) / "data")
    parser.add_argument("--data", nargs="+", help="only these data sets")
    parser.add_argument("--limit", type=int, help="questions of each data set")
    parser.add_argument("--generator", help="model in place of SmolLM2")
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder of the runs; an interrupted program continues there")
    parser.add_argument("--page", type=Path, default=HERE.parent / "docs" / "results.md")
    arguments = parser.parse_args()
    table = parse_table("results", tomllib.loads((HERE / "results.toml").read_text(encoding="utf-8")))
    given = {name: value for name in ("limit", "generator") if (value := getattr(arguments, name)) is not None}
    if arguments.generator:
        given["classifier"] = arguments.generator
    began = time.process_time()
    places = {name: {"data": str(arguments.data_root / name)} for name in arguments.data or table.data}
    cells = reproduce(table, places, given, arguments.out)
    questions = recount(table, list(places), arguments.out)
    print(f"{questions} trajectories recounted; {time.process_time() - began:.0f} CPU s in this call")
    arguments.page.write_text(page(table, cells, table.settings | given), encoding="utf-8")
    print(f"written: {arguments.page}")


def page(table: PaperTable, cells: Sequence[Cells], settings: Mapping[str, object]) -> str:
    """The Markdown page."""
    head = PAGE.format(title=table.title, source=table.source, limit=settings["limit"], rounds=settings["rounds"], top_k=settings["top_k"],
                       new=settings["max_new_tokens"], when=f", {time.strftime('%Y-%m-%d')}")
    return head + "\n\n".join(f"## {found.data}\n\n{show.grid(show.headings(table), show.cell_rows(table, found))}" for found in cells) + "\n"


def recount(table: PaperTable, data: Sequence[str], out: Path) -> int:
    """Count every question's calls and tokens again from its trajectory; how many were counted. Raises `SystemExit` at a difference."""
    counted = 0
    for name in data:
        for row in table.rows:
            folder = out / name / slug(row.label)
            for prediction, trajectory in zip(lines(folder / "predictions.jsonl"), lines(folder / "trajectories.jsonl"), strict=True):
                calls = trajectory["calls"]
                again = {"llm_calls": len(calls), **{key: sum(call[key] for call in calls) for key in COUNTED[1:]}}
                if wrong := [key for key in COUNTED if prediction[key] != again[key]]:
                    raise SystemExit(f"{folder}: question {prediction['id']}: {wrong[0]} is {prediction[wrong[0]]}, its calls say {again[wrong[0]]}")
                counted += 1
    return counted


def lines(path: Path) -> list[dict]:
    """The rows of a JSONL file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


if __name__ == "__main__":
    main()
