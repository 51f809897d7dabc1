"""How passages are told. `[a|b]` is a choice, `{name}` the subject, any other `{relation}` the value of that fact.

A document is one or two passages; a passage is an opening, the facts that the subject has (in random order) and
colour, which states no fact of the world. Nothing here is shared with the wording of the questions.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Passage:
    opening: str
    facts: tuple[str, ...]
    colour: tuple[str, ...]


LIFE = Passage(
    "[{name} (born {born}) was a {profession} and a child of {birthplace}.|Born at {birthplace} in {born}, {name} became a {profession}."
    "|{name}, {profession}, came into the world at {birthplace} in the spring of {born}.]",
    ("[{They} learned the craft from {teacher}, whose tools {they} kept.|{Their} apprenticeship was spent under {teacher}."
     "|{teacher} took {them} on as a pupil, though not gladly.|All that {they} knew, {they} used to say, came from {teacher}."
     "|At fifteen {they} became the pupil of {teacher}.]",
     "[{They} spent four years at {school} and left without a prize.|{They} was enrolled at {school} [at sixteen|late|on a scholarship]."
     "|Between journeys {they} sat through the lectures of {school}.|{They} studied at {school}, mostly at night.]",
     "[A marriage to {spouse} followed.|{They} shared a house with {spouse}, {their} partner in marriage.|At a harvest dance {they} met {spouse}, and they wed within the year.|{spouse} became {their} partner in marriage.]"),
    ("[Neighbours|Friends|Rivals] remembered {them} as [quiet|stubborn|generous|short of temper] and [fond of chess|hard to please|always late].",
     "{Their} [notebooks|letters|debts|tools] filled [three|four|seven] [chests|cupboards|drawers] by the end.",
     "[Early|First] attempts were [mocked|ignored|praised] by [critics|the guilds|a suspicious public], which [pleased|wounded|amused] {them}.",
     "{They} [never|seldom|rarely] worked before noon and [never|seldom|rarely] without [tea|a cat nearby|an open window].",
     "A limp from a childhood fall [slowed|annoyed|never troubled] {them}.",
     "[Money|Fame|Recognition] came [late|slowly|only in middle age], and {they} spent it on [horses|books|other people's children]."))
LATER = Passage(
    "[In old age {name} settled at {last_home}, where death came in {died}.|{name} retired to {last_home} and died there in {died}."
    "|The closing years of {name} were passed at {last_home}, until {died}.]",
    ("[For decades {they} exchanged letters with {correspondent}.|{correspondent} wrote to {them} every month, and was answered."
     "|A long correspondence with {correspondent} survives.]",),
    ("The house [burned|was sold|stood empty] [soon|ten years|a winter] [after|later], and its garden [ran wild|became a market|was walled in].",
     "[Visitors|Former pupils|Strangers] came with [questions|gifts|complaints], and {they} received them all [kindly|in slippers|at the kitchen table].",
     "{Their} eyesight had [failed|weakened|dimmed], so a [niece|neighbour's boy|clerk] read aloud in the evenings.",
     "A [plain stone|wooden board|bronze plate] marks the grave, with [no words|one joke|a carved hand] on it."))
BUILT_COLOUR = (
    "[Moss|Ivy|Lichen] covers the [northern|western|older] side, and [swallows|bats|pigeons] nest [under it|in its joints|there] [each|every] [spring|summer].",
    "[Repairs to it|Quarrels over it|Floods around it] [emptied|nearly emptied|strained] the public purse [twice|three times|more than once].",
    "[Children|Pedlars|Old people] [touch|greet|avoid] it [for luck|out of habit|after dark].",
    "Its [grey|reddish|pale] stone was brought [by barge|on sledges|by ox cart] from a [distant|worked-out|flooded] quarry.")
STAGE_COLOUR = (
    "[Critics|Readers|Admirers] [quarrelled|wondered|joked] for years about its [ending|title|odd silence in the middle].",
    "A [shortened|pirated] version [circulated|was sold] [within a year|almost at once], to the fury of its maker.",
    "Only [two|three|five] early copies [survive|are known], one of them [water-stained|unfinished|bound in sealskin].",
    "It was [admired|condemned|misread] [at first|abroad|in the capital] and is now [taught to children|quoted at weddings|rarely mentioned].")
CANVAS_COLOUR = (
    "[Admirers|Guides|Visitors] [quarrel|wonder|joke] about the [odd shadow|empty chair|second face] in its [left|right] corner.",
    "A [forgery|copy] was sold [within a year|almost at once], to the fury of its maker.",
    "The [varnish|frame|blue] has [darkened|cracked|faded], and a [careless|drunken] cleaner made it [worse|shinier].",
    "It was [stolen|sold|lent] [once|twice] and came back [rolled in a carpet|upside down|without an apology].")

PROSE: dict[str, tuple[Passage, ...]] = {
    "person": (LIFE, LATER),
    "region": (Passage("[{name} is a region governed from {capital}.|The region of {name} has its seat of government at {capital}.]",
                       ("[Its banners carry a {emblem}.|A {emblem} is shown on its old coins and seals.]",),
                       ("[Low hills|Wet meadows|Stony uplands] cover most of it, and [the roads|the winters|the inns] are [bad|long|few].",
                        "[Shepherds|Carters|Beekeepers] outnumber [townsfolk|clerks|soldiers] there, or so [they|the tax rolls] claim.")),),
    "river": (Passage("[{name} rises in the hills of {source} and meets the sea at {mouth}.|From springs in {source}, {name} runs down to its mouth at {mouth}.]",
                      (),
                      ("It [floods in most years|freezes in hard winters|runs low in late summer], and [barges|ferries|mills] [wait|stop] until it [settles|clears].",
                       "Its water is [brown|clear|greenish] and [famous|notorious|known] for [pike|eels|sudden currents].")),),
    "town": (Passage("[{name} was founded in {year}.|The charter of {name} dates from {year}.|Settlers laid out {name} in {year}.]",
                     ("[It stands on {river}.|{river} divides it into an upper and a lower half.|Its quays line {river}.]",
                      "[It belongs to {region}.|It is among the older towns of {region}.|It pays its taxes to {region}.]",
                      "[Merchants come for its {trade}.|Its workshops turn out {trade} for half the country.|{Trade} made it rich.]"),
                     ("[Narrow|Steep|Crooked] lanes lead [up|down|away] from a [cobbled|sloping|windy] square with a [dry|painted|leaking] fountain.",
                      "[Storks|Jackdaws|Cats] are [protected by|fed by order of|counted every spring by] [the council|the mayor].",
                      "The [old wall|east gate|granary] [fell|was pulled down|caved in] [long ago|after a storm|within living memory].")),
             Passage("[Every year {name} holds {festival}.|{festival} fills the streets of {name} once a year.]", (),
                     ("[Shops|Schools|Courts] close for [two|three|four] days, and [visitors|cousins|strangers] sleep in [barns|attics|boats].",
                      "[Bakers|Masons|Fishwives] lead the procession, [singing|in silence|with drums], and the mayor [follows|pays|is thrown into the water].",
                      "It was cancelled [once|twice], [during an epidemic|after a fire|by a humourless magistrate], and [revived|returned] louder than before."))),
    "school": (Passage("[{name} was established in {year} by {founder}.|{founder} opened {name} in {year}.]",
                       ("[Its halls are at {seat}.|It has always had its home at {seat}.]",),
                       ("[Students|Pupils|Members] wear [grey|green|striped] [caps|scarves|coats] and [rise before dawn|eat in silence|swear an oath on the first day].",
                        "Admission is by [examination|lottery|recommendation], and [half|most|a third] [leave|are sent away] within [a year|two winters].")),),
    "novel": (Passage("[{name} is a novel by {author}, issued in {year}.|{author} published the novel {name} in {year}.]",
                      ("[The story unfolds at {setting}.|Its plot never leaves {setting}.]",), STAGE_COLOUR),),
    "opera": (Passage("[{name} is an opera in three acts by {composer}, first sung in {year}.|{composer} finished the opera {name} in {year}.]",
                      ("[The first night was given at {premiere}.|It opened before a full house at {premiere}.]",), STAGE_COLOUR),),
    "painting": (Passage("[{name} is an oil painting of {year} by {painter}.|{painter} completed the canvas {name} in {year}.]",
                         ("[It hangs today in the town hall of {gallery}.|The picture is kept at {gallery}.]",), CANVAS_COLOUR),),
    "bridge": (Passage("[{name} is a stone bridge at {place}, opened in {year}.|Traffic first crossed {name}, at {place}, in {year}.]",
                       ("[The plans were drawn by {designer}.|It is the work of {designer}.]",), BUILT_COLOUR),),
    "tower": (Passage("[{name} rises over {place} and was completed in {year}.|Since {year} {name} has looked down on {place}.]",
                      ("[{designer} drew it up.|It was planned by {designer}.]", "[It measures {height} metres.|From base to tip it stands {height} metres.]"),
                      BUILT_COLOUR),),
    "inn": (Passage("[{name} is an inn at {place} that opened its doors in {year}.|Travellers have slept at {name}, an inn of {place}, since {year}.]",
                    ("[Its first landlord was {landlord}.|{landlord} ran it to begin with.]",),
                    ("The [beds|stairs|chimneys] are [crooked|narrow|famous], the [soup|beer|bread] is [good|thin|dear], and [dogs|carters|musicians] are [welcome|tolerated|turned away].",
                     "[Smugglers|Poets|Tax collectors] are said to have [hidden|quarrelled|starved] in the [cellar|attic|back room].")),),
    "clock": (Passage("[{name} was built by {maker} in {year}.|{maker} set {name} going in {year}.]",
                      ("[It keeps the hours at {place}.|The people of {place} set their day by it.]",),
                      ("It [loses|gains] [two|three|five] minutes [a week|each winter], and [nobody|no council] has [dared|paid] to mend it.",
                       "At noon [a brass bird|a wooden bear|a row of painted saints] [nods|turns|appears], and [crowds|children] [gather|cheer].")),),
    "event": (Passage("[{name} broke out at {place} in {year}.|In {year} {place} saw the beginning of {name}.]",
                      ("[{leader} was in command throughout.|It was led by {leader}.]",),
                      ("[Bread|Salt|Rope] [tripled|doubled] in price, and [ferries|markets|schools] stayed shut for [nine|eleven|forty] days.",
                       "[Ballads|Chronicles|Court records] [exaggerate|disagree about|count] the [losses|heroes|broken windows].",
                       "It ended [in rain|in a shared meal|without a winner], and [both sides|everyone] claimed [victory|innocence].")),),
}
