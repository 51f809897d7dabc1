"""Token, health, metrics, and an end that loses nobody's answer."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from serving_cases import Shelf, post, serving, until

from evoctx_torch.cli import main
from evoctx_torch.errors import UsageError
from evoctx_torch.options import typed
from evoctx_torch.serving import app
from evoctx_torch.serving.options import ServeOptions
from evoctx_torch.serving.server import handled, listen, make_server, read_token

ASK = {"queries": ["x"], "topk": 1}


def test_only_the_token_opens_retrieval_and_metrics(monkeypatch):
    compared = []
    digest = app.hmac.compare_digest
    monkeypatch.setattr(app.hmac, "compare_digest", lambda a, b: compared.append((a, b)) or digest(a, b))
    with serving(Shelf(), token="s3cret-token") as url:
        for wrong in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "s3cret-token"}, {"Authorization": "Basic s3cret-token"},
                      {"Authorization": "Bearer s3cret-token1"}, {"Authorization": "Bearer s3cret-toke"}):
            answer = post(url, ASK, **wrong)
            assert answer.status_code == 401 and answer.headers["www-authenticate"] == "Bearer" and "s3cret" not in answer.text
        assert httpx.get(f"{url}/metrics", trust_env=False).status_code == 401
        right = {"Authorization": "Bearer s3cret-token"}
        assert post(url, ASK, **right).status_code == 200
        assert httpx.get(f"{url}/metrics", headers=right, trust_env=False).status_code == 200
        assert httpx.get(f"{url}/health", trust_env=False).status_code == 200
    assert len(compared) == 9, "some token was not compared in constant time"


def test_the_token_comes_from_the_environment_only(monkeypatch):
    monkeypatch.setenv("T", "a-token")
    assert read_token("T") == "a-token" and read_token(None) is None
    for value in ("", " ", "two words", "naïve"):
        monkeypatch.setenv("T", value)
        with pytest.raises(UsageError, match="--token-env T") as error:
            read_token("T")
        assert "naïve" not in str(error.value)


def test_health_says_what_is_served():
    with serving(Shelf(), about={"passages": 20, "kind": "flat"}) as url:
        assert httpx.get(f"{url}/health", trust_env=False).json() == {"status": "ok", "passages": 20, "kind": "flat"}


def test_metrics_count_what_happened():
    shelf = Shelf()
    with serving(shelf, batch_ms=0) as url:
        for body in (ASK, {"queries": ["a", "b"]}, {"queries": "no"}, {"queries": []}):
            post(url, body)
        text = httpx.get(f"{url}/metrics", trust_env=False).text
    samples = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert samples['evoctx_requests_total{status="200"}'] == "3" and samples['evoctx_requests_total{status="422"}'] == samples["evoctx_errors_total"] == "1"
    assert samples["evoctx_queries_total"] == samples["evoctx_batch_queries_sum"] == "3"
    assert samples["evoctx_batch_queries_count"] == str(len(shelf.calls)) and samples["evoctx_request_seconds_count"] == "4"
    buckets = [int(value) for name, value in samples.items() if name.startswith("evoctx_request_seconds_bucket")]
    assert buckets == sorted(buckets) and buckets[-1] == 4
    assert all(re.fullmatch(r'[a-z_]+(\{[a-z]+="[^"]+"\})?', name) for name in samples)


def test_a_fault_of_ours_is_a_json_error_and_not_the_end(monkeypatch):
    with serving(Shelf()) as url:
        with monkeypatch.context() as broken:
            broken.setattr(app, "reply", lambda *_: 1 / 0)
            answer = post(url, ASK)
        assert answer.status_code == 500 and "ZeroDivisionError" in answer.json()["error"]
        assert post(url, ASK).status_code == 200


def test_a_server_that_ends_answers_what_it_has_begun():
    shelf = Shelf()
    shelf.gate.clear()
    with ThreadPoolExecutor(4) as clients:
        with serving(shelf) as url:
            answers = [clients.submit(post, url, ASK)]
            until(lambda: shelf.calls)
            answers += [clients.submit(post, url, ASK) for _ in range(2)]
            until(lambda: "evoctx_queries_waiting 2" in httpx.get(f"{url}/metrics", trust_env=False).text)
            clients.submit(lambda: (until(lambda: refuses(url)), shelf.gate.set()))
        assert [answer.result().status_code for answer in answers] == [200] * 3
    assert refuses(url)


def refuses(url: str) -> bool:
    try:
        httpx.get(f"{url}/health", trust_env=False)
    except httpx.ConnectError:
        return True
    return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_process_with_code_0_after_the_last_answer(number):
    code = """import sys
from serving_cases import Shelf
from evoctx_torch.serving.options import ServeOptions
from evoctx_torch.serving.server import serve
class Telling(Shelf):
    def answer(self, pending):
        print("searching", file=sys.stderr, flush=True)
        return super().answer(pending)
serve(lambda: (Telling(0.5), {"passages": 20}), ServeOptions(port=0))"""
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True,
                               env=os.environ | {"PYTHONPATH": str(Path(__file__).parent)})
    try:
        url = re.search(r"(http://[\d.:]+)/retrieve", process.stderr.readline())[1]
        until(lambda: not refuses(url))
        with ThreadPoolExecutor(1) as clients:
            answer = clients.submit(post, url, ASK)
            assert process.stderr.readline() == "searching\n"
            process.send_signal(number)
            assert answer.result().status_code == 200
        assert process.wait(20) == 0 and "Traceback" not in process.stderr.read()
    finally:
        process.kill()
        process.stderr.close()


def test_a_signal_before_the_first_request_is_not_lost():
    server = make_server(Shelf(), ServeOptions(port=0))
    with handled(server), listen("127.0.0.1", 0) as bound:
        signal.raise_signal(signal.SIGTERM)
        server.run(sockets=[bound])  # would never return
    assert server.should_exit


def test_a_port_that_is_taken_is_refused_before_anything_is_loaded():
    with listen("127.0.0.1", 0) as taken:
        taken.listen()
        with pytest.raises(UsageError, match=r"cannot listen on 127.0.0.1 port .*expected a free port"):
            listen("127.0.0.1", taken.getsockname()[1])


@pytest.mark.parametrize(("arguments", "words"), [
    (["--index", "nowhere"], "nowhere does not exist"), (["--index", "i", "--port", "70000"], "--port is 70000"), (["--index", "i", "--max-topk", "0"], "--max-topk is 0"),
    (["--index", "i", "--batch-ms", "x"], "--batch-ms is 'x'"), ([], "--index"),
])
def test_wrong_calls_end_with_code_2_in_one_line(arguments, words, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert main(["serve", *arguments]) == 2
    said = capsys.readouterr().err
    assert words in said and len(said.splitlines()) == 1


def test_limits_that_contradict_each_other_are_refused():
    with pytest.raises(UsageError, match="--max-waiting is 5, less than --max-queries 4096"):
        typed(ServeOptions, {"max_waiting": "5"})
