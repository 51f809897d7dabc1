"""The configuration of a run: typed options, presets and configuration files, and what a later run may change."""

from __future__ import annotations

import dataclasses
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evoctx_torch.errors import UsageError
from evoctx_torch.generation.settings import MAX_BATCH_TOKENS
from evoctx_torch.methods import NO_MODULES, Method, Modules, get_method
from evoctx_torch.options import convert, flag, option, typed

PRESETS = Path(__file__).parent / "presets"
# What a run's config.json holds besides its options.
RECORD = ("data_name", "queries_path", "corpus_path", "num_processes", "device_name", "versions", "git_commit", "digests",
          "memory_at_start")
OF_THE_SERVER = ("corpus", "index", "encoder", "query_prompt", "passage_prompt")  # what a retrieval server has of its own


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """How a role's model is reached and asked. For roles other than the generator None means: as the generator."""

    max_new_tokens: int = option(64, "longest reply of a call", unit="tokens", low=1)
    temperature: float = option(0.0, "sampling temperature, 0 is greedy", low=0)
    top_p: float = option(1.0, "nucleus of the sampling", above=0, high=1)
    backend: str = option("hf", "hf: transformers in this process; openai: a server that speaks its protocol", choices=("hf", "openai"))
    base_url: str | None = option(None, "address of the server, for --backend openai (http://host:port/v1)")
    api: str = option("chat", "endpoint of the server: chat completions or completions", choices=("chat", "completions"))
    prompt_family: str = option("auto", "templates: the model's chat template, or few-shot completion", choices=("auto", "chat", "completion"))
    context_length: int | None = option(None, "longest prompt and reply together (default: the model's own)", unit="tokens", low=16)
    dtype: str = option("auto", "number format of the model (auto: float32 on CPU, the checkpoint's on CUDA)",
                        choices=("auto", "float32", "float16", "bfloat16"))

    def check(self) -> None:
        """A reply must leave room for a prompt, and a server needs an address."""
        if self.backend == "openai" and self.base_url is None:
            raise UsageError("--backend openai needs --base-url URL, for instance http://127.0.0.1:8000/v1")
        check_room(self.max_new_tokens, self.context_length, "--context-length")


def check_room(max_new_tokens: int, context_length: int | None, source: str) -> None:
    """Raise `UsageError` unless a reply of `max_new_tokens` leaves room for a prompt; None is a context that is not known."""
    if context_length is not None and max_new_tokens >= context_length:
        raise UsageError(f"--max-new-tokens is {max_new_tokens}; expected less than {context_length} ({source}), which must hold the prompt too")


@dataclass(frozen=True, slots=True)
class EvalOptions:
    """Options of every evaluation, whatever the method."""

    data: str | None = option(None, "a folder with queries.jsonl and corpus.jsonl, or a known name (demo, flashrag:NAME …: docs/data.md)")
    queries: str | None = option(None, "questions file, instead of the one in --data")
    corpus: str | None = option(None, "corpus file, instead of the one in --data")
    generator: str | None = option(None, "model: smollm2, a folder, a hub name, or the server's name for it")
    encoder: str | None = option(None, "encoder of the retrieval (default: the index's, else all-minilm-l6-v2)", paper="all-MiniLM-L6-v2")
    query_prompt: str | None = option(None, "what stands before a query that is embedded, \"\" for nothing (default: the encoder's own)", blank=True)
    passage_prompt: str | None = option(None, "what stands before a passage that is embedded, \"\" for nothing (default: the encoder's own, or the index's)", blank=True)
    boundary_encoder: str = option("all-minilm-l6-v2", "encoder of traces and boundaries", paper="all-MiniLM-L6-v2")
    index: str | None = option(None, "an index folder made by `evoctx index` (default: exact search, embedded at need)")
    retriever: str | None = option(None, "address of a retrieval server (http://host:port) with Search-R1's protocol, in place of corpus and index: `evoctx serve`")
    limit: int | None = option(None, "only the first N questions", unit="questions", low=1)
    split: str | None = option(None, "only half of these questions: the 1st, 3rd … (evolve) or the 2nd, 4th … (held-out)", choices=("evolve", "held-out"))
    seed: int = option(0, "seed of the sampling", low=0)
    extract: str = option("first-line", "how the prediction is taken from the reply", choices=("first-line", "full"))
    metrics: str | None = option(None, "metrics of long answers besides, with commas between: rouge, bertscore")
    bertscore_model: str | None = option(None, "model of BERTScore: all-minilm-l6-v2, a folder, or a hub name")
    bertscore_layers: int | None = option(None, "layer of that model that is compared (default: bert-score's)", unit="layers", low=1)
    prompts: str | None = option(None, "folder with your own templates, before the packaged ones")
    deterministic: bool = option(False, "compute every row alone: slower, and the same on any hardware batch")
    batch_size: int = option(32, "questions under way at once", unit="questions", low=1, placement=True)
    max_batch_tokens: int = option(MAX_BATCH_TOKENS, "padded tokens of one model batch", unit="tokens", low=1, placement=True)
    device: str = option("auto", "auto, cpu, cuda or cuda:N", placement=True)
    index_device: str = option("cpu", "where a dense index lives: cpu, cuda or cuda:N", placement=True)
    index_fp16: bool = option(False, "hold a dense index on a GPU in half precision: half the memory, the same results", placement=True)
    pool_vectors: int = option(65536, "boundary vectors kept on the device", unit="vectors", low=1, placement=True)
    retriever_timeout: float = option(30.0, "how long the retrieval server may take for one reply", unit="seconds", above=0, placement=True)
    request_timeout: float = option(600.0, "how long a server may take for one reply", unit="seconds", above=0, placement=True)

    def check(self) -> None:
        """Half precision is FAISS's on a GPU only, and a server has its own corpus, index and encoder."""
        if self.index_fp16 and self.index_device == "cpu":
            raise UsageError("--index-fp16 is for an index on a GPU: add --index-device cuda, or leave it out")
        if self.retriever is not None:
            given = [name for name in OF_THE_SERVER if getattr(self, name) is not None] + (["index_device"] if self.index_device != "cpu" else [])
            if given:
                raise UsageError(f"{flag(given[0])} does not go with --retriever, whose server has its own: leave one of them out")


@dataclass(frozen=True, slots=True)
class RunConfig:
    """Everything that determines a run, resolved."""

    method: Method
    options: Any  # the method's own dataclass
    common: EvalOptions
    generator: ModelOptions
    models: Mapping[str, str]  # role -> model name, for every role that is asked
    roles: Mapping[str, ModelOptions]  # role -> settings
    modules: Modules = NO_MODULES

    def flat(self) -> dict[str, Any]:
        """Every option under its own name, as config.json holds it."""
        values = {"method": self.method.name, **dataclasses.asdict(self.common), **dataclasses.asdict(self.generator)}
        values |= dataclasses.asdict(self.options) | (dataclasses.asdict(self.modules) if self.method.retrieves else {})
        for role in (role for role in self.roles if role != "generator"):
            values[role] = self.models[role]
            values |= {f"{role}_{name}": value for name, value in dataclasses.asdict(self.roles[role]).items()}
        return values


def other_roles(method: Method) -> tuple[str, ...]:
    """The roles that may have a model of their own; whatever retrieves may ask a contextualizer."""
    return (*(role for role in method.roles if role != "generator"), *(("contextualizer",) if method.retrieves else ()))


def option_classes(method: Method) -> tuple[type, ...]:
    """The dataclasses whose fields are the method's options on the command line, in the order of --help."""
    return (method.options, *((Modules,) if method.retrieves else ()), EvalOptions, ModelOptions)


def known_options(method: Method) -> set[str]:
    """The names that a configuration file may hold for this method."""
    names = {f.name for cls in option_classes(method) for f in dataclasses.fields(cls)}
    for role in other_roles(method):
        names |= {role, *(f"{role}_{f.name}" for f in dataclasses.fields(ModelOptions))}
    return names


def placement_options() -> set[str]:
    """Options that cannot change an answer: they may differ when a run is resumed."""
    return {f.name for f in dataclasses.fields(EvalOptions) if f.metadata["placement"]}


def resolve(method_name: str, given: Mapping[str, Any], *, config: Path | None = None, preset: str | None = None) -> RunConfig:
    """The configuration from defaults < preset < configuration file < `given`. Raises `UsageError`."""
    method = get_method(method_name)
    known = known_options(method)
    values: dict[str, Any] = dict(method.defaults.get("generator", {}))
    packaged = keep(read_preset(preset), method, known, f"--preset {preset}") if preset is not None else {}
    own = (keep(read_config(config), method, known, f"--config {config}") if config is not None else {}) | dict(given)
    if own.get("retriever") is not None:  # whose server may well be what the paper has
        packaged = {name: value for name, value in packaged.items() if name not in OF_THE_SERVER}
    values |= packaged | own
    common = typed(EvalOptions, values)
    if not common.generator:
        raise UsageError("--generator is missing: name a model (smollm2 is the embedded one)")
    generator = typed(ModelOptions, values)
    models, roles = {"generator": common.generator}, {"generator": generator}
    modules, options = typed(Modules, values), typed(method.options, values)
    unasked = dict.fromkeys(method.unasked(options), "leave it out")
    if not modules.contextualize:
        unasked["contextualizer"] = "add --contextualize, or leave it out"
    for role in other_roles(method):
        if role in unasked:
            if named := [name for name in (role, *(f"{role}_{f.name}" for f in dataclasses.fields(ModelOptions))) if values.get(name) is not None]:
                raise UsageError(f"{flag(named[0])} sets a role that this run does not ask: {unasked[role]}")
            continue
        if role in method.required and values.get(role) is None:
            raise UsageError(f"{flag(role)} is missing: {method.name} asks this role, and it has no default model")
        models[role] = convert(role, str, values[role]) if values.get(role) is not None else common.generator
        own = {f.name: values.get(f"{role}_{f.name}", method.defaults.get(role, {}).get(f.name)) for f in dataclasses.fields(ModelOptions)}
        try:
            roles[role] = typed(ModelOptions, dataclasses.asdict(generator) | {k: v for k, v in own.items() if v is not None})
        except UsageError as error:
            raise UsageError(f"{role}: {error}") from None
    asked = {settings.base_url for settings in roles.values() if settings.backend == "openai"}
    for role, settings in roles.items():
        if settings.base_url not in {None, *asked}:
            raise UsageError(f"--base-url {settings.base_url} (role {role}) is for --backend openai, which no role with it has: add that, or leave it out")
    method.check_roles(options, roles)
    return RunConfig(method, options, common, generator, models, roles, modules)


def keep(values: Mapping[str, Any], method: Method, known: set[str], where: str) -> dict[str, Any]:
    """The options among `values`; refuses another method's file and names that are no option."""
    if values.get("method", method.name) != method.name:
        raise UsageError(f"{where} is for the method {values['method']}, not {method.name}")
    unknown = set(values) - known - {"method"}
    if unknown:
        raise UsageError(f"{where} has {sorted(unknown)[0]!r}, which is no option of {method.name}: see `evoctx eval {method.name} --help`")
    return {name: value for name, value in values.items() if name != "method" and value is not None}


def read_config(path: Path) -> dict[str, Any]:
    """A flat TOML file, or the config.json of a run."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UsageError(f"--config {path}: {error.strerror}") from None
    try:
        if path.suffix == ".json":
            return {name: value for name, value in json.loads(text).items() if name not in RECORD}
        return tomllib.loads(text)
    except (ValueError, AttributeError) as error:
        raise UsageError(f"--config {path}: expected flat TOML or the config.json of a run: {error}") from None


def presets() -> list[str]:
    """Names of the papers' settings that `--preset` takes."""
    return sorted(path.stem for path in PRESETS.glob("*.toml"))


def read_preset(name: str) -> dict[str, Any]:
    """A packaged configuration file with a paper's settings."""
    if name not in presets():
        raise UsageError(f"--preset is {name!r}; expected one of {', '.join(presets())}")
    return tomllib.loads((PRESETS / f"{name}.toml").read_text(encoding="utf-8"))


def difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> str | None:
    """The first option that makes two configurations different runs, in words; a larger limit continues the same run."""
    for name in [*new, *(n for n in old if n not in new)]:
        before, now = old.get(name), new.get(name)
        if name in placement_options() or before == now:
            continue
        if name == "limit" and before is not None and (now is None or now > before):
            continue
        return f"{name} is {now!r} here and {before!r} there ({flag(name)})"
    return None
