"""The contextualizer's template is checked before a run that asks the contextualizer, and in no other."""

from __future__ import annotations

import pytest

from evoctx_torch.errors import UsageError
from evoctx_torch.evaluation.inputs import check_inputs


def test_a_broken_contextualizer_template_is_refused_where_it_is_used(tmp_path, scripted, configure):
    scripted()
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "contextualize.j2").write_text("{{ nothing }} {{ question }}")
    (folder / "answer.j2").write_text("Answer: {{ question }}")
    check_inputs(configure("naive-rag", prompts=str(folder)))
    for method in ("naive-rag", "search-r1"):
        with pytest.raises(UsageError, match=r"contextualize\.j2: UndefinedError"):
            check_inputs(configure(method, prompts=str(folder), contextualize="true"))
