"""The facts of the demo world: who and what exists, and one value for every relation a thing has.

A fact is (subject, relation, value). A relation has at most one value a subject, so a chain of relations from a
named subject has at most one end; `follow` is the query that questions are checked with. People are made in order
of birth, so that teachers are older than pupils, schools stand before their students come, and nobody's work is
older than its author.
"""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property

from evoctx_torch.data.world import names

PROFESSIONS = {"novelist": 18, "composer": 12, "painter": 10, "architect": 18, "brewer": 10, "marshal": 10, "clockmaker": 8,
               "cartographer": 8, "botanist": 6, "astronomer": 6, "physician": 6}
SCHOLARS = ("cartographer", "botanist", "astronomer", "physician")
# kind: (titles, relation to its maker, professions of makers, years of the maker's age, relation to a town)
MADE = {
    "school": (names.SCHOOLS, "founder", SCHOLARS, (28, 60), "seat"),
    "novel": (names.NOVELS, "author", ("novelist",), (24, 65), "setting"),
    "opera": (names.OPERAS, "composer", ("composer",), (24, 65), "premiere"),
    "painting": (names.PAINTINGS, "painter", ("painter",), (24, 65), "gallery"),
    "bridge": (names.BRIDGES, "designer", ("architect",), (30, 62), "place"),
    "tower": (names.TOWERS, "designer", ("architect",), (30, 62), "place"),
    "inn": (names.INNS, "landlord", ("brewer",), (26, 60), "place"),
    "clock": (names.CLOCKS, "maker", ("clockmaker",), (26, 60), "place"),
    "event": (names.EVENTS, "leader", ("marshal",), (30, 60), "place"),
}


@dataclass
class World:
    """Things and their facts. `kinds` maps a name to its kind, `facts` a (subject, relation) to its value."""

    kinds: dict[str, str] = field(default_factory=dict)
    facts: dict[tuple[str, str], str] = field(default_factory=dict)
    pronouns: dict[str, str] = field(default_factory=dict)  # of people: "she" or "he"

    def add(self, name: str, kind: str, **facts: str | int) -> None:
        """A new thing; its name must not be taken."""
        if name in self.kinds:
            raise ValueError(f"two things are called {name}")
        self.kinds[name] = kind
        self.facts |= {(name, relation): str(value) for relation, value in facts.items()}

    def of(self, kind: str) -> list[str]:
        return [name for name, its in self.kinds.items() if its == kind]

    def year(self, name: str) -> int:
        return int(self.facts[name, "born" if self.kinds[name] == "person" else "year"])

    @cached_property
    def subjects(self) -> dict[tuple[str, str, str], list[str]]:
        """(kind, relation, value) -> who has it. Read it only when the world is complete."""
        found = defaultdict(list)
        for (subject, relation), value in self.facts.items():
            found[self.kinds[subject], relation, value].append(subject)
        return dict(found)

    def follow(self, start: str, path: tuple[str, ...]) -> list[str]:
        """The names and values met along `path` from `start`; empty where a step has no answer or more than one.

        A relation is followed against its direction as "~kind/relation": "~novel/author" leads from a person to the
        novel, if there is exactly one.
        """
        met = [start]
        for step in path:
            if step.startswith("~"):
                kind, relation = step[1:].split("/")
                found = self.subjects.get((kind, relation, met[-1]), [])
            else:
                found = [self.facts[met[-1], step]] if (met[-1], step) in self.facts else []
            if len(found) != 1:
                return []
            met += found
        return met[1:]


def add_lands(world: World, rng: random.Random) -> None:
    """Regions, rivers and towns. A capital's region and a river mouth's river are told by the region and the river."""
    towns = names.joined(rng, names.TOWN_HEADS, names.TOWN_TAILS, 40)
    capitals, mouths = towns[: len(names.REGIONS)], towns[len(names.REGIONS) : len(names.REGIONS) + len(names.RIVERS)]
    emblems, trades = (rng.sample(list(pool), len(pool)) for pool in (names.EMBLEMS, names.TRADES))
    festivals = dict(zip(rng.sample(towns, len(names.FESTIVALS)), names.FESTIVALS, strict=True))
    for region, capital, emblem in zip(names.REGIONS, capitals, emblems, strict=True):
        world.add(region, "region", capital=capital, emblem=emblem)
    for river, mouth in zip(names.RIVERS, mouths, strict=True):
        world.add(river, "river", mouth=mouth, source=rng.choice(names.REGIONS))
    for town, trade in zip(towns, trades, strict=True):
        world.add(town, "town", year=rng.randint(101, 270), trade=trade)
        if town not in capitals:
            world.facts[town, "region"] = rng.choice(names.REGIONS)
        if town not in mouths:
            world.facts[town, "river"] = rng.choice(names.RIVERS)
        if town in festivals:
            world.facts[town, "festival"] = festivals[town]
            world.kinds[festivals[town]] = "festival"


def add_people(world: World, rng: random.Random) -> None:
    """Birth, profession, teacher, marriage and, for some, where they ended and whom they wrote to."""
    professions = [name for name, count in PROFESSIONS.items() for _ in range(count)]
    rng.shuffle(professions)
    births = sorted(rng.randint(300, 540) for _ in professions)
    towns = world.of("town")
    for (name, pronoun), profession, born in zip(names.people(rng, len(births)), professions, births, strict=True):
        older = [other for other in world.of("person") if 14 <= born - world.year(other) <= 45]
        same = [other for other in older if world.facts[other, "profession"] == profession]
        birthplace, last_home = rng.sample(towns, 2)
        world.add(name, "person", profession=profession, born=born, birthplace=birthplace)
        world.pronouns[name] = pronoun
        if older and rng.random() < 0.8:
            world.facts[name, "teacher"] = rng.choice(same if same and rng.random() < 0.5 else older)
        if rng.random() < 0.5:
            world.facts[name, "last_home"] = last_home
            world.facts[name, "died"] = str(born + rng.randint(66, 88))
    pair(world, rng, "spouse", 12, world.of("person"))
    pair(world, rng, "correspondent", 20, [name for name in world.of("person") if (name, "last_home") in world.facts])


def pair(world: World, rng: random.Random, relation: str, years: int, tellers: list[str]) -> None:
    """Give `tellers` a partner of about their age. It holds both ways, so nobody is in two pairs; one of the two tells it."""
    free = set(world.of("person"))
    for name in rng.sample(tellers, len(tellers)):
        near = [other for other in world.of("person") if other in free and other != name and abs(world.year(other) - world.year(name)) <= years]
        if name in free and near and rng.random() < 0.85:
            world.facts[name, relation] = rng.choice(near)
            free -= {name, world.facts[name, relation]}


def add_made(world: World, rng: random.Random) -> None:
    """Schools, works, buildings, clocks and events, each by a person whose profession it is; then who studied where."""
    for kind, (titles, relation, professions, ages, town_relation) in MADE.items():
        makers = [name for name in world.of("person") if world.facts[name, "profession"] in professions]
        if kind == "school":  # early founders, so that most people can have been students
            makers = makers[: len(titles)]
        makers = rng.sample(makers, min(len(makers), len(titles)))
        makers += rng.choices(makers, k=len(titles) - len(makers))
        for title, maker in zip(titles, makers, strict=True):
            place = rng.choice(world.of("town"))
            world.add(title, kind, year=world.year(maker) + rng.randint(*ages), **{relation: maker, town_relation: place})
            if kind == "tower":
                world.facts[title, "height"] = str(rng.randint(31, 98))
    for name in world.of("person"):
        open_then = [school for school in world.of("school") if world.year(school) <= world.year(name) + 14]
        if open_then and rng.random() < 0.7:
            world.facts[name, "school"] = rng.choice(open_then)


def make_world(rng: random.Random) -> World:
    world = World()
    add_lands(world, rng)
    add_people(world, rng)
    add_made(world, rng)
    return world
