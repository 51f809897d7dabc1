"""`evoctx judge RUN`: a model judges a finished run."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evoctx_torch.cli.arguments import Parser, add_options
from evoctx_torch.evaluation.config import EvalOptions, ModelOptions
from evoctx_torch.evaluation.judging.run import SKIPPED, judge, resolve_judge

RESERVED = {"run", "folder", "judge", "against"}


def add(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "judge", help="let a model judge the answers of a run",
        description="Let a model say which answers of a finished run mean the same as a golden one (LLM match); with --against, how often they "
                    "are better than another run's (win rate). Writes judge.json and judge.jsonl, or judge-against-NAME.json and .jsonl, "
                    "into RUN.")
    parser.add_argument("folder", type=Path, metavar="RUN", help="a finished run's folder")
    parser.add_argument("--judge", metavar="M", help="the model that judges: smollm2, a folder, a hub name, or a server's name for it")
    parser.add_argument("--against", type=Path, metavar="RUN2", help="another run on the same questions: score both answers, in both orders")
    add_options(parser, EvalOptions, "judging", skip=SKIPPED)
    add_options(parser, ModelOptions, "the judge")
    parser.set_defaults(run=run_judge)


def run_judge(arguments: argparse.Namespace) -> int:
    """Judge and print."""
    given = {name: value for name, value in vars(arguments).items() if name not in RESERVED}
    config = resolve_judge(arguments.judge, given, against=arguments.against is not None)
    summary, path = judge(arguments.folder, config, arguments.against)
    print("\n".join(told(summary)))
    print(f"Written: {path}, {path.with_suffix('.jsonl')}")
    return 0


def told(summary: Mapping[str, Any]) -> list[str]:
    """The result in a few lines."""
    if summary["against"] is None:
        name, value = "LLM match", summary["llm_match"]
        counts = "{yes} yes, {no} no, {empty} empty (no match), {unparsable} unparsable, {failed} failed".format_map(summary)
    else:
        name, value = "Win rate", summary["win_rate"]
        counts = ("{wins} wins, {ties} ties, {losses} losses ({empty} of them with an empty answer), {unparsable} unparsable "
                  "({unparsable_replies} replies), {failed} failed; the order of asking changed {order_matters}").format_map(summary)
    share = "no verdict" if value is None else "{:.1%} (95 % interval {:.1%} to {:.1%})".format(value["mean"], *value["ci95"])
    costs = "{llm_calls} calls, {prompt_tokens} prompt tokens, {completion_tokens} generated tokens".format_map(summary)
    return [f"{name}: {share} of {summary['questions']} questions: {counts}", f"Judge {summary['judge']['model']}: {costs}"]
