"""Methods of other packages: found by name, loaded when asked for, refused alone."""

from __future__ import annotations

import sys

import pytest
from packages import install

from evoctx_torch.cli import build_parser, main
from evoctx_torch.errors import UsageError
from evoctx_torch.methods import METHODS, get_method

GOOD = """
from evoctx_torch.methods import Method
from evoctx_torch.methods.closed_book import ClosedBookOptions, closed_book
MINE = Method("mine", "answers as closed book does", "a test", ClosedBookOptions, closed_book, retrieves=False)
"""


def test_a_method_of_another_package_is_one_of_the_methods(monkeypatch, tmp_path, capsys):
    install(monkeypatch, tmp_path, "good-pack", {"mine": "good_pack:MINE"}, GOOD)
    assert "mine" in METHODS and list(METHODS)[-1] == "mine" and len(METHODS) == len(METHODS.own) + 1
    assert get_method("mine").summary == "answers as closed book does"
    assert main(["ls"]) == 0
    assert "mine              answers as closed book does (a test; roles: generator)" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        build_parser().parse_args(["eval", "mine", "--help"])
    assert "mine: answers as closed book does. Source: a test." in capsys.readouterr().out


def test_nothing_is_imported_before_it_is_asked_for(monkeypatch, tmp_path, capsys):
    install(monkeypatch, tmp_path, "good-pack", {"mine": "good_pack:MINE"}, GOOD)
    with pytest.raises(SystemExit):
        build_parser().parse_args(["eval", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "mine from the package good-pack" in text and "good_pack" not in sys.modules
    get_method("naive-rag")
    assert "good_pack" not in sys.modules
    get_method("mine")
    assert "good_pack" in sys.modules


@pytest.mark.parametrize(("value", "source", "words"), [
    ("bad_pack:MINE", "import no_such_module", "cannot be loaded: ModuleNotFoundError: No module named 'no_such_module'"),
    ("bad_pack:MINE", "1 / 0", "cannot be loaded: ZeroDivisionError"),
    ("bad_pack:OURS", GOOD, "cannot be loaded: AttributeError"),
    ("bad_pack:Method", GOOD, "expected an evoctx_torch.methods.Method"),
    ("bad_pack:MINE", GOOD.replace('"mine"', '"other"'), "calls itself 'other'"),
])
def test_a_broken_one_is_refused_only_when_asked_for(monkeypatch, tmp_path, capsys, value, source, words):
    install(monkeypatch, tmp_path, "bad-pack", {"mine": value}, source)
    with pytest.raises(UsageError) as error:
        get_method("mine")
    assert words in str(error.value) and "the method 'mine' of bad-pack" in str(error.value)
    assert main(["eval", "mine", "--out", "x"]) == 2
    assert words in capsys.readouterr().err
    assert get_method("evoctx").name == "evoctx"
    assert main(["ls"]) == 0
    assert "mine              cannot be used: the method 'mine' of bad-pack" in capsys.readouterr().out


def test_two_methods_of_one_name_are_refused(monkeypatch, tmp_path):
    install(monkeypatch, tmp_path, "good-pack", {"mine": "good_pack:MINE", "evoctx": "good_pack:MINE"}, GOOD)
    with pytest.raises(UsageError, match="'evoctx' is registered by evoctx_torch and good-pack: rename or uninstall"):
        get_method("evoctx")
    assert get_method("mine").name == "mine"
    install(monkeypatch, tmp_path, "second-pack", {"mine": "second_pack:MINE"}, GOOD)
    with pytest.raises(UsageError, match=r"'mine' is registered by .*-pack and .*-pack"):
        get_method("mine")


def test_an_unknown_name_lists_the_known_ones(monkeypatch, tmp_path):
    install(monkeypatch, tmp_path, "good-pack", {"mine": "good_pack:MINE"}, GOOD)
    with pytest.raises(UsageError, match=r"no method is named 'nope'; expected one of closed-book, naive-rag, .*mine"):
        get_method("nope")
