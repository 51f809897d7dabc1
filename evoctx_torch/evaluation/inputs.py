"""Everything that can be refused is refused here, before a model is loaded: data, sizes, models, index."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from evoctx_torch.data.corpus import Corpus, load_corpus
from evoctx_torch.data.datasets import DataFiles, digest_file, resolve
from evoctx_torch.data.questions import load_questions
from evoctx_torch.errors import UsageError
from evoctx_torch.evaluation.config import RunConfig
from evoctx_torch.generation.models import check_model, model_digest, prompt_family, resolve_device
from evoctx_torch.operations import Question
from evoctx_torch.prompts import Family, PromptBook
from evoctx_torch.retrieval.folder import read_index
from evoctx_torch.retrieval.sources import DEFAULT_ENCODER, encoder_digest

PACKAGES = ("evoctx-torch", "torch", "transformers", "sentence-transformers", "faiss-cpu", "faiss-gpu", "bm25s", "openai", "numpy")


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a run reads, checked."""

    files: DataFiles
    questions: list[Question]
    corpus: Corpus | None
    encoder: str | None  # of the retrieval; None without retrieval or with a bm25 index
    prompts: PromptBook
    digests: dict[str, str | None]


def check_inputs(config: RunConfig) -> Inputs:
    """Load and check questions and corpus, check models, prompts and index. Raises `UsageError`; loads no weights."""
    common, retrieves = config.common, config.method.retrieves
    files = resolve(common.data, common.queries, common.corpus)
    questions = load_questions(files.queries, common.limit)
    corpus = load_corpus(files.corpus) if retrieves else None
    if corpus is not None and len(corpus) < config.options.top_k:
        raise UsageError(f"--top-k is {config.options.top_k}, and {files.corpus} has only {len(corpus)} passages")
    digests: dict[str, str | None] = {"queries": digest_file(files.queries), "corpus": corpus.digest if corpus else None}
    digests |= {role: generator_digest(config, role) for role in config.models}
    resolve_device(common.device)
    resolve_device(common.index_device)
    prompts = prompt_book(config)
    prompts.check(config.method.instructions)
    if config.method.decides:
        digests["boundary_encoder"] = encoder_digest(common.boundary_encoder)
    encoder = None
    if corpus is not None:
        encoder, found = retrieval_digests(config, corpus)
        digests |= found
    return Inputs(files, questions, corpus, encoder, prompts, digests)


def generator_digest(config: RunConfig, role: str) -> str | None:
    """Digest of a role's model files; None for a server's model, whose files are out of sight."""
    if config.roles[role].backend == "openai":
        return None
    check_model(config.models[role])
    return model_digest(config.models[role])


def retrieval_digests(config: RunConfig, corpus: Corpus) -> tuple[str | None, dict[str, str | None]]:
    """The encoder of the retrieval and the digests of what it uses; a given index must belong to corpus and encoder."""
    if config.common.index is None:
        name = config.common.encoder or DEFAULT_ENCODER
        return name, {"encoder": encoder_digest(name), "index": None}
    index = read_index(Path(config.common.index))
    index.check_matches(corpus_digest=corpus.digest)
    if index.encoder is None:
        return None, {"encoder": None, "index": index.digest}
    name = config.common.encoder or index.encoder
    index.check_matches(encoder_digest=encoder_digest(name, index.options["dtype"]))
    return name, {"encoder": index.encoder_digest, "index": index.digest}


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
        return Family(name, folder)

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


