"""Write the demo world: `python -m evoctx_torch.data.world.make [--out DIR] [--seed S]`. Standard library only."""

from __future__ import annotations

import argparse
import json
import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from evoctx_torch.data.world.facts import make_world
from evoctx_torch.data.world.questions import Asker
from evoctx_torch.data.world.telling import Teller

SEED, PER_HOP = 20, 60


def make(seed: int) -> tuple[list[dict], list[dict]]:
    """The passages and the questions, as the lines of `corpus.jsonl` and `queries.jsonl`."""
    rng = random.Random(seed)
    world = make_world(rng)
    teller = Teller(world, rng)
    asker = Asker(world, teller, rng)
    compared, starts = asker.compare(), Counter[str]()
    by_hops = [asker.choose(hops, PER_HOP - (len(compared) if hops == 2 else 0), starts) for hops in (1, 2, 3)]
    for rows in (compared, *by_hops):
        rng.shuffle(rows)
    for place, row in enumerate(compared):  # every fifth question of two hops, so that a third of them is held out too
        by_hops[1].insert(5 * place + 3, row)
    queries = []
    for number, row in enumerate(row for triple in zip(*by_hops, strict=True) for row in triple):  # hops 1, 2, 3, 1, 2, 3 …
        row["metadata"]["split"] = "held-out" if number // 3 % 3 == 2 else "train"  # of three triples the last
        queries.append({"id": f"world-{number + 1:03d}", **row})
    return teller.corpus, queries


def write(path: Path, rows: Iterable[dict]) -> None:
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Write corpus.jsonl and queries.jsonl of a fictional world.")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, help="folder to write to (default: this package's)")
    parser.add_argument("--seed", type=int, default=SEED, help="another seed makes another world (default: %(default)s, the one shipped)")
    options = parser.parse_args(arguments)
    corpus, queries = make(options.seed)
    options.out.mkdir(parents=True, exist_ok=True)
    write(options.out / "corpus.jsonl", corpus)
    write(options.out / "queries.jsonl", queries)
    print(f"{len(corpus)} passages and {len(queries)} questions in {options.out}")


if __name__ == "__main__":
    main()
