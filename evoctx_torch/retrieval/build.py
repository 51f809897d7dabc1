"""Assembling retrievers: from a corpus, from an index folder, and into one."""

from __future__ import annotations

from pathlib import Path

import torch

from evoctx_torch.data.chunks import chunk
from evoctx_torch.data.corpus import Corpus
from evoctx_torch.errors import UsageError
from evoctx_torch.retrieval.cache import Progress, corpus_vectors
from evoctx_torch.retrieval.dense import DenseIndex
from evoctx_torch.retrieval.encoder import DEFAULT_ENCODER, Encoder, TextEncoder
from evoctx_torch.retrieval.executor import Retriever
from evoctx_torch.retrieval.folder import KINDS, IndexInfo, check_out, indexed_corpus, lock, read_index, write_index
from evoctx_torch.retrieval.sources import encoder_digest
from evoctx_torch.retrieval.sparse import SparseIndex


def build_index(
    corpus: Corpus, kind: str, encoder: TextEncoder | None, out: Path, progress: Progress | None = None,
    chunk_words: int | None = None, chunk_overlap: int = 0,
) -> IndexInfo:
    """Write the index folder `out` of `kind` flat (needs an encoder) or bm25 (takes none).

    With `chunk_words` the corpus's passages are cut (`data.chunks.chunk`) and the folder holds and finds the chunks.
    After a kill the same call continues: finished blocks of vectors lie in the embedding cache. An `out` that already holds
    this very index is left as it is. Raises `UsageError` when `out` holds anything else.
    """
    if kind not in KINDS:
        raise UsageError(f"index kind is {kind!r}; expected one of {', '.join(KINDS)}")
    if (kind == "flat") != (encoder is not None):
        raise ValueError(f"kind {kind} with encoder {encoder}: flat needs one, bm25 takes none")
    source_digest, chunking = None, {}
    if chunk_words is not None:
        source_digest, chunking = corpus.digest, {"chunk_words": chunk_words, "chunk_overlap": chunk_overlap}
        corpus = Corpus(chunk(corpus, chunk_words, chunk_overlap))
    out, wanted = out.expanduser().resolve(), (kind, source_digest or corpus.digest, encoder.digest if encoder else None)
    check_out(out, *wanted)  # a refused call writes nothing, not even a lock
    with lock(out):
        if there := check_out(out, *wanted):
            if there.corpus_digest != corpus.digest:
                raise UsageError(f"{out} already holds an index of this corpus in other chunks ({there.chunks}); give --out another folder")
            if encoder is not None and there.prompts["query_prompt"] not in (None, encoder.query_prompt):
                raise UsageError(f"{out} already holds this index for the query prompt {there.prompts['query_prompt']!r}; give --out another folder")
            return there
        if encoder is None:
            index = SparseIndex(corpus.contents)
            info = IndexInfo("bm25", corpus.digest, len(corpus), options=index.options | chunking, source_digest=source_digest)
        else:
            index = DenseIndex(corpus_vectors(corpus, encoder, progress=progress))
            options = {"dtype": encoder.dtype, "query_prompt": encoder.query_prompt, "passage_prompt": encoder.passage_prompt} | chunking
            info = IndexInfo("flat", corpus.digest, len(corpus), encoder.name, encoder.digest, options, source_digest)
        return write_index(index, corpus, info, out)


def open_index(
    folder: Path,
    encoder: TextEncoder | str | None = None,
    corpus: Corpus | None = None,
    device: str | torch.device = "cpu",
    fp16: bool = False,
) -> Retriever:
    """The retriever of an index folder. `encoder` (an object, or a name to load) and `corpus` default to the index's own;
    a bm25 index uses no encoder. What is found is what was indexed: the chunks, where `corpus` was cut for the index.

    Raises `UsageError`, before a model is loaded, when the folder is no index, is damaged, or belongs to another corpus or
    encoder than those given.
    """
    info = read_index(folder)
    info.check_matches(corpus_digest=corpus.digest if corpus else None)
    if info.kind == "bm25":
        return Retriever(indexed_corpus(info, corpus), SparseIndex.read(folder / "bm25"))
    if encoder is None or isinstance(encoder, str):
        name, dtype, prompts = encoder or info.encoder, info.options["dtype"], info.prompts
        info.check_matches(encoder_digest=encoder_digest(name, dtype, prompts["passage_prompt"]))
        corpus, encoder = indexed_corpus(info, corpus), Encoder(name, device, dtype, **prompts)
    info.check_matches(encoder_digest=encoder.digest)
    return Retriever(indexed_corpus(info, corpus), DenseIndex.read(folder / "index.faiss", device, fp16), encoder)


def make_retriever(
    corpus: Corpus,
    encoder: TextEncoder | str | None = None,
    index: Path | None = None,
    device: str | torch.device = "cpu",
    fp16: bool = False,
    progress: Progress | None = None,
) -> Retriever:
    """The retriever of a run over `corpus`: that of the `index` folder (`open_index`), or without one an exact dense index
    in memory with its vectors from the embedding cache; `encoder` None is then the default encoder.
    """
    if index is not None:
        return open_index(index, encoder, corpus, device, fp16)
    if encoder is None or isinstance(encoder, str):
        encoder = Encoder(encoder or DEFAULT_ENCODER, device)
    return Retriever(corpus, DenseIndex(corpus_vectors(corpus, encoder, progress=progress), device, fp16), encoder)
