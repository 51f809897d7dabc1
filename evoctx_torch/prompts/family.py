"""A family of templates turns evidence into a prompt whose segments only grow at their end.

Every prompt is `head.j2`, then `passage.j2` / `subquery.j2` for each item of the evidence in the order of arrival,
then the instruction of this call (`decide.j2`, `ask.j2`, `answer.j2` …). An instruction may end its call at stop
strings: `{% set stop = ["\\n"] %}` at its top.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from jinja2 import ChoiceLoader, FileSystemLoader, StrictUndefined, Template, TemplateNotFound
from jinja2.sandbox import SandboxedEnvironment

from evoctx_torch.errors import UsageError
from evoctx_torch.evidence import Evidence, Extract, Item, Line, SubQuery
from evoctx_torch.operations import Generate, Passage
from evoctx_torch.transcript import Prompt, Segment

T = TypeVar("T")
FAMILIES = ("chat", "completion")
ITEMS = ("passage", "subquery", "extract")  # templates of the evidence
SAMPLE = "Which <sample> & 'question' is this?"  # what no template holds by itself, and what an escape or a filter would change
HERE = Path(__file__).parent


class Family:
    """One family, optionally with a user's folder whose files take the place of ours (`--prompts DIR`), and with those of a
    method of another package between them (`more`).

    Templates run in Jinja2's sandbox with strict undefined names and no escaping: passages stay verbatim.
    """

    def __init__(self, name: str, folder: Path | None = None, more: Path | None = None) -> None:
        if name not in FAMILIES:
            raise UsageError(f"the prompt family is {name!r}; expected one of {', '.join(FAMILIES)}")
        if folder is not None and not folder.is_dir():
            raise UsageError(f"--prompts {folder}: no such folder")
        self.name = name
        self.chat = name == "chat"
        # A user's folder may hold one set of files, or a sub-folder a family.
        self.own = own = [folder / name, folder] if folder else []
        self.environment = SandboxedEnvironment(
            loader=ChoiceLoader([FileSystemLoader(path) for path in [*own, *([more / name] if more else []), HERE / name]]),
            autoescape=False, keep_trailing_newline=True, undefined=StrictUndefined, trim_blocks=True,
        )
        self._item = lru_cache(maxsize=1 << 16)(self._render_item)
        self._head = lru_cache(maxsize=1 << 14)(self._render_head)
        self._instructions: dict[str, tuple[Template, tuple[str, ...]]] = {}
        self.system = self._system()

    def prompt(self, instruction: str, evidence: Evidence, head: str = "head", **variables: object) -> tuple[Prompt, tuple[str, ...]]:
        """The prompt of one call, which begins with the template `head`, and its stop strings. `variables` go to the instruction's template."""
        template, stop = self._instruction(instruction)
        last = template.render(question=evidence.question, evidence=evidence, **variables)
        segments = (self._head(head, evidence.question), *map(self._item, evidence.items), Segment(last))
        return Prompt(segments, self.chat, self.system), stop

    def check(self, instructions: tuple[str, ...], head: str = "head") -> None:
        """Render every template once on sample evidence. Raises `UsageError` naming the file and what is wrong.

        Only the head may be empty: few-shot examples can be left out, and the question may stand in the instruction.
        """
        items = Passage("p", "d", "Title", "Title\ntext"), SubQuery("A sub-question?"), Extract("A note.")
        self._try(head, self._head, head, SAMPLE)
        texts = {name: self._try(name, self._item, item).text for name, item in zip(ITEMS, items, strict=True)}
        for name in instructions:
            prompt, _ = self._try(name, self.prompt, name, Evidence(SAMPLE, list(items)), head)
            texts[name] = prompt.segments[-1].text
            if SAMPLE not in prompt.text:
                raise UsageError(f"prompt {self.name}/{name} does not show the question: put {{{{ question }}}} into {head}.j2 or {name}.j2, as it is")
        for name, text in texts.items():
            if not text.strip():
                raise UsageError(f"prompt template {self.name}/{name}.j2 renders to nothing; expected text")

    def _try(self, name: str, render: Callable[..., T], *arguments: object) -> T:
        """What `render` returns; whatever is wrong is said of the template `name`."""
        try:
            return render(*arguments)
        except UsageError:
            raise
        except Exception as error:  # a template can fail in any way that Python can
            where = error.name if isinstance(error, TemplateNotFound) else f"{name}.j2"
            raise UsageError(f"prompt template {self.name}/{where}: {type(error).__name__}: {error}") from error

    def files(self, instructions: tuple[str, ...], head: str = "head") -> list[str]:
        """The files that a run with these instructions looks for."""
        return [f"{name}.j2" for name in (*(("system",) if self.chat else ()), head, *ITEMS, *instructions)]

    def _system(self) -> str | None:
        try:
            return self._template("system").render().strip() or None
        except TemplateNotFound:
            return None
        except Exception as error:
            raise UsageError(f"prompt template {self.name}/system.j2: {type(error).__name__}: {error}") from error

    def _template(self, name: str) -> Template:
        return self.environment.get_template(f"{name}.j2")

    def _instruction(self, name: str) -> tuple[Template, tuple[str, ...]]:
        if name not in self._instructions:
            template = self._template(name)
            exported = template.make_module({"question": "", "evidence": Evidence("")})
            stop = getattr(exported, "stop", ())
            if not isinstance(stop, (list, tuple)) or not all(isinstance(s, str) and s for s in stop):
                raise UsageError(f"prompt template {self.name}/{name}.j2: stop is {stop!r}; expected a list of non-empty strings")
            self._instructions[name] = template, tuple(stop)
        return self._instructions[name]

    def _render_head(self, head: str, question: str) -> Segment:
        return Segment(self._template(head).render(question=question))

    def _render_item(self, item: Item) -> Segment:
        match item:
            case SubQuery():
                return Segment(self._template("subquery").render(subquery=item))
            case Extract():
                return Segment(self._template("extract").render(extract=item))
            case Line(text):
                return Segment(f"{text}\n\n")
        return Segment(self._template("passage").render(passage=item), passage_id=item.id)


class PromptBook:
    """The family of every role: roles may be different models."""

    def __init__(self, default: Family, by_role: Mapping[str, Family] | None = None) -> None:
        self.default = default
        self.by_role = dict(by_role or {})

    def of(self, role: str) -> Family:
        """The family whose templates this role's model is asked with."""
        return self.by_role.get(role, self.default)

    def generate(self, role: str, instruction: str, evidence: Evidence, head: str = "head", **variables: object) -> Generate:
        """The operation that asks `role` for `instruction` on what the episode knows."""
        prompt, stop = self.of(role).prompt(instruction, evidence, head, **variables)
        return Generate(role, prompt, stop=stop)

    def check(self, templates: Iterable[tuple[str, tuple[str, ...]]]) -> None:
        """Raise `UsageError` for the first template that cannot be used, and for a folder of the user's that holds none that is.

        `templates`: each head that is used, with the instructions that follow it (`Method.templates`).
        """
        families, templates = list({id(f): f for f in [self.default, *self.by_role.values()]}.values()), list(templates)
        for family in families:
            for head, instructions in templates:
                family.check(instructions, head)
        looked_for = {family: [file for head, instructions in templates for file in family.files(instructions, head)] for family in families}
        places = {place / file for family, files in looked_for.items() for place in family.own for file in files}
        if places and not any(place.is_file() for place in places):
            names = dict.fromkeys(file for files in looked_for.values() for file in files)
            folders = " or ".join(f"its sub-folder {family.name}" for family in families)
            raise UsageError(f"--prompts {families[0].own[-1]} holds no template of this run; expected at least one of {', '.join(names)}, there or in {folders}")
