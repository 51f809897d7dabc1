# ruff: noqa: SIM905 (a long list of words reads better as one string)
"""Every name of the demo world: invented parts that are joined, and titles written by hand.

A leading "the " belongs to running text; it is no part of a title or an answer.
"""

from __future__ import annotations

import random
from itertools import product

FEMALE = """Anvirel Brisande Cethly Dovarra Emmorith Faleswyn Garrith Hesparel Iluvane Jorrewyn Kelthis Lurandel Meveril
Nimorra Ophewyn Perrilac Quenoby Rusalinth Sethrin Tavorel Ulmeris Vessaly Wenorith Yrsabel Zeluthe""".split()
MALE = """Adreth Bothwin Corvath Dessoril Eldrusk Fennorim Gorrath Hulvane Iskarel Jasteroth Korvim Lodaric Mordwin Nethoril
Orvask Pellorin Quastin Rethorn Sulvaric Tormaleth Uldrith Varrowin Wulstram Yathrin Zorvael""".split()
SURNAME_HEADS = """Brask Corv Dwell Esk Farl Gorl Hesk Ilv Jarv Kest Lodr Murv Nask Ovell Pelk Quarl Rusk Selv Thurv Ulm
Vosk Wendr Yarl Zeld Crend Drisk Flast Grov Plend Skarr Trask Vurl""".split()
SURNAME_TAILS = "aby ander athe edrin elloch emmer ibbon igold illory inwick oddy olmar onneth orrow umble undry ostrel ungale arrish eveth irren ulbery astoe okkin".split()
TOWN_HEADS = """Vess Thorl Quenn Ombr Pelv Drav Istr Grell Ulsk Mirr Skell Hurd Jask Lorv Nessel Oskel Prenn Rhold Sarv
Tessel Urr Wesk Yoll Zann""".split()
TOWN_TAILS = "amoor awick egarth eholt imere estow afell ihaven acombe oreach olith unby".split()

REGIONS = "Ostravane Kelmorra Thessarn Umbrolay Vandesk Irrowmark Pellucere Sarnholme".split()
RIVERS = [f"the {name}" for name in "Ombrel Tarsk Willoway Essowen Droam Nevvery Lurke Quissel Harrowine Skale Ubbrin Yessary Pindlow Marrask".split()]
EMBLEMS = "heron otter stag moth salmon badger crane hare".split()
TRADES = """blue slate|smoked eel|beeswax candles|walnut ink|copper kettles|felt hats|pickled plums|reed baskets|bell bronze|salt
|goose-feather quilts|linen thread|barley beer|oak barrels|rock crystal|sheep's cheese|dried mushrooms|fishing nets|clay pipes|green glass
|pear cider|rope|millstones|tallow soap|juniper oil|tin whistles|red dye|chestnut flour|parchment|horn combs|lamp oil|honey cakes
|roof tiles|saffron|wool stockings|amber beads|hazelnut butter|sailcloth|peat|smoked trout""".replace("\n", "").split("|")

NOVELS = """The Ledger of Small Winds|Salt for the Heron King|A Lantern Owed|The Weir-Keeper's Debt|Nine Keys for Odderley
|The Eel-Wife's Almanac|Where the Ferry Sleeps|Bread of the Second Moon|The Unlit Parish|A Cartload of Thunder|The Moth Collector's Oath
|Seven Doors to Harrabeth|The Drowned Surveyor|Ash on the Orchard Stair|The Slow Horse of Mellow Hill|Letters to a Broken Mill
|The Tinker's Fourth Winter|A Coat for the Fog|The Bell That Would Not|Quillfeather and Daughters""".replace("\n", "").split("|")
OPERAS = """The Tollkeeper's Bride|Oriscane|The Glass Regent|Night of the Nine Oars|Melusandry|The Beggar of Sarn Gate|Thistle and Throne
|The Ferryman's Wager|Velliandra|The Drummer in the Well|Two Crowns of Barley|Astorvel|The Hollow Carillon|The Snow Magistrate""".replace("\n", "").split("|")
PAINTINGS = """Woman with a Tin Heron|The Eel Market at Dusk|Five Ropemakers|Portrait of an Unpaid Clerk|The Yellow Granary|Geese before Rain
|The Widow's Loom|Boy Mending a Moon|Still Life with Toll Coins|The Last Ferry Home|Harvest under Two Clouds|The Sleeping Mapmaker""".replace("\n", "").split("|")
BRIDGES = """the Heron Span|Ninepenny Bridge|Mourners' Arch|Candle Bridge|the Goosefoot Span|Oathtaker Bridge
|the Bridge of Pale Ropes|Weaver's Leap|Sixmile Arch|the Hollin Causeway|the Bridge of Spoons|Magpie Crossing
|Lowlantern Bridge|the Tallyman's Span""".replace("\n", "").split("|")
TOWERS = """Gannet Tower|Rookery Spire|the Tower of Nine Lamps|Saltwatch|Ember Tower|Needlewoman's Spire|Owl Steeple
|the Tower of the Deaf Bell|Thornwatch|Kestrel Beacon|Quillon Keep|Bellfounder's Tower""".replace("\n", "").split("|")
INNS = """the Three Pewter Swans|the Sleepless Badger|the Cup and Compass|the Lame Stag Inn|the Drowsy Ferryman
|the Copper Pear|the Goat and Ladder|the Last Dry Boot|the Crooked Ladle|the Onion and Crown|the Blind Otter
|the Thirsty Clerk""".replace("\n", "").split("|")
CLOCKS = """the Tidewife Clock|the Grasshopper Clock|the Clock of Two Faces|the Sparrow Dial|the Miller's Hour
|the Backward Clock|the Plum-Wood Clock|the Clock of the Silent Noon|the Dancing Bear Clock|the Frost Dial""".replace("\n", "").split("|")
EVENTS = """the Reed War|the Revolt of Empty Nets|the Long Toll Revolt|the Siege of the Bakers|the Winter Rising
|the Great Ink Riots|the Barley Mutiny|the Battle of Seven Spoons|the Granary Rising
|the March of the Lamplighters|the War of the Two Ferries|the Battle of Crow Meadow|the Candle Riots
|the Feud of the Broken Oar""".replace("\n", "").split("|")
SCHOOLS = """Ashlar College|the School of Narrow Stairs|Candlewright Academy|the Guild of the Open Hand|Lapwing House
|the Foundry Lyceum|the Order of the Plumb Line|Thimble Hall|the College of Still Water|Rushlight School
|the Guild of Measured Steps|Quarry Lane Academy|the Halfmoon Lyceum|Starling College""".replace("\n", "").split("|")
FESTIVALS = """the Feast of Bells|the Lantern Wade|the Goose Walk|the Night of Borrowed Coats|the Barrel Race
|the Day of the Silent Market|the Onion Dance|the Blessing of the Ladders|Kite Sunday|the Ropewalk Fair
|the Feast of First Smoke|the Moth Vigil|the Spoon Parade|the Ferry Wedding|the Chestnut Court|the Snow Supper
|the Masquerade of Millers|the Eel Crowning|the Candle Swim|the Harrow Fair""".replace("\n", "").split("|")


def joined(rng: random.Random, heads: list[str], tails: list[str], count: int) -> list[str]:
    """`count` different names head + tail in random order."""
    names = [head + tail for head, tail in product(heads, tails)]
    rng.shuffle(names)
    return names[:count]


def people(rng: random.Random, count: int) -> list[tuple[str, str]]:
    """`count` pairs (full name, "she" or "he"); no surname occurs twice, so a surname alone names one person."""
    first = [(name, "she") for name in FEMALE] + [(name, "he") for name in MALE]
    surnames = joined(rng, SURNAME_HEADS, SURNAME_TAILS, count)
    chosen: list[tuple[str, str]] = []
    while len(chosen) < count:
        rng.shuffle(first)
        chosen += first
    return [(f"{name} {surname}", pronoun) for (name, pronoun), surname in zip(chosen, surnames, strict=False)]
