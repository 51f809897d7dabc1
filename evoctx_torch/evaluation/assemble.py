"""Models, index and controller of a run, put together. From here on weights are loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from evoctx_torch.boundary.controller import BoundaryExecutor
from evoctx_torch.engine import Engine
from evoctx_torch.evaluation.config import ModelOptions, RunConfig
from evoctx_torch.evaluation.inputs import Inputs
from evoctx_torch.evaluation.remembering import memory_encoder
from evoctx_torch.generation.models import resolve_device
from evoctx_torch.generation.settings import Roles, RoleSettings
from evoctx_torch.memory.executor import ThoughtMemory
from evoctx_torch.memory.store import ThoughtStore
from evoctx_torch.methods import Episode
from evoctx_torch.operations import Executor, Question
from evoctx_torch.prompts import PromptBook
from evoctx_torch.retrieval.build import make_retriever
from evoctx_torch.retrieval.encoder import Encoder
from evoctx_torch.retrieval.executor import Retriever
from evoctx_torch.trajectory import Trajectory
from evoctx_torch.transcript import Prompt, Segment

Report = Callable[[str, int, int], None]  # what is being made, how much of it is done, how much there is


def build_engine(
    config: RunConfig, inputs: Inputs, stack: ExitStack, report: Report, on_tick: Callable[[Engine], None],
    memory: tuple[ThoughtStore, Mapping[str, Any]] | None = None,
) -> Engine:
    """The engine of a run. What must be closed at its end is pushed on `stack`.

    `memory`: of a method that remembers, the store and what the run began with (`remembering.run_memory`); without it the
    thoughts end with the engine.
    """
    common = config.common
    device = resolve_device(common.device)
    # What can still be refused comes before what is dear to load: servers, the index, then weights.
    generators = build_generators(config, "openai", inputs.prompts, device, stack)
    remote = None if common.retriever is None else build_remote(config, stack)
    own, boundary = (inputs.encoder, inputs.encoder_dtype), (common.boundary_encoder, "float32")
    wanted = ([own] if inputs.encoder is not None else []) + ([boundary] if config.method.decides else [])
    encoders = {
        key: Encoder(key[0], device, key[1], canonical=common.deterministic, **(inputs.encoder_prompts if key == own else {}))
        for key in dict.fromkeys(wanted)
    }
    retriever: Retriever | None = None
    if inputs.corpus is not None:
        retriever = make_retriever(
            inputs.corpus, encoders.get(own), Path(common.index) if common.index else None, common.index_device, common.index_fp16,
            progress=lambda done, total: report("embedding the corpus", done, total),
        )
    generators |= build_generators(config, "hf", inputs.prompts, device, stack)
    controller: BoundaryExecutor | None = None
    if config.method.decides:
        boundary_encoder = encoders[boundary]
        # The boundary embeds passages without a prompt: the index's vectors are those only where it has none either.
        same = retriever is not None and retriever.encoder is boundary_encoder and not boundary_encoder.passage_prompt
        controller = BoundaryExecutor(boundary_encoder, device, common.pool_vectors, known=retriever.known_vector if same else None)
    thoughts: ThoughtMemory | None = None
    if config.method.remembers:
        store, began = memory or (ThoughtStore(None, memory_encoder(inputs)), {})
        thoughts = ThoughtMemory(retriever, store, run=began.get("run"), known=began.get("thoughts"), frozen=config.options.freeze_memory,
                                 device=device)
    return Engine(
        config.method, config.options, generator=generators, retriever=remote or retriever, controller=controller, memory=thoughts, prompts=inputs.prompts,
        modules=config.modules, batch_size=common.batch_size, wave=config.options.wave if thoughts else 1, on_tick=on_tick,
    )


def build_remote(config: RunConfig, stack: ExitStack) -> Executor:
    """The retrieval server of a run. Raises `UsageError` unless it answers."""
    from evoctx_torch.retrieval.remote import RemoteRetriever
    server = RemoteRetriever(config.common.retriever, config.common.retriever_timeout, seed=config.common.seed)
    stack.callback(server.close)
    server.check_reachable(config.options.top_k)
    return server


def build_generators(config: RunConfig, backend: str, prompts: PromptBook, device: str, stack: ExitStack) -> dict[str, Executor]:
    """The generators of one backend, one a distinct model; roles that share a model share it, and so its batches."""
    sharing: dict[tuple, list[str]] = {}
    for role, settings in config.roles.items():
        if settings.backend == backend:
            place = config.models[role], settings.base_url, settings.api, settings.dtype, settings.context_length
            sharing.setdefault(place, []).append(role)
    generators: dict[str, Executor] = {}
    for roles in sharing.values():
        generators |= dict.fromkeys(roles, build_generator(config, roles, prompts, device, stack))
    return generators


def build_generator(config: RunConfig, roles: list[str], prompts: PromptBook, device: str, stack: ExitStack) -> Executor:
    """The generator that serves these roles."""
    common, settings, name = config.common, config.roles[roles[0]], config.models[roles[0]]
    by_role = Roles(by_role={role: role_settings(config.roles[role]) for role in roles})
    if settings.backend == "openai":
        from evoctx_torch.generation.openai_client import OpenAIGenerator
        server = OpenAIGenerator(name, settings.base_url, by_role, common.seed, api=settings.api, max_in_flight=common.batch_size,
                                 timeout_s=common.request_timeout, context_length=settings.context_length)
        stack.callback(server.close)
        server.check_reachable()
        return server
    from evoctx_torch.generation.hf import load_hf_generator
    generator = load_hf_generator(name, by_role, common.seed, device=device, dtype=settings.dtype, max_batch_tokens=common.max_batch_tokens,
                                  context_length=settings.context_length, canonical=common.deterministic)
    for role in roles:  # a chat template that refuses our messages is refused before anything is written
        family = prompts.of(role)
        generator.tokens.encode(Prompt((Segment("?"),), family.chat, family.system), 1 << 30)
    question = Question("", "?", ())
    for operation in config.method.rehearse(Episode(question, prompts, Trajectory(question, ""), head=config.method.head), config.options):
        if operation.role in roles:
            generator.check(operation)
    return generator


def role_settings(options: ModelOptions) -> RoleSettings:
    """Length and sampling of a role."""
    return RoleSettings(options.max_new_tokens, options.temperature, options.top_p)
