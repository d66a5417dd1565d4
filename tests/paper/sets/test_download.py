"""Fetching against a real server on loopback: whole, resumed, dropped, wrong, missing, endless."""

import hashlib
import itertools
import queue
import socket
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from equipoise.errors import InvalidInputError
from equipoise.paper.sets import DATASETS, DataSet
from equipoise.paper.sets import download as module
from equipoise.paper.sets.dataset import Publication, PublishedFile
from equipoise.paper.sets.download import BLOCK, STEPS, FetchError, Limits, fetch

CONTENT = np.random.default_rng(0).bytes(5 * BLOCK + 123)
SMALL = b"labels"


def public(name, content):
    return PublishedFile(name, len(content), hashlib.sha256(content).hexdigest())


@dataclass
class Behaviour:
    """What the server does, and what it was asked."""

    files: dict[str, bytes]
    ranges: bool = True
    drops: list[int] = field(default_factory=list)  # bytes to send before a connection breaks, one a request
    status: list[int] = field(default_factory=list)  # answers with these first
    content_range: str | None = None
    lengths: bool = True  # else the end of the connection is the end of the file
    bytes_at_once: int | None = None  # then the next ones wait until the client has seen these
    seen: queue.SimpleQueue = field(default_factory=queue.SimpleQueue)
    endless_head: bool = False
    over: threading.Event = field(default_factory=threading.Event)
    asked: list[tuple[str, str | None]] = field(default_factory=list)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        behaviour: Behaviour = self.server.behaviour
        behaviour.seen.put(False)  # an earlier connection is over
        seen = behaviour.seen = queue.SimpleQueue()
        wanted = self.headers.get("Range")
        behaviour.asked.append((self.path, wanted))
        assert self.headers["Accept-Encoding"] == "identity"
        if behaviour.status:
            self.send_error(behaviour.status.pop(0))
            return
        content = behaviour.files.get(self.path.rsplit("/", 1)[-1])
        if content is None:
            self.send_error(404)
            return
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and behaviour.ranges else 0
        if start and start >= len(content):
            self.send_error(416)
            return
        if behaviour.endless_head:
            self.send_response(200)
            self.flush_headers()
            while not behaviour.over.wait(0.01):
                self.wfile.write(b"X")
        partial = start or behaviour.content_range
        self.send_response(206 if partial else 200)
        if partial:
            usual = f"bytes {start}-{len(content) - 1}/{len(content)}"
            self.send_header("Content-Range", behaviour.content_range or usual)
        if behaviour.lengths:
            self.send_header("Content-Length", str(len(content) - start))
        self.close_connection = not behaviour.lengths
        self.end_headers()
        rest = content[start:]
        if behaviour.bytes_at_once is not None:
            for place in range(0, len(rest), behaviour.bytes_at_once):
                self.wfile.write(rest[place : place + behaviour.bytes_at_once])
                if not seen.get():
                    break
            return
        if behaviour.drops:
            self.wfile.write(rest[: behaviour.drops.pop(0)])
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        self.wfile.write(rest)

    def log_message(self, *_):
        pass


class QuietServer(ThreadingHTTPServer):
    def handle_error(self, *_):
        """The client closes early where a file is longer than it should be."""


@contextmanager
def serving(**behaviour):
    server = QuietServer(("127.0.0.1", 0), Handler)
    server.behaviour = Behaviour(**behaviour)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/data/", server.behaviour
    finally:
        server.behaviour.over.set()
        server.behaviour.seen.put(False)
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(autouse=True)
def _tiny_set(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")  # the server is on loopback, whatever the machine's way to the world
    publish(monkeypatch, "http://127.0.0.1:9/")


def publish(monkeypatch, *places):
    """Declare the tiny set as published at these places."""
    published = Publication(places, (public("images.gz", CONTENT), public("labels.gz", SMALL)))
    tiny = DataSet("Tiny", DATASETS["mnist"].read, ("tiny_set",), {}, 10, (), published=published)
    monkeypatch.setitem(DATASETS, "tiny_set", tiny)


BOTH = {"images.gz": CONTENT, "labels.gz": SMALL}


def names(folder):
    return sorted(entry.name for entry in folder.iterdir())


def test_files_arrive_whole_and_progress_is_told(tmp_path):
    seen = []
    with serving(files=BOTH) as (url, server):
        paths = fetch("Tiny-Set", tmp_path / "new" / "folder", mirror=url, progress=lambda *told: seen.append(told))
    assert [path.read_bytes() for path in paths] == [CONTENT, SMALL]
    assert names(tmp_path / "new" / "folder") == ["images.gz", "labels.gz"]
    assert server.asked == [("/data/images.gz", None), ("/data/labels.gz", None)]
    images = [told for told in seen if told[0] == "images.gz"]
    assert images[-1] == ("images.gz", len(CONTENT), len(CONTENT))
    assert [done for _, done, _ in images] == sorted({done for _, done, _ in images})
    assert seen[-1] == ("labels.gz", 6, 6)


def test_what_is_there_and_right_is_not_asked_for(tmp_path):
    (tmp_path / "images.gz").write_bytes(CONTENT)
    with serving(files=BOTH) as (url, server):
        fetch("tiny_set", tmp_path, mirror=url.rstrip("/"))
    assert server.asked == [("/data/labels.gz", None)]


@pytest.mark.parametrize("mine", [b"mine", CONTENT[:-1] + b"\0"])
def test_another_file_of_that_name_is_left_alone(tmp_path, mine):
    (tmp_path / "images.gz").write_bytes(mine)
    with (
        serving(files=BOTH) as (url, server),
        pytest.raises(FetchError, match=r"images.gz is there but is not the pub"),
    ):
        fetch("tiny_set", tmp_path, mirror=url)
    assert (tmp_path / "images.gz").read_bytes() == mine
    assert server.asked == []


def test_a_part_is_continued(tmp_path):
    (tmp_path / "images.gz.part").write_bytes(CONTENT[:1000])
    with serving(files=BOTH) as (url, server):
        fetch("tiny_set", tmp_path, mirror=url)
    assert (tmp_path / "images.gz").read_bytes() == CONTENT
    assert server.asked[0] == ("/data/images.gz", "bytes=1000-")
    assert names(tmp_path) == ["images.gz", "labels.gz"]


def test_a_whole_part_needs_no_server(tmp_path):
    (tmp_path / "images.gz.part").write_bytes(CONTENT)
    (tmp_path / "labels.gz.part").write_bytes(SMALL)
    assert [path.name for path in fetch("tiny_set", tmp_path, mirror="http://127.0.0.1:9/")] == [
        "images.gz",
        "labels.gz",
    ]


def test_dropped_connections_are_resumed_where_they_broke(tmp_path):
    with serving(files=BOTH, drops=[2 * BLOCK, BLOCK + 7]) as (url, server):
        fetch("tiny_set", tmp_path, mirror=url, limits=Limits(attempts=2, pause=0))
    assert (tmp_path / "images.gz").read_bytes() == CONTENT
    starts = [wanted for path, wanted in server.asked if path.endswith("images.gz")]
    assert starts == [None, f"bytes={2 * BLOCK}-", f"bytes={3 * BLOCK + 7}-"]


def test_a_connection_that_always_drops_is_given_up_and_the_part_is_kept(tmp_path):
    with (
        serving(files=BOTH, drops=[50] * 9) as (url, server),
        pytest.raises(
            FetchError, match=r"could not fetch http://127.* \(the connection ended after 150 of 327,803 bytes"
        ),
    ):
        fetch("tiny_set", tmp_path, mirror=url, limits=Limits(attempts=3, pause=0))
    assert len(server.asked) == 3
    assert (tmp_path / "images.gz.part").read_bytes() == CONTENT[:150]
    assert names(tmp_path) == ["images.gz.part"]


def test_a_server_without_ranges_starts_anew(tmp_path):
    with serving(files=BOTH, ranges=False, drops=[2 * BLOCK]) as (url, server):
        fetch("tiny_set", tmp_path, mirror=url, limits=Limits(attempts=2, pause=0))
    assert (tmp_path / "images.gz").read_bytes() == CONTENT
    assert server.asked[1] == ("/data/images.gz", f"bytes={2 * BLOCK}-")


def test_a_part_of_something_else_is_fetched_anew(tmp_path):
    (tmp_path / "images.gz.part").write_bytes(b"x" * 1000)
    with serving(files=BOTH) as (url, server):
        fetch("tiny_set", tmp_path, mirror=url)
    assert (tmp_path / "images.gz").read_bytes() == CONTENT
    assert [wanted for _, wanted in server.asked] == ["bytes=1000-", None, None]


def test_a_part_that_is_too_long_is_fetched_anew(tmp_path):
    (tmp_path / "images.gz.part").write_bytes(CONTENT + b"x")
    with serving(files=BOTH) as (url, server):
        fetch("tiny_set", tmp_path, mirror=url)
    assert (tmp_path / "images.gz").read_bytes() == CONTENT
    assert server.asked[0] == ("/data/images.gz", None)


def test_an_answer_from_another_place_of_the_file_is_not_appended(tmp_path):
    (tmp_path / "images.gz.part").write_bytes(CONTENT[:1000])
    with serving(files=BOTH, content_range=f"bytes 0-{len(CONTENT) - 1}/{len(CONTENT)}") as (url, server):
        fetch("tiny_set", tmp_path, mirror=url, limits=Limits(attempts=2, pause=0))
    assert (tmp_path / "images.gz").read_bytes() == CONTENT
    assert [wanted for _, wanted in server.asked] == ["bytes=1000-", None, None]


def test_a_range_refused_starts_anew(tmp_path):
    (tmp_path / "images.gz.part").write_bytes(CONTENT[:1000])
    with serving(files=BOTH, status=[416]) as (url, server):
        fetch("tiny_set", tmp_path, mirror=url, limits=Limits(attempts=2, pause=0))
    assert [wanted for _, wanted in server.asked] == ["bytes=1000-", None, None]


def test_a_wrong_checksum_leaves_nothing(tmp_path):
    wrong = CONTENT[:-1] + bytes([CONTENT[-1] ^ 1])
    message = r"has the checksum [0-9a-f]{12}…, not the published [0-9a-f]{12}…; the download was removed: give another"
    with serving(files={"images.gz": wrong}) as (url, _), pytest.raises(FetchError, match=message):
        fetch("tiny_set", tmp_path, mirror=url)
    assert names(tmp_path) == []


def test_a_server_that_sends_more_is_cut_off(tmp_path):
    with serving(files={"images.gz": CONTENT + b"x" * 10_000, "labels.gz": SMALL}) as (url, _):
        fetch("tiny_set", tmp_path, mirror=url)
    assert (tmp_path / "images.gz").read_bytes() == CONTENT


def test_a_missing_file_is_not_asked_for_again(tmp_path):
    with serving(files={}) as (url, server), pytest.raises(FetchError) as caught:
        fetch("tiny_set", tmp_path, mirror=url)
    assert str(caught.value) == (
        f"could not fetch {url}images.gz (it answered 404 Not Found); give --mirror URL or put the files "
        f"images.gz, labels.gz into {tmp_path} yourself."
    )
    assert len(server.asked) == 1


def test_a_busy_server_is_asked_again(tmp_path):
    with serving(files=BOTH, status=[503, 429]) as (url, server):
        fetch("tiny_set", tmp_path, mirror=url, limits=Limits(attempts=3, pause=0))
    assert len(server.asked) == 4
    with (
        serving(files=BOTH, status=[503] * 9) as (url, server),
        pytest.raises(FetchError, match="answered 503 Service"),
    ):
        fetch("tiny_set", tmp_path / "other", mirror=url, limits=Limits(attempts=2, pause=0))
    assert len(server.asked) == 2


def test_the_next_place_is_tried(tmp_path, monkeypatch):
    with serving(files={}) as (first, refused), serving(files=BOTH) as (second, server):
        publish(monkeypatch, first, second)
        fetch("tiny_set", tmp_path, limits=Limits(pause=0))
    assert (len(refused.asked), len(server.asked)) == (2, 2)
    assert (tmp_path / "images.gz").read_bytes() == CONTENT


def test_offline_is_one_clear_sentence(tmp_path):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/"
    with pytest.raises(FetchError) as caught:
        fetch("tiny_set", tmp_path, mirror=url, limits=Limits(attempts=2, pause=0))
    assert str(caught.value) == (
        f"could not fetch {url}images.gz (Connection refused); give --mirror URL or put the files images.gz, labels.gz "
        f"into {tmp_path} yourself."
    )


def test_a_name_that_does_not_resolve_is_one_clear_sentence(tmp_path):
    with pytest.raises(
        FetchError, match=r"could not fetch http://nowhere.invalid/images.gz \(.+\); give --mirror URL or"
    ):
        fetch("tiny_set", tmp_path, mirror="http://nowhere.invalid/", limits=Limits(attempts=1))


def test_pauses_double(tmp_path, monkeypatch):
    slept = []
    monkeypatch.setattr(module.time, "sleep", slept.append)
    with serving(files=BOTH, status=[500] * 9) as (url, _), pytest.raises(FetchError, match="answered 500"):
        fetch("tiny_set", tmp_path, mirror=url, limits=Limits(attempts=4, pause=1.5))
    assert slept == [1.5, 3.0, 6.0]


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FetchError, match=r"file cannot be written: .*; give another folder"):
        fetch("tiny_set", tmp_path / "file", mirror="http://127.0.0.1:9/")
    (tmp_path / "images.gz.part").mkdir()  # what a folder without write access does to anyone but root
    with (
        serving(files=BOTH) as (url, _),
        pytest.raises(FetchError, match=r"cannot be written: .*; give another folder"),
    ):
        fetch("tiny_set", tmp_path, mirror=url)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("celeba", {}, "'celeba' cannot be fetched, only cifar10, cifar100, fashion_mnist, mnist, tiny_set"),
        ("tiny_set", {"mirror": "file:///etc"}, "mirror must be an http or https address, got 'file:///etc'"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path, name, options, message):
    with pytest.raises(InvalidInputError, match=message):
        fetch(name, tmp_path / "new", **options)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ({"attempts": 0}, "attempts must be 1 or more, got 0"),
        ({"pause": -1.0}, "pause must be 0 or more, got -1.0"),
        ({"lowest_rate": float("nan")}, "lowest_rate must be 0 or more, got nan"),
        ({"answer_seconds": 0}, "answer_seconds must be 0.001 or more"),
        ({"total_seconds": -1}, "total_seconds must be 0 or more"),
    ],
)
def test_limits_that_make_no_sense_are_refused(limit, message):
    with pytest.raises(InvalidInputError, match=message):
        Limits(**limit)


SHORTER = {"images.gz": CONTENT[: 3 * BLOCK], "labels.gz": SMALL}


def test_a_mirror_shorter_than_published_is_refused_by_its_first_answer(tmp_path):
    message = (
        r"could not fetch http://127.*images.gz \(it has 196,608 bytes, the published file 327,803\); give --mirror"
    )
    with serving(files=SHORTER) as (url, server), pytest.raises(FetchError, match=message):
        fetch("tiny_set", tmp_path, mirror=url, limits=Limits(pause=0))
    assert len(server.asked) == 1


def test_the_rest_of_a_shorter_file_is_refused_by_its_range(tmp_path):
    (tmp_path / "images.gz.part").write_bytes(CONTENT[:1000])
    with serving(files=SHORTER) as (url, server), pytest.raises(FetchError, match="it has 196,608 bytes"):
        fetch("tiny_set", tmp_path, mirror=url, limits=Limits(pause=0))
    assert len(server.asked) == 1
    assert (tmp_path / "images.gz.part").read_bytes() == CONTENT[:1000]


@pytest.mark.parametrize("ranges", [True, False])
def test_a_shorter_mirror_that_does_not_tell_its_length_is_given_up(tmp_path, ranges):
    """With ranges the rest is answered with 416, again and again; without, the whole file comes again and again."""
    with (
        serving(files=SHORTER, lengths=False, ranges=ranges) as (url, server),
        pytest.raises(FetchError, match=r"could not fetch .* \((the connection ended after 196,608|it answered 416)"),
    ):
        fetch("tiny_set", tmp_path, mirror=url, limits=Limits(attempts=3, pause=0))
    assert len(server.asked) <= 4


def test_a_server_that_always_refuses_ranges_is_given_up(tmp_path):
    (tmp_path / "images.gz.part").write_bytes(CONTENT[:1000])
    with serving(files=BOTH, status=[416] * 99) as (url, server), pytest.raises(FetchError, match="it answered 416"):
        fetch("tiny_set", tmp_path, mirror=url, limits=Limits(attempts=3, pause=0))
    assert len(server.asked) == 3


@pytest.mark.parametrize(
    "given", [f"bytes 7-{len(CONTENT) - 1}/{len(CONTENT)}", "bytes */9", "none", "bytes 0-9/8" * 99]
)
def test_a_server_that_always_answers_another_range_is_given_up(tmp_path, given):
    with (
        serving(files=BOTH, content_range=given) as (url, server),
        pytest.raises(FetchError, match=r"could not fetch .*images.gz \(it answered with the bytes"),
    ):
        fetch("tiny_set", tmp_path, mirror=url, limits=Limits(attempts=3, pause=0))
    assert len(server.asked) == 3
    assert names(tmp_path) == []


def test_a_range_of_a_file_of_unknown_length_is_continued(tmp_path):
    (tmp_path / "images.gz.part").write_bytes(CONTENT[:1000])
    (tmp_path / "labels.gz.part").write_bytes(SMALL)
    with serving(files=BOTH, content_range=f"bytes 1000-{len(CONTENT) - 1}/*") as (url, server):
        fetch("tiny_set", tmp_path, mirror=url, limits=Limits(attempts=1))
    assert len(server.asked) == 1


def test_connections_are_bounded_however_often_they_drop(tmp_path):
    """Each gets as far as it must for another round of attempts, the next ones nowhere."""
    step = len(CONTENT) // STEPS + 1
    with serving(files=BOTH, drops=[step, 0] * 99) as (url, server):
        fetch("tiny_set", tmp_path, mirror=url, limits=Limits(attempts=3, pause=0))
    assert len([path for path, _ in server.asked if path.endswith("images.gz")]) <= 2 * STEPS
    with serving(files=BOTH, drops=[step // 2] * 99) as (url, server), pytest.raises(FetchError, match="ended after"):
        fetch("tiny_set", tmp_path / "new", mirror=url, limits=Limits(attempts=1, pause=0))
    assert len(server.asked) == 1


def test_bytes_are_on_disk_as_they_come(tmp_path):
    sizes = []

    def seen(name, done, _):
        sizes.append((done, (tmp_path / f"{name}.part").stat().st_size))
        server.seen.put(True)

    with serving(files=BOTH, bytes_at_once=BLOCK // 2) as (url, server):
        fetch("tiny_set", tmp_path, mirror=url, progress=seen)
    assert len(sizes) >= 11
    assert all(done == on_disk for done, on_disk in sizes)


def ticking(step):
    """A clock that is ``step`` seconds further whenever somebody looks."""
    return itertools.count(step=step).__next__


def test_a_connection_that_drips_is_dropped_and_resumed(tmp_path):
    with (
        serving(files=BOTH, bytes_at_once=1) as (url, server),
        pytest.raises(FetchError, match=r"images.gz \(it sends 0 bytes per second\)"),
    ):
        fetch(
            "tiny_set",
            tmp_path,
            mirror=url,
            progress=lambda *_: server.seen.put(True),
            limits=Limits(attempts=3, pause=0, lowest_rate=100),
            clock=ticking(10),
        )
    starts = [0 if wanted is None else int(wanted[6:-1]) for _, wanted in server.asked]
    assert len(starts) == 3
    assert starts == sorted(set(starts))
    assert 0 < (tmp_path / "images.gz.part").stat().st_size < 20


def test_the_whole_takes_no_longer_than_its_limit(tmp_path):
    with (
        serving(files=BOTH, bytes_at_once=BLOCK) as (url, server),
        pytest.raises(
            FetchError, match=r"images.gz did not arrive within 1,000 seconds; what has arrived is kept: run the same"
        ),
    ):
        fetch(
            "tiny_set",
            tmp_path,
            mirror=url,
            progress=lambda *_: server.seen.put(True),
            limits=Limits(total_seconds=1000, lowest_rate=0),
            clock=ticking(300),
        )
    assert len(server.asked) == 1
    assert 0 < (tmp_path / "images.gz.part").stat().st_size < len(CONTENT)


def test_a_head_that_never_ends_is_given_up(tmp_path):
    with (
        serving(files=BOTH, endless_head=True) as (url, server),
        pytest.raises(FetchError, match=r"images.gz \((no answer within 0.3 seconds|timed out)"),
    ):
        fetch("tiny_set", tmp_path, mirror=url, limits=Limits(attempts=2, pause=0, answer_seconds=0.3))
    assert len(server.asked) == 2


def test_the_published_files_are_written_down_in_full():
    published = [DATASETS[name].published for name in ("mnist", "fashion_mnist", "cifar10")]
    for known in published:
        assert all(place.startswith("http") and place.endswith("/") for place in known.places)
        for file in known.files:
            assert len(bytes.fromhex(file.sha256)) == 32
            assert file.size > 4_000
    assert len({file.sha256 for known in published for file in known.files}) == 9
