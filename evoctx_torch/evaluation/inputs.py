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
from evoctx_torch.operations import Question
from evoctx_torch.prompts import Family, PromptBook

PACKAGES = ("evoctx-torch", "torch", "transformers", "sentence-transformers", "faiss-cpu", "faiss-gpu", "bm25s", "openai", "numpy")


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a run reads, checked."""

    files: DataFiles
    questions: list[Question]
    corpus: Corpus | None
    prompts: PromptBook
    digests: dict[str, str | None]


def check_inputs(config: RunConfig) -> Inputs:
    """Load and check questions and corpus, check models, prompts and index. Raises `UsageError`; loads no weights."""
    common, retrieves = config.common, config.method.retrieves
    files = resolve(common.data, common.queries, common.corpus, need_corpus=retrieves)
    questions = load_questions(files.queries, common.limit)
    corpus = load_corpus(files.corpus) if retrieves else None
    if corpus is not None and len(corpus) < config.options.top_k:
        raise UsageError(f"--top-k is {config.options.top_k}, and {files.corpus} has only {len(corpus)} passages")
    digests: dict[str, str | None] = {"queries": digest_file(files.queries), "corpus": corpus.digest if corpus else None}
    digests |= {role: generator_digest(config, role) for role in config.models}
    prompts = prompt_book(config)
    prompts.check(config.method.instructions)
    if config.method.decides:
        digests["boundary_encoder"] = encoder_digest(common.boundary_encoder)
    if corpus is not None:
        digests |= retrieval_digests(config, corpus)
    return Inputs(files, questions, corpus, prompts, digests)


def generator_digest(config: RunConfig, role: str) -> str | None:
    """Digest of a role's model files; None for a server's model, whose files are out of sight."""
    if config.roles[role].backend == "openai":
        return None
    from evoctx_torch.generation.models import check_model, model_digest
    check_model(config.models[role])
    return model_digest(config.models[role])


def encoder_digest(name: str) -> str:
    """Digest of an encoder's files."""
    from evoctx_torch.retrieval.sources import check_encoder, encoder_folder, folder_digest
    check_encoder(name)
    return folder_digest(encoder_folder(name))


def retrieval_digests(config: RunConfig, corpus: Corpus) -> dict[str, str | None]:
    """Digests of what retrieval uses, after checking that a given index belongs to this corpus."""
    if config.common.index is None:
        return {"encoder": encoder_digest(config.common.encoder), "index": None}
    from evoctx_torch.retrieval.folder import read_index
    index = read_index(Path(config.common.index))
    index.check_matches(corpus_digest=corpus.digest)
    return {"encoder": index.encoder_digest, "index": index.digest}


def prompt_book(config: RunConfig) -> PromptBook:
    """The template family of every role: the one asked for, else what suits its model and endpoint."""
    folder = Path(config.common.prompts) if config.common.prompts else None

    def family(role: str) -> Family:
        settings, name = config.roles[role], config.roles[role].prompt_family
        if name == "auto" and settings.backend == "openai":
            name = "chat" if settings.api == "chat" else "completion"
        elif name == "auto":
            from evoctx_torch.generation.models import prompt_family
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


