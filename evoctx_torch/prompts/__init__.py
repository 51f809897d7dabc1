"""Prompt templates: Jinja2 files in two families, `chat` and `completion`, and the user's own folder before them."""

from evoctx_torch.prompts.family import FAMILIES, Family, PromptBook

__all__ = ["FAMILIES", "Family", "PromptBook"]
