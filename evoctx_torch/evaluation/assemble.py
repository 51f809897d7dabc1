"""Models, index and controller of a run, put together. From here on weights are loaded."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from evoctx_torch.boundary.controller import BoundaryExecutor
from evoctx_torch.engine import Engine
from evoctx_torch.evaluation.config import ModelOptions, RunConfig
from evoctx_torch.evaluation.inputs import Inputs
from evoctx_torch.generation.models import resolve_device
from evoctx_torch.generation.settings import Roles, RoleSettings
from evoctx_torch.operations import Executor
from evoctx_torch.prompts import PromptBook
from evoctx_torch.retrieval.build import make_retriever
from evoctx_torch.retrieval.encoder import Encoder
from evoctx_torch.retrieval.executor import Retriever
from evoctx_torch.transcript import Prompt, Segment

Report = Callable[[str, int, int], None]  # what is being made, how much of it is done, how much there is


def build_engine(config: RunConfig, inputs: Inputs, stack: ExitStack, report: Report, on_tick: Callable[[Engine], None]) -> Engine:
    """The engine of a run. What must be closed at its end is pushed on `stack`."""
    common = config.common
    device = resolve_device(common.device)
    generators = build_generators(config, inputs.prompts, device, stack)
    encoders = {name: Encoder(name, device, canonical=common.deterministic) for name in encoder_names(config, inputs)}
    retriever: Retriever | None = None
    if inputs.corpus is not None:
        retriever = make_retriever(
            inputs.corpus, encoders.get(inputs.encoder), Path(common.index) if common.index else None, common.index_device,
            progress=lambda done, total: report("embedding the corpus", done, total),
        )
    controller: BoundaryExecutor | None = None
    if config.method.decides:
        boundary_encoder = encoders[common.boundary_encoder]
        same = retriever is not None and retriever.encoder is boundary_encoder
        controller = BoundaryExecutor(boundary_encoder, device, common.pool_vectors, known=retriever.known_vector if same else None)
    return Engine(
        config.method, config.options, generator=generators, retriever=retriever, controller=controller, prompts=inputs.prompts,
        batch_size=common.batch_size, on_tick=on_tick,
    )


def encoder_names(config: RunConfig, inputs: Inputs) -> set[str]:
    """The encoders that a run loads, each once."""
    boundary = config.common.boundary_encoder if config.method.decides else None
    return {name for name in (inputs.encoder, boundary) if name is not None}


def build_generators(config: RunConfig, prompts: PromptBook, device: str, stack: ExitStack) -> dict[str, Executor]:
    """One generator a distinct model; roles that share a model share it, and so its batches."""
    sharing: dict[tuple, list[str]] = {}
    for role, settings in config.roles.items():
        place = settings.backend, config.models[role], settings.base_url, settings.api, settings.dtype, settings.context_length
        sharing.setdefault(place, []).append(role)
    generators: dict[str, Executor] = {}
    for roles in sorted(sharing.values(), key=lambda roles: config.roles[roles[0]].backend != "openai"):  # refusals before weights
        generator = build_generator(config, roles, prompts, device, stack)
        generators |= dict.fromkeys(roles, generator)
    return generators


def build_generator(config: RunConfig, roles: list[str], prompts: PromptBook, device: str, stack: ExitStack) -> Executor:
    """The generator that serves these roles."""
    common, settings, name = config.common, config.roles[roles[0]], config.models[roles[0]]
    by_role = Roles(by_role={role: role_settings(config.roles[role]) for role in roles})
    if settings.backend == "openai":
        from evoctx_torch.generation.openai_client import OpenAIGenerator
        server = OpenAIGenerator(name, settings.base_url, by_role, common.seed, api=settings.api, max_in_flight=common.batch_size,
                                 context_length=settings.context_length)
        stack.callback(server.close)
        server.check_reachable()
        return server
    from evoctx_torch.generation.hf import load_hf_generator
    generator = load_hf_generator(name, by_role, common.seed, device=device, dtype=settings.dtype, max_batch_tokens=common.max_batch_tokens,
                                  context_length=settings.context_length, canonical=common.deterministic)
    for role in roles:  # a chat template that refuses our messages is refused before anything is written
        family = prompts.of(role)
        generator.tokens.encode(Prompt((Segment("?"),), family.chat, family.system), 1 << 30)
    return generator


def role_settings(options: ModelOptions) -> RoleSettings:
    """Length and sampling of a role."""
    return RoleSettings(options.max_new_tokens, options.temperature, options.top_p)
