"""From facts to questions: every chain of relations that makes a fair question, and a varied choice among them."""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cache
from itertools import combinations

from evoctx_torch.data.world.asking import ASK, COMPARE, NOUN
from evoctx_torch.data.world.facts import World
from evoctx_torch.data.world.telling import Teller, bare, capital, spoken

MAKERS = ("author", "composer", "painter", "designer", "maker", "leader", "landlord")
MOST_PER_START, MOST_PER_ANSWER = 2, 3


@dataclass(frozen=True)
class Chain:
    """A question before it is worded. `met` are the values after each step, the answer last."""

    start: str
    path: tuple[str, ...]
    met: tuple[str, ...]
    supports: tuple[str, ...]


class Asker:
    """Finds and words the fair questions of a told world."""

    def __init__(self, world: World, teller: Teller, rng: random.Random) -> None:
        self.world, self.told, self.rng = world, teller.told, rng
        self.text = {passage["id"]: passage["contents"].casefold() for passage in teller.corpus}
        self.mentions = cache(self._mentions)
        self.steps: dict[str, list[str]] = defaultdict(list)
        for subject, relation in world.facts:
            self.steps[subject].append(relation)

    def _mentions(self, name: str) -> frozenset[str]:
        """The ids of the passages that name it, as whole words."""
        name = bare(name).casefold()
        pattern = re.compile(rf"\b{re.escape(name)}\b")
        return frozenset(identity for identity, text in self.text.items() if name in text and pattern.search(text))

    def wording(self, table: dict[str, tuple[str, ...]], subject: str, step: str) -> tuple[str, ...]:
        return table.get(f"{self.world.kinds[subject]}/{step}") or table.get(step, ())

    def chains(self, hops: int) -> list[Chain]:
        """All fair chains of that many steps. Only the last step may go against a relation's direction."""
        backward = [step for step in ASK if step.startswith("~")]
        found = [Chain(start, (), (), ()) for start in self.world.kinds]
        for hop in range(1, hops + 1):
            longer = []
            for chain in found:
                here = chain.met[-1] if chain.met else chain.start
                forward = [step for step in self.steps[here] if self.wording(NOUN if hop < hops else ASK, here, step)]
                for step in forward + (backward if hop == hops else []):
                    if step == "profession" and chain.path and chain.path[-1] in MAKERS:
                        continue  # the wording gives it away: an author is a novelist
                    if (end := self.world.follow(here, (step,))) and end[0] not in (chain.start, *chain.met):
                        relation = (end[0], step.split("/")[1]) if step.startswith("~") else (here, step)
                        longer.append(Chain(chain.start, (*chain.path, step), (*chain.met, end[0]), (*chain.supports, self.told[relation])))
            found = [chain for chain in longer if hop == hops or chain.met[-1] in self.world.kinds]
        return [chain for chain in found if self.fair(chain)]

    def fair(self, chain: Chain) -> bool:
        """Each hop stands in its own document and nowhere else, and the answer not before the last of them."""
        pairs = zip((chain.start, *chain.met), chain.met, chain.supports, strict=False)
        return (len({support.rsplit("-", 1)[0] for support in chain.supports}) == len(chain.supports)
                and all(self.mentions(subject) & self.mentions(value) == {support} for subject, value, support in pairs)
                and self.mentions(chain.met[-1]).isdisjoint(chain.supports[:-1]))

    def answers(self, value: str) -> list[str]:
        """The answer and its fair other forms: a surname (no two people share one), a river with the word."""
        kind = self.world.kinds.get(value)
        other = {"person": value.split()[-1], "river": f"River {bare(value)}"}.get(kind or "")
        return [bare(value), *([other] if other else [])]

    def row(self, text: str, answers: list[str], kind: str, chain: Chain, bridges: list[str]) -> dict:
        return {"question": capital(text), "golden_answers": answers,
                "metadata": {"hops": len(chain.supports), "type": kind, "supporting_passage_ids": list(chain.supports),
                             "start": bare(chain.start), "relations": list(chain.path), "bridge_entities": bridges}}

    def word(self, chain: Chain) -> dict:
        phrase, here = spoken(self.world, chain.start), chain.start
        for step, value in zip(chain.path[:-1], chain.met, strict=False):
            phrase, here = self.rng.choice(self.wording(NOUN, here, step)).format(x=phrase), value
        text = self.rng.choice(self.wording(ASK, here, chain.path[-1])).format(x=phrase)
        kind = "single" if len(chain.path) == 1 else "bridge"
        return self.row(text, self.answers(chain.met[-1]), kind, chain, [bare(name) for name in chain.met[:-1]])

    def choose(self, hops: int, count: int, starts: Counter[str]) -> list[dict]:
        """`count` questions; each time the chain whose kind of start, last relation and path were used least."""
        chains = self.chains(hops)
        self.rng.shuffle(chains)
        alike: dict[tuple, list[Chain]] = defaultdict(list)
        for chain in chains:
            alike[tuple(enumerate((self.world.kinds[chain.start], chain.path[-1], chain.path)))].append(chain)
        used, answered, rows = Counter[object](), Counter[str](), []

        def free(chain: Chain) -> bool:
            return starts[chain.start] < MOST_PER_START and answered[chain.met[-1]] < MOST_PER_ANSWER

        while len(rows) < count:
            least_used = sorted(alike, key=lambda marks: [used[mark] for mark in marks])
            marks, chain = next(((marks, chain) for marks in least_used for chain in alike[marks] if free(chain)), (None, None))
            if chain is None:
                raise ValueError(f"only {len(rows)} of {count} questions of {hops} hops: make the world larger")
            alike[marks].remove(chain)
            starts[chain.start] += 1
            answered[chain.met[-1]] += 1
            used.update(marks)
            rows.append(self.word(chain))
        return rows

    def compare(self) -> list[dict]:
        """One question a line of COMPARE; those that ask for yes or no alternate between the two."""
        rows, yes = [], True
        for kind, relation, rule, text in COMPARE:
            subjects = [name for name in self.world.of(kind) if (name, relation) in self.world.facts]
            pairs = [pair for pair in combinations(subjects, 2) if self.comparable(relation, pair)]
            self.rng.shuffle(pairs)
            for a, b in pairs:
                left, right = (self.world.facts[name, relation] for name in (a, b))
                if (left == right) != (rule == "same" and yes):
                    continue
                if rule == "same":
                    answers, yes = ["yes" if yes else "no"], not yes
                else:
                    answers = self.answers(a if (int(left) < int(right)) == (rule == "earlier") else b)
                worded = text.format(a=spoken(self.world, a), b=spoken(self.world, b))
                supports = tuple(self.told[name, relation] for name in (a, b))
                rows.append(self.row(worded, answers, "comparison", Chain(a, (relation,), (), supports), []))
                break
            else:
                raise ValueError(f"no two of kind {kind} can be compared by {relation}")
        return rows

    def comparable(self, relation: str, pair: tuple[str, str]) -> bool:
        return all(self.mentions(name) & self.mentions(self.world.facts[name, relation]) == {self.told[name, relation]} for name in pair)
