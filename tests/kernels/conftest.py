"""Helpers of this folder are importable by name, and their assertions explain themselves."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
pytest.register_assert_rewrite("boundary_rules")
