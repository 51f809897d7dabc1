"""From facts to passages, remembering which passage tells which fact."""

from __future__ import annotations

import random
import re

from evoctx_torch.data.world.facts import World
from evoctx_torch.data.world.prose import PROSE, Passage

ENOUGH, MOST = 30, 60  # words: colour is added below ENOUGH; no passage is longer than MOST
QUOTED = ("novel", "opera", "painting")
FORMS = {"she": {"they": "she", "them": "her", "their": "her"}, "he": {"they": "he", "them": "him", "their": "his"}}


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def bare(name: str) -> str:
    """A name as a title or an answer writes it."""
    return name.removeprefix("the ")


def spoken(world: World, name: str) -> str:
    """A name or value as running text writes it."""
    return f'"{name}"' if world.kinds.get(name) in QUOTED else name


def choose(rng: random.Random, template: str) -> str:
    """`template` with every `[a|b]` replaced by one of its choices, innermost first."""
    while "[" in template:
        template = re.sub(r"\[([^\[\]]*)\]", lambda choices: rng.choice(choices[1].split("|")), template)
    return template


def slots(template: str) -> set[str]:
    """The facts that a template states."""
    return {slot.lower() for slot in re.findall(r"\{(\w+)\}", template)} - {"name", "they", "them", "their"}


class Teller:
    """Tells a world. `corpus` holds the passages, `told` maps (subject, relation) to the id of its passage."""

    def __init__(self, world: World, rng: random.Random) -> None:
        self.world, self.rng = world, rng
        self.corpus: list[dict[str, str]] = []
        self.told: dict[tuple[str, str], str] = {}
        for name, kind in world.kinds.items():
            for number, passage in enumerate(PROSE.get(kind, ()), start=1):
                self.tell(name, number, passage)
        if missing := world.facts.keys() - self.told.keys():
            raise ValueError(f"facts that no passage tells: {sorted(missing)}")

    def tell(self, name: str, number: int, passage: Passage) -> None:
        """Add the passage, unless its opening needs a fact that `name` does not have: not every life had later years."""
        if not self.known(name, passage.opening):
            return
        facts = self.rng.sample(passage.facts, len(passage.facts))
        sentences = [passage.opening, *(fact for fact in facts if self.known(name, fact))]
        identity = f"{re.sub(r'[^a-z0-9]+', '-', bare(name).lower().replace(chr(39), ''))}-{number}"
        told = []
        for sentence in sentences:
            chosen = choose(self.rng, sentence)
            self.told |= {(name, slot): identity for slot in slots(chosen)}
            told.append(self.fill(name, chosen))
        colour = self.rng.sample(passage.colour, len(passage.colour))
        while colour and sum(len(sentence.split()) for sentence in told) < ENOUGH:
            told.append(self.fill(name, choose(self.rng, colour.pop())))
        title = capital(bare(name))
        self.corpus.append({"id": identity, "doc_id": identity.rsplit("-", 1)[0], "title": title, "contents": f"{title}\n{' '.join(told)}"})

    def known(self, name: str, template: str) -> bool:
        return all((name, slot) in self.world.facts for slot in slots(template))

    def fill(self, name: str, sentence: str) -> str:
        forms = FORMS.get(self.world.pronouns.get(name, ""), {})

        def value(match: re.Match[str]) -> str:
            slot = match[1].lower()
            text = forms[slot] if slot in forms else spoken(self.world, name if slot == "name" else self.world.facts[name, slot])
            return capital(text) if match[1][0].isupper() else text

        filled = re.sub(r"\{(\w+)\}", value, sentence)
        return capital(re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", filled))
