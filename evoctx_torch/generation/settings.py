"""How one role's model is asked: the same settings whatever the backend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from evoctx_torch.operations import Generate, Score

MAX_BATCH_TOKENS = 16384  # padded tokens of one model batch, where nothing else is asked for


@dataclass(frozen=True, slots=True)
class RoleSettings:
    """Length and sampling of one role's calls. Temperature 0 is greedy."""

    max_new_tokens: int = 64
    temperature: float = 0.0
    top_p: float = 1.0


@dataclass(frozen=True, slots=True)
class Roles:
    """The settings of every role that one generator serves; a role not named has `default`."""

    default: RoleSettings = RoleSettings()
    by_role: Mapping[str, RoleSettings] = field(default_factory=dict)

    def of(self, operation: Generate | Score) -> RoleSettings:
        return self.by_role.get(operation.role, self.default)

    def max_new_tokens(self, operation: Generate) -> int:
        """The operation's own limit, else its role's."""
        return self.of(operation).max_new_tokens if operation.max_new_tokens is None else operation.max_new_tokens
