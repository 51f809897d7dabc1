"""Everything that can be refused is refused here, before a model is loaded: data, sizes, models, index."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from evoctx_torch.data.corpus import Corpus, load_corpus
from evoctx_torch.data.datasets import DataFiles, digest_file, resolve
from evoctx_torch.data.jsonl import count_rows
from evoctx_torch.data.questions import load_questions
from evoctx_torch.errors import UsageError
from evoctx_torch.evaluation.config import RunConfig, check_room
from evoctx_torch.generation.models import check_model, model_digest, model_folder, prompt_family, resolve_device
from evoctx_torch.generation.openai_server import check_url
from evoctx_torch.operations import Question
from evoctx_torch.prompts import Family, PromptBook
from evoctx_torch.retrieval.folder import indexed_corpus, read_index
from evoctx_torch.retrieval.sources import DEFAULT_ENCODER, encoder_digest

PACKAGES = ("evoctx-torch", "torch", "transformers", "sentence-transformers", "faiss-cpu", "faiss-gpu", "bm25s", "openai", "numpy")


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a run reads, checked."""

    files: DataFiles
    questions: list[Question]
    limit: int | None  # None where these are all questions of the file
    corpus: Corpus | None
    encoder: str | None  # of the retrieval; None without retrieval or with a bm25 index
    encoder_dtype: str
    prompts: PromptBook
    digests: dict[str, str | None]
    encoder_prompts: dict[str, str | None] = field(default_factory=dict)  # those of the index; none given: the encoder's own


def check_inputs(config: RunConfig) -> Inputs:
    """Load and check questions and corpus, check models, prompts and index. Raises `UsageError`; loads no weights."""
    common, retrieves = config.common, config.method.retrieves
    if common.retriever is not None:
        check_remote(config)
    files = resolve(common.data, common.queries, common.corpus, common.index, retrieves=retrieves and common.retriever is None)
    questions = load_questions(files.queries, common.limit)
    for question in questions:
        config.method.check(config.options, question)
        if common.retriever is not None and question.metadata.get("doc_ids") is not None:
            raise UsageError(f"question {question.id} is restricted to its own documents (metadata.doc_ids), and --retriever cannot search among "
                             "some documents only: use --index or --corpus")
    limit = None if len(questions) == count_rows(files.queries) else common.limit
    questions = half(questions, common.split)
    corpus = load_corpus(files.corpus) if files.corpus is not None else None
    if corpus is not None and common.index is not None:
        corpus = indexed_corpus(read_index(Path(common.index)), corpus)  # the chunks, where the index holds such
    if corpus is not None and len(corpus) < config.options.top_k:
        raise UsageError(f"--top-k is {config.options.top_k}, and {files.corpus} has only {len(corpus)} passages")
    digests: dict[str, str | None] = {"queries": digest_file(files.queries), "corpus": corpus.digest if corpus else None}
    digests |= {role: check_generator(config, role) for role in config.models}
    read = [f.name for f in dataclasses.fields(config.options) if f.metadata.get("file") and getattr(config.options, f.name) is not None]
    digests |= {name: digest_file(Path(getattr(config.options, name))) for name in read}
    resolve_device(common.device)
    resolve_device(common.index_device)
    prompts = prompt_book(config)
    prompts.check((*config.method.templates, *config.modules.templates))
    if config.method.decides:
        digests["boundary_encoder"] = encoder_digest(common.boundary_encoder)
    encoder, dtype, own = None, "float32", {}
    if corpus is not None:
        encoder, dtype, found = check_retrieval(config, corpus)
        digests |= found
        own = encoder_prompts(config)
    return Inputs(files, questions, limit, corpus, encoder, dtype, prompts, digests, own)


def check_remote(config: RunConfig) -> None:
    """Refuse a retrieval server for a method that would not use it, or that needs more than passages. It is not asked yet."""
    if not config.method.retrieves:
        raise UsageError(f"--retriever is for methods that retrieve, and {config.method.name} does not: leave it out")
    if config.method.remembers:
        raise UsageError(f"{config.method.name} compares the vectors of passages and thoughts, and --retriever gives no vectors: use --index or --corpus")
    check_url(config.common.retriever, "--retriever", "http://127.0.0.1:8000", "EVOCTX_RETRIEVER_TOKEN")


def encoder_prompts(config: RunConfig) -> dict[str, str]:
    """The prompts of the retrieval's encoder that are not its own: those of the index, and those that are given."""
    common = config.common
    found = {} if common.index is None else {name: text for name, text in read_index(Path(common.index)).prompts.items() if text is not None}
    given = {"query_prompt": common.query_prompt, "passage_prompt": common.passage_prompt}
    return found | {name: text for name, text in given.items() if text is not None}


def half(questions: list[Question], split: str | None) -> list[Question]:
    """The questions of a split: every other one, so that both halves ask about the same documents; None is all of them."""
    chosen = questions if split is None else questions[{"evolve": 0, "held-out": 1}[split] :: 2]
    if not chosen:
        raise UsageError(f"--split {split} has no question: there is only {len(questions)}")
    return chosen


def check_generator(config: RunConfig, role: str) -> str | None:
    """Check a role's model; the digest of its files, None for a server's model, whose files are out of sight."""
    name, settings = config.models[role], config.roles[role]
    if settings.backend == "openai":
        return None
    check_model(name)
    try:
        check_room(settings.max_new_tokens, positions(name), f"the context length of {name}")
    except UsageError as error:
        raise UsageError(f"{role}: {error}") from None
    return model_digest(name)


def positions(name: str) -> int | None:
    """The context length that a model's config.json tells; None where it tells none, or is not there yet (the embedded model's)."""
    file = model_folder(name) / "config.json"
    if not file.is_file():
        return None
    config = json.loads(file.read_text(encoding="utf-8"))
    text = config.get("text_config") or config  # a model of several modalities keeps its language model's apart
    return text.get("max_position_embeddings") or text.get("n_positions")


def check_retrieval(config: RunConfig, corpus: Corpus) -> tuple[str | None, str, dict[str, str | None]]:
    """The encoder of the retrieval, its dtype, and the digests of what it uses; a given index must belong to corpus and encoder."""
    common = config.common
    if common.index is None:
        name = common.encoder or DEFAULT_ENCODER
        return name, "float32", {"encoder": encoder_digest(name, "float32", encoder_prompts(config).get("passage_prompt")), "index": None}
    index = read_index(Path(common.index))
    if common.passage_prompt is not None:
        raise UsageError(f"--passage-prompt is for passages that this run embeds, and those of --index {common.index} are embedded: leave it out")
    index.check_matches(corpus_digest=corpus.digest)
    if index.encoder is None:
        for given, value in (("--encoder", common.encoder), ("--query-prompt", common.query_prompt), ("--index-device", common.index_device != "cpu" and common.index_device)):
            if value:
                raise UsageError(f"{given} is {value}, and --index {common.index} is a {index.kind} index, which has no vectors: leave one of them out")
        return None, "float32", {"encoder": None, "index": index.digest}
    name, dtype = common.encoder or index.encoder, index.options["dtype"]
    index.check_matches(encoder_digest=encoder_digest(name, dtype, index.prompts["passage_prompt"]))
    return name, dtype, {"encoder": index.encoder_digest, "index": index.digest}


def prompt_book(config: RunConfig) -> PromptBook:
    """The template family of every role: the one asked for, else what suits its model and endpoint."""
    folder = Path(config.common.prompts) if config.common.prompts else None

    def family(role: str) -> Family:
        settings, name = config.roles[role], config.roles[role].prompt_family
        if name == "auto" and settings.backend == "openai":
            name = "chat" if settings.api == "chat" else "completion"
        elif name == "auto":
            name = prompt_family(config.models[role])
        if name == "chat" and settings.backend == "openai" and settings.api == "completions":
            raise UsageError("--prompt-family chat does not go with --api completions: that endpoint knows no chat template")
        return Family(name, folder, config.method.folder)

    families: dict[str, Family] = {}
    by_role = {role: families.setdefault((f := family(role)).name, f) for role in config.roles}
    return PromptBook(by_role["generator"], by_role)


def record(config: RunConfig, inputs: Inputs, processes: int = 1) -> dict[str, Any]:
    """What config.json holds: every option, and what they were resolved to."""
    return {
        **config.flat(),
        "encoder": inputs.encoder,
        "data_name": inputs.files.name,
        "queries_path": str(inputs.files.queries.resolve()),
        "corpus_path": str(inputs.files.corpus.resolve()) if inputs.corpus is not None else None,
        "num_processes": processes,
        "versions": {name: found for name in PACKAGES if (found := installed(name))},
        "git_commit": git_commit(),
        "digests": inputs.digests,
    }


def installed(package: str) -> str | None:
    """The installed version of a package, None where it is absent."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def git_commit() -> str | None:
    """The commit of the source tree that this package runs from, None for an installed wheel or without git."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    try:
        done = subprocess.run(["git", "-C", str(root), "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.strip() or None


