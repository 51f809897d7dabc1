"""The file of a memory: whole transactions, refusals, locks, numbers."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import numpy as np
import pytest
from memory_cases import ID, memory, recall, remember

from evoctx_torch.errors import UsageError
from evoctx_torch.memory.opening import open_store
from evoctx_torch.memory.records import EncoderId, Offer
from evoctx_torch.memory.statistics import mean_pairwise_cosine, statistics
from evoctx_torch.memory.store import ThoughtStore


def filled(path):
    m = memory(path, run="r")
    offers = [("the mayor means tobin", "p0"), ("fish was sold", "p1"), ("lorn and quell", "thought-1"), ("fish was sold", "p4")]
    for wave, (text, source) in enumerate(offers):
        m.begin_wave(wave, ["q"])
        recall(m, "x", number=4 * wave)
        remember(m, text, [source], number=4 * wave + 1)
        m.end_wave()
    m.store.close()
    return path


def test_what_is_stored_is_read_again_with_its_bits(tmp_path):
    path = filled(tmp_path / "m")
    with closing(ThoughtStore(path, ID)) as store:
        assert [(t.id, t.text, t.level, t.sources, t.provenance, t.wave) for t in store.thoughts] == [
            (1, "the mayor means tobin", 2.0, ("p0",), ("p0",), 0), (2, "fish was sold", 2.0, ("p1",), ("p1",), 1),
            (3, "lorn and quell", 3.0, (1,), ("p0",), 2)]
        assert np.linalg.norm(store.vectors(store.thoughts), axis=1) == pytest.approx(1)
        assert store.vector(2).tobytes() == memory().encoder.encode_passages(["fish was sold"]).numpy().tobytes()
        assert store.digest(2) != store.digest(3) and store.digest(2) == ThoughtStore(path).digest(2)


@pytest.mark.parametrize(("content", "words"), [
    (b"not a database, but long enough to look at" * 30, "no thought memory"), (b"{}\n", "no thought memory")])
def test_a_file_that_is_no_memory_is_refused_and_kept(tmp_path, content, words):
    (tmp_path / "m").write_bytes(content)
    with pytest.raises(UsageError, match=words):
        ThoughtStore(tmp_path / "m", ID)
    assert (tmp_path / "m").read_bytes() == content


def test_another_database_another_format_a_folder_and_another_encoder_are_refused(tmp_path):
    with closing(sqlite3.connect(tmp_path / "other")) as db:
        db.execute("CREATE TABLE thoughts (id INTEGER)")
    for path, words in ((tmp_path / "other", "other is no thought memory"), (tmp_path, "is a folder, no thought memory; .*memory.sqlite")):
        with pytest.raises(UsageError, match=words):
            ThoughtStore(path, ID)
    path = filled(tmp_path / "m")
    with pytest.raises(UsageError, match=rf"another encoder, .* \(hash-4096, digest {ID.digest}; this run has e5, abcdefghij\)"):
        ThoughtStore(path, EncoderId("e5", "abcdefghij"))
    with closing(sqlite3.connect(path)) as db:
        db.execute("DELETE FROM thoughts WHERE id = 2")
        db.commit()
    with pytest.raises(UsageError, match="damaged"):
        ThoughtStore(path, ID)
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 9")
    with pytest.raises(UsageError, match="has format 9; expected 1"):
        ThoughtStore(path, ID)


def test_a_torn_file_is_refused(tmp_path):
    path = filled(tmp_path / "m")
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(UsageError, match="damaged"):
        ThoughtStore(path, ID)


def test_an_empty_file_is_one_whose_making_was_killed(tmp_path):
    (tmp_path / "m").touch()
    with closing(ThoughtStore(tmp_path / "m", ID)) as store:
        assert not store.thoughts and not store.made
        store.create()
    assert ThoughtStore(tmp_path / "m").encoder == ID


def test_nothing_is_made_before_it_is_needed(tmp_path):
    with open_store(tmp_path / "m", ID) as store:
        assert not store.thoughts
    assert list(tmp_path.iterdir()) == []


def test_a_second_writer_is_refused_and_a_reader_is_not(tmp_path):
    path = filled(tmp_path / "m")
    (tmp_path / "link").symlink_to(path)
    with open_store(path, ID):
        for name in ("m", "link"):
            with pytest.raises(UsageError, match="another run is using the memory"):
                with open_store(tmp_path / name, ID):
                    pass
        with open_store(path, ID, shared=True) as store:
            assert len(store.thoughts) == 3
    with open_store(path, ID) as store:
        assert len(store.thoughts) == 3
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link", "m"]


def test_statistics_count_levels_likeness_and_rejections(tmp_path):
    found = statistics(ThoughtStore(filled(tmp_path / "m")))
    assert found["thoughts"] == 3 and found["offered"] == 4 and found["rejected"] == {"redundant": 1}
    assert found["thoughts_by_level"] == {"2 to below 3": 2, "3 to below 4": 1} and found["mean_level"] == pytest.approx(7 / 3)
    assert found["passages_under_them"] == 2 and found["runs"] == 1 and found["waiting_for_the_end_of_a_wave"] == 0
    assert statistics(ThoughtStore(None))["mean_pairwise_cosine"] is None


def test_the_mean_pairwise_cosine_is_that_of_all_pairs():
    vectors = np.random.default_rng(0).standard_normal((7, 5)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    pairs = [float(vectors[i].astype(np.float64) @ vectors[j].astype(np.float64)) for i in range(7) for j in range(i)]
    assert mean_pairwise_cosine(vectors) == pytest.approx(np.mean(pairs), abs=1e-9)
    assert mean_pairwise_cosine(vectors[:1]) is None


def test_a_disk_that_is_full_is_said_in_one_line_and_nothing_is_half_written(tmp_path):
    with closing(ThoughtStore(tmp_path / "m", EncoderId("e", "d"))) as store:
        store.create()
        store._db.execute("PRAGMA max_page_count = 1")
        with pytest.raises(UsageError, match=r"cannot be written \(.*full"):
            store.offer("run", [Offer("q", 0, "x" * 100_000, ("p",), 0.85)])
        store._db.execute("PRAGMA max_page_count = 100000")
        assert store.pending("run") == []
