"""`errata review` over HTTP: what is stored, and a clear answer to everything that is wrong."""

import http.client
import json
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import uuid

import numpy as np
import pytest

from errata.core.certifying import certify_recall
from errata.core.guarantees import count_wrong
from errata.core.random_part import random_order, random_positions
from errata.core.recalibration import recalibrate
from errata.errors import StoreError
from errata.finding.found import Found
from errata.review.decisions import Decision
from errata.review.server import DATABASE
from errata.review.server.database import ReviewDatabase
from errata.review.server.decision_files import import_decisions
from errata.review.server.event_log import EventLog
from errata.review.server.review_samples import ReviewSamples
from errata.review.server.review_session import ReviewSession
from errata.review.server.security import AllowedHosts, reviewer_of
from review_servers import CLASSES, PATIENCE, Client, ReviewServer, made_up_result, verdict


@pytest.fixture
def server(folder):
    with ReviewServer(folder) as running:
        yield running


def test_events_are_stored_with_everything_and_folded(folder, database_address):
    with ReviewServer(folder, "--database", database_address) as server:
        ana, ben = server.client(), server.client("ben")
        kept, changed, skipped = verdict(0), verdict(1, "accept"), verdict(2, "skip")
        assert ana.judge(kept, changed) == (200, {"acknowledged": [kept["key"], changed["key"]], "refused": []})
        assert ben.judge(skipped)[0] == 200
        undo = verdict(1, "undo", undoes=changed["key"])
        again = verdict(1, "relabel", new_label="cat")
        assert ana.judge(undo, again)[1]["refused"] == []
        clear = verdict(2, "clear")
        assert ben.judge(clear)[1]["refused"] == []
        state = ana.state()
        assert [(place, word, label) for _, place, word, label, _ in state["own"]] == [
            (0, "keep", ""),
            (1, "relabel", "cat"),
        ]
        assert state["panel"] == {
            "judged": 2,
            "wrong": 1,
            "random": 0,
            "randomWrong": 0,
            "kappa": None,
            "stale": 0,
            "reviewers": {"ana": 2, "ben": 0},
            "statements": ["How many labels are wrong is stated after 10 random samples; 0 count so far."],
            "training": "",
        }
        server.stop()
    database = ReviewDatabase(database_address)
    events = EventLog(database).events_after(0)
    database.close()
    assert [(event.number, event.reviewer, event.sample, event.verdict) for event in events] == [
        (1, "ana", "s0", "keep"),
        (2, "ana", "s1", "accept"),
        (3, "ben", "s2", "skip"),
        (4, "ana", "s1", "undo"),
        (5, "ana", "s1", "relabel"),
        (6, "ben", "s2", "clear"),
    ]
    assert events[0].seconds == 1.5
    assert (events[1].rank, events[1].suggestion, events[1].new_label) == (2, "owl", "owl")
    assert events[3].undoes == changed["key"]
    assert events[0].time.endswith("Z")


def test_ctrl_c_stops_the_server_without_an_error(folder):
    with ReviewServer(folder) as server:
        assert server.client().judge(verdict(0))[0] == 200
        server.stop()
        assert (server.process.returncode, server.process.stdout.read()) == (0, "")


def test_everything_is_there_after_a_restart(folder, database_address):
    options = ("--database", database_address)
    with ReviewServer(folder, *options) as server:
        server.client().judge(verdict(0), verdict(1, "accept"))
        before, queue = server.client().state(), server.client("ben").state()["queue"]
    with ReviewServer(folder, *options, port=server.port) as server:
        after = server.client().state()
        assert (after["own"], after["panel"]) == (before["own"], before["panel"])
        assert server.client("ben").state()["queue"] == queue
    with ReviewServer(folder, *options, reviewers=()) as again:
        assert {name: link.split("/")[-1] for name, link in again.links.items()} == {
            name: link.split("/")[-1] for name, link in server.links.items()
        }
    with ReviewServer(folder, *options, "--new-links", reviewers=("ana",)) as renewed:
        assert renewed.links["ana"].split("/")[-1] != server.links["ana"].split("/")[-1]


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        ({"sample": "nobody"}, "there is no sample 'nobody' in these results"),
        ({"label": "dog"}, "the label of sample 's0' is 'cat' now, not 'dog': the data have changed"),
        ({"verdict": "relabel", "new_label": "Dogg"}, "there is no class 'Dogg'; did you mean 'dog'?"),
        ({"verdict": "accept", "new_label": "owl"}, "the suggestion for sample 's0' is 'dog'"),
        ({"verdict": "relabel"}, "the verdict is relabel, but new_label is empty"),
        ({"verdict": "perhaps"}, "verdict must be one of keep, accept"),
        ({"verdict": "undo", "undoes": "0" * 32}, "only an own verdict can be undone"),
        ({"undoes": "0" * 32}, "undoes must be the key of an event if the verdict is undo"),
        ({"key": "short"}, "key of an event must be 16 to 80 letters"),
        ({"key": 7}, "key of an event must be a text"),
        ({"rank": "first"}, "rank of an event must be a number"),
        ({"seconds": None}, "seconds of an event must be a number"),
        ({"sample": "a\0b"}, "sample of an event must be a text"),
        ({"label": "x" * 20_000}, "label of an event must be a text of at most 10,000 characters"),
        ({"kind": "import"}, "kind must be review or adjudication"),
        ({"kind": "adjudication"}, "the reviewers do not disagree on sample 's0'"),
    ],
)
def test_one_wrong_event_is_refused_and_the_others_are_stored(shared_server, event, reason):
    good = verdict(5)
    status, answer = shared_server.client().judge(verdict(0, **event), good)
    assert status == 200
    assert answer["acknowledged"] == [good["key"]]
    assert answer["refused"][0]["reason"].startswith(reason)


@pytest.fixture(scope="module")
def shared_server(results, tmp_path_factory):
    with ReviewServer(shutil.copytree(results, tmp_path_factory.mktemp("shared") / "errata-out")) as running:
        yield running


def test_another_reviewers_events_cannot_be_undone_or_repeated(shared_server):
    event = verdict(9)
    shared_server.client().judge(event)
    ben = shared_server.client("ben")
    undo = verdict(9, "undo", undoes=event["key"])
    assert ben.judge(undo)[1]["refused"][0]["reason"] == "only an own verdict can be undone"
    assert ben.judge(event)[1]["refused"][0]["reason"] == "another reviewer has sent an event with this key"


def test_wrong_and_missing_tokens_show_nothing(shared_server):
    base = shared_server.links["ana"].rpartition("/")[0]
    for link in (f"{base}/{'x' * 43}", f"{base}/", f"{base}/{'a' * 5000}", f"{base}/%00", f"{base}/ü"):
        client = Client(link.encode("ascii", "ignore").decode())
        for method, path in (("GET", ""), ("GET", "/state"), ("POST", "/verdicts"), ("GET", "/live")):
            status, answer = client.send(method, path, {"events": [verdict(0)]} if method == "POST" else None)
            assert status == 404
            assert answer == {"error": "This link is not valid. Ask for the link that errata review printed for you."}
            client.close()
    opened = Client(f"{base}/{'x' * 43}").send("GET", "", accept="text/html,application/xhtml+xml")
    assert opened == (404, "This link is not valid. Ask for the link that errata review printed for you.")


def test_pages_of_other_sites_cannot_send_or_read(shared_server):
    client, body = shared_server.client(), {"events": [verdict(0)]}
    for headers in (
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": None},
        {"Sec_Fetch_Site": "cross-site"},
    ):
        status, answer = client.send("POST", "/verdicts", body, **headers)
        assert status == 403
        assert "origin" in answer["error"] or "another site" in answer["error"]
        client.close()
    assert client.send("GET", "/state", Origin="http://evil.example")[0] == 403
    client.close()
    status, answer = client.send("GET", "/state", Host="evil.example")
    assert (status, answer["error"]) == (421, "This server does not answer under this host name.")
    client.close()
    form = "text/plain"  # what a form of another site can send
    status, answer = client.send("POST", "/verdicts", body, Content_Type=form)
    assert (status, answer["error"]) == (400, "the request must be JSON (content-type: application/json)")


def test_large_and_malformed_requests(shared_server):
    client = shared_server.client()
    status, answer = client.send("POST", "/verdicts", b"[" + b" " * 10_000_000)
    assert (status, answer["error"]) == (413, "The request is larger than 8 MB.")
    client.close()
    assert _chunked(shared_server, 10_000_000) == 413
    for body, reason in (
        (b"{", "the request is not valid JSON"),
        (b"[" * 100_000, "the request is not valid JSON"),
        (b"\xff", "the request is not valid JSON"),
        (b"[]", "events must be a list of at most 1,000 events"),
        (json.dumps({"events": [1] * 1001}).encode(), "events must be a list of at most 1,000 events"),
    ):
        assert client.send("POST", "/verdicts", body) == (400, {"error": reason})
    assert client.judge("x", None)[1]["refused"] == [{"key": "", "reason": "an event must be an object"}] * 2
    assert client.send("GET", "/samples/60") == (400, {"error": "there are only 60 samples"})
    assert client.send("DELETE", "/state")[0] == 405


def _chunked(server, size):
    """The status for a body without a length."""
    link = server.client().link
    connection = http.client.HTTPConnection(link.netloc, timeout=PATIENCE)
    headers = {"Origin": f"http://{link.netloc}", "Content-Type": "application/json"}
    chunks = (b" " * 100_000 for _ in range(size // 100_000))
    connection.request("POST", f"{link.path}/verdicts", chunks, headers, encode_chunked=True)
    status = connection.getresponse().status
    connection.close()
    return status


def test_every_answer_has_strict_headers(shared_server):
    link = shared_server.client().link
    connection = http.client.HTTPConnection(link.netloc, timeout=PATIENCE)
    for path in (link.path, f"{link.path}/state", "/"):
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-store"
        assert "server" not in answer.headers
    connection.close()


def test_a_full_database_refuses_a_batch_and_takes_it_later(folder):
    database = ReviewDatabase(folder / DATABASE)
    session = ReviewSession(ReviewSamples(folder), database, ["ana"])
    with database.begin() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count = 1")  # that is: as many as there are
    events = [verdict(place, "relabel", new_label="y" * 9_000, new_class=True) for place in range(10)]
    with pytest.raises(StoreError, match=r"nothing was stored in .*review.sqlite: the disk is full"):
        session.record([("ana", events)])
    assert session.state.current == {}
    with database.begin() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count = 100000")
    (reply,), changed = session.record([("ana", events)])
    assert (len(reply.acknowledged), changed) == (10, list(range(10)))
    assert [event.number for event in session.log.events_after(0)] == list(range(1, 11))
    database.close()


def test_samples_beyond_the_list_come_with_their_numbers(folder, monkeypatch):
    monkeypatch.setattr("errata.report.page.MOST_LISTED", 20)
    samples = ReviewSamples(folder)
    assert len(samples.payload["id"]) == 20
    assert "columns" not in samples.details(19)
    details = samples.details(30)
    assert details["columns"] | {"score": None, "pWrong": None} == {
        "id": "s30",
        "label": 0,
        "suggested": 1,
        "score": None,
        "pWrong": None,
        "agree": 0.5,
        "meanLoss": 1.0,
    }
    assert len(details["heights"]) == 4


def test_a_commit_of_unknown_result_is_looked_up(folder, monkeypatch):
    database = ReviewDatabase(folder / DATABASE)
    session = ReviewSession(ReviewSamples(folder), database, ["ana"])
    append = session.log.append

    def lost_answer(*arguments):
        append(*arguments)
        raise StoreError("the connection was lost")

    monkeypatch.setattr(session.log, "append", lost_answer)
    event = verdict(0)
    with pytest.raises(StoreError):
        session.record([("ana", [event])])
    monkeypatch.setattr(session.log, "append", append)
    (reply,), changed = session.record([("ana", [event])])
    assert (reply.acknowledged, changed) == ([event["key"]], [0])
    assert len(session.log.events_after(0)) == 1
    monkeypatch.setattr(session.log, "append", lost_answer)
    with pytest.raises(StoreError):
        session.record([("ana", [verdict(1)])])
    monkeypatch.setattr(session.log, "append", append)
    result, changed = import_decisions(session, [Decision("s2", "owl", "keep")], "ana", uploader="ana")
    assert (result.stored, changed, session.log.uploaders()) == (1, [1, 2], [(3, 3, "ana")])
    database.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_full_disk_refuses_verdicts_and_takes_them_later(folder, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "errata", disk], check=True)
    try:
        with ReviewServer(folder, "--database", disk / "review.sqlite", reviewers=("ana",)) as server:
            client = server.client()
            acknowledged, refused = [], None
            for number in range(3_000):
                event = verdict(number % 60, "relabel", new_label="y" * 2_000, new_class=True)
                status, answer = client.judge(event)
                if status != 200:
                    refused = event
                    assert (status, "the disk is full" in answer["error"]) == (507, True)
                    break
                acknowledged += answer["acknowledged"]
            assert refused is not None
            subprocess.run(["mount", "-o", "remount,size=50m", disk], check=True)
            assert client.judge(refused)[1]["acknowledged"] == [refused["key"]]
            server.kill()
        database = ReviewDatabase(disk / "review.sqlite")
        assert [event.key for event in EventLog(database).events_after(0)] == [*acknowledged, refused["key"]]
        database.close()
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def test_results_deleted_while_the_server_runs(server, folder):
    client = server.client()
    assert client.judge(verdict(0))[0] == 200
    shutil.rmtree(folder)
    status, answer = client.judge(verdict(1))
    assert status == 503
    assert "was deleted or replaced while the server ran, and no new verdict can be stored" in answer["error"]
    assert "click “Download decisions.csv” on the page" in answer["error"]
    assert "s0,cat,keep,,ana," in client.send("GET", "/decisions.csv")[1]
    assert client.send("GET", "")[0] == 200  # the page is in memory
    assert server.process.poll() is None


def test_verdicts_on_changed_data_stay_in_the_log_without_effect_and_are_counted(folder, errata_command):
    with ReviewServer(folder) as server:
        withdrawn = verdict(3)
        server.client().judge(
            verdict(0), verdict(1), verdict(2), withdrawn, verdict(3, "undo", undoes=withdrawn["key"])
        )
        server.stop()
    database = sqlite3.connect(folder / DATABASE)
    database.execute("UPDATE events SET label = 'dog' WHERE number IN (1, 4, 5)")
    database.commit()
    database.close()
    with ReviewServer(folder) as server:
        state = server.client().state()
        assert (state["panel"]["judged"], state["panel"]["stale"]) == (2, 1)
        server.stop()
    sentence = "Left out: 2 verdicts, 1 on samples that are gone and 1 on labels that have changed since."
    with sqlite3.connect(folder / DATABASE) as database:
        database.execute("UPDATE events SET sample = 'gone' WHERE number = 3")
    database.close()
    for command in (("certify", folder), ("review", folder, "--export", "out.csv")):
        code, output, _ = errata_command(*command)
        assert (code, sentence in output) == (0, True), output


def test_a_newer_database_is_refused(folder, database_address, errata_command):
    ReviewDatabase(database_address).close()
    database = ReviewDatabase(database_address)
    with database.begin() as connection:
        connection.exec_driver_sql("UPDATE about SET value = '2' WHERE name = 'format'")
    database.close()
    code, _, message = errata_command("review", folder, "--database", database_address)
    assert code == 2
    assert "was written by a newer version of errata (format 2; this version reads 1): update errata" in message


def test_a_second_server_on_one_database_is_refused(folder, database_address, errata_command):
    with ReviewServer(folder, "--database", database_address):
        code, _, message = errata_command("review", folder, "--database", database_address, "--port", 0)
    assert code == 2
    assert "errata: errata review is already running on " in message
    assert str(database_address).rpartition("/")[2].partition("?")[0] in message


def test_a_port_in_use_is_refused(folder, errata_command):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, _, message = errata_command("review", folder, "--port", port)
    assert (code, message) == (2, f"errata: port {port} of 127.0.0.1 is in use: choose another with --port\n")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--overlap", "200%"], "--overlap must be a share such as 5% or 0.05, from 0% to 100%, not '200%'"),
        (["--reviewer", "a\nb"], "the name of a reviewer must be 1 to 40 letters"),
        (["--reviewer", "ana", "--reviewer", "ana"], "each --reviewer needs a name of their own"),
        (["--host", "0.0.0.0"], "pass --tls-cert and --tls-key, or with a proxy that does TLS its public address"),
        (["--host", "no.such.host.invalid"], "pass --tls-cert and --tls-key"),
        (["--tls-cert", "cert.pem"], "TLS needs both --tls-cert and --tls-key"),
        (["--tls-cert", "cert.pem", "--tls-key", "key.pem"], "cert.pem does not exist"),
        (["--behind-proxy", "labels.example.org"], "the address of the proxy must be like https://labels.example.org"),
        (["--database", "other.sqlite"], "file is not a database"),
        (["--database", "postgresql://nobody@127.0.0.1:1/x"], "cannot be used as the database of a review"),
        (["--database", "postgresql://[x"], "cannot be used as the database of a review"),
        (["--database", "no/such/folder.sqlite"], "there is no folder no/such"),
        (["--import", "missing.csv"], "missing.csv does not exist"),
    ],
)
def test_wrong_starts_are_refused_with_a_sentence(folder, errata_command, tmp_path, options, sentence):
    (tmp_path / "other.sqlite").write_bytes(b"not a database" * 100)
    code, _, message = errata_command("review", folder, *options)
    assert (code, sentence in message) == (2, True), message
    assert "Traceback" not in message


def test_a_folder_without_results_is_refused(errata_command):
    code, _, message = errata_command("review", "nothing")
    assert (code, message) == (2, "errata: nothing has no summary.json: it is not a complete folder of `errata find`\n")


def test_decisions_go_in_and_out_of_the_command(folder, tmp_path, errata_command):
    file = tmp_path / "decisions.csv"
    file.write_text(
        "id,label,decision,new_label,reviewer,time\ns0,cat,relabel,dog,zoe,2026-01-01T00:00:00.000Z\ns1,dog,keep,,,\n"
    )
    out = tmp_path / "out.csv"
    for _ in range(2):
        code, _, message = errata_command("review", folder, "--reviewer", "ana", "--import", file, "--export", out)
        assert (code, message) == (0, "")
    rows = [line.split(",") for line in out.read_text().splitlines()]
    assert rows[0] == ["id", "label", "decision", "new_label", "reviewer", "time", "random"]
    assert rows[1] == ["s0", "cat", "accept", "dog", "zoe", "2026-01-01T00:00:00.000Z", ""]
    assert rows[2][:5] == ["s1", "dog", "keep", "", "ana"]
    assert len(rows) == 3


def test_hidden_verdicts_stay_hidden_after_a_restart_without_options(folder, database_address):
    options = ("--database", database_address)
    with ReviewServer(folder, *options, "--overlap", "100%", "--random-every", 5) as server:
        assert "One in 5 samples is drawn at random; two reviewers judge 100 % of the samples" in server.output
        assert server.client().judge(verdict(0), verdict(1, "accept"))[0] == 200
        server.stop()
    with ReviewServer(folder, *options, reviewers=()) as server:
        assert "One in 5 samples is drawn at random; two reviewers judge 100 % of the samples" in server.output
        assert "Changed" not in server.output
        ana, ben = server.client(), server.client("ben")
        state = ben.state()
        assert [sample["others"] for sample in state["samples"]] == [[], []]
        assert (state["panel"]["judged"], state["panel"]["wrong"]) == (0, 0)
        assert len(ana.send("GET", "/decisions.csv")[1].splitlines()) == 3
        assert len(ben.send("GET", "/decisions.csv")[1].splitlines()) == 1
        refused = ben.judge(verdict(0, "clear"))[1]["refused"]
        assert refused[0]["reason"].startswith("you have no verdict on sample 's0' to clear")
        assert len(ben.judge(verdict(1), verdict(1, "clear"))[1]["acknowledged"]) == 2
        assert len(ana.send("GET", "/decisions.csv")[1].splitlines()) == 3
        ben.judge(verdict(0, "accept"))
        assert "s0,cat,keep,,ana" in ben.send("GET", "/decisions.csv")[1]
        kappa = ben.state()["panel"]["kappa"]
        assert (kappa["samples"], kappa["agreed"], kappa["share_low"], kappa["share_high"]) == (2, 0, 0, 0.842)
        server.stop()
    with ReviewServer(folder, *options, "--overlap", "0%", reviewers=()) as server:
        assert "Changed: --overlap is 0.0, and was 1.0 at the last start." in server.output
        assert "One in 5 samples" in server.output
    database = ReviewDatabase(database_address)
    kinds = [(event.reviewer, event.verdict, event.kind) for event in EventLog(database).events_after(0)]
    database.close()
    assert kinds == [
        *(("ana", "keep", "blind"), ("ana", "accept", "blind")),
        *(("ben", "keep", "blind"), ("ben", "clear", "blind"), ("ben", "accept", "blind")),
    ]


def test_tokens_are_compared_as_a_whole():
    tokens = {"ana": "a" * 43, "ben": "b" * 43}
    assert [reviewer_of(text, tokens) for text in ("a" * 43, "b" * 43, "a" * 42, "", "ä")] == [
        *("ana", "ben"),
        *(None, None, None),
    ]


def test_host_names():
    hosts = AllowedHosts({"localhost:80", "me:80"}, addresses=True)
    allowed = ("localhost:80", "ME:80", "10.0.0.1:80", "[::1]:80")
    refused = ("localhost", "evil.example:80", "10.0.0.1.evil.example", "", "me:81")
    assert [hosts.allow(host) for host in (*allowed, *refused)] == [True] * 4 + [False] * 5


def test_live_updates_reach_another_page(server):
    link = server.client("ben").link
    connection = http.client.HTTPConnection(link.netloc, timeout=PATIENCE)
    connection.request("GET", f"{link.path}/live")
    stream = connection.getresponse()
    assert json.loads(_next(stream))["number"] == 0
    server.client().judge(verdict(0, key=uuid.uuid4().hex))
    changes = json.loads(_next(stream))
    assert changes["samples"] == [{"place": 0, "mine": None, "others": [["ana", "keep", ""]], "adjudicated": None}]
    connection.close()


def judge_the_queue(client, verdicts, wrong=lambda place: place < 20):
    """Judge the first samples of a queue, in its order."""
    judged = []
    while len(judged) < verdicts:
        queue = client.send("POST", "/queue", {})[1]["queue"][: verdicts - len(judged)]
        answer = client.judge(*(verdict(place, "accept" if wrong(place) else "keep") for place in queue))
        assert (answer[0], answer[1]["refused"]) == (200, [])
        judged += queue
    return judged


def test_the_panel_and_the_command_state_the_same(tmp_path, errata_command):
    folder = made_up_result(tmp_path / "errata-out", samples=200)
    with ReviewServer(folder, reviewers=("ana",)) as server:
        stream = http.client.HTTPConnection(server.client().link.netloc, timeout=PATIENCE)
        stream.request("GET", f"{server.client().link.path}/live")
        live = stream.getresponse()
        judged = judge_the_queue(server.client(), 150)
        shown = server.client().state()["panel"]["statements"]
        while json.loads(_next(live)).get("panel", {}).get("statements") != shown:
            pass  # the connection has a time limit
        stream.close()
        code, output, message = errata_command("certify", folder)  # while the server runs
    assert (code, message) == (0, "")
    found = Found.open(folder)
    order = [f"s{row}" for row in random_order(200, found.random_seed)]
    at_random, left, positions = [], list(order), random_positions(200, found.random_seed)
    for position, place in enumerate(judged):
        at_random.append(bool(positions[position]))
        assert not at_random[-1] or f"s{place}" == left[0]
        left.remove(f"s{place}")
    arrays = (found.ranking["p_wrong"], judged, [int(place < 20) for place in judged], at_random)
    count, certificate = count_wrong(*arrays), certify_recall(*arrays, any_time=True)
    between = f"Between {count.low_any_time} and {count.high_any_time} labels are wrong, with 95 % confidence"
    assert between in shown[0]
    assert output.splitlines()[3:] == shown[2:]  # the second and third line rest on the order of the queue
    assert f"150 of 200 samples have a verdict, {sum(at_random)} of them drawn at random: 20 wrong, 130 right" in output
    assert f"{certificate.more_checks} more random checks would certify it" in output
    assert "(errata review --random-every 1 hands out only these)" in output
    estimate = recalibrate(*arrays).sum()
    assert f"(estimate: {round(np.clip(estimate, count.low_any_time, count.high_any_time))})" in output
    code, _, message = errata_command("certify", folder, "--fixed")
    assert (code, "--fixed works only with a file of decisions" in message) == (2, True)


def test_a_named_database_is_certified_and_applied(folder, tmp_path, errata_command, database_address):
    with ReviewServer(folder, "--database", database_address, reviewers=("ana",)) as server:
        judge_the_queue(server.client(), 60, wrong=lambda place: True)
    code, output, _ = errata_command("certify", folder, "--database", database_address)
    assert (code, "60 of 60 samples have a verdict" in output, "60 wrong, 0 right" in output) == (0, True, True)
    code, _, message = errata_command("certify", folder, "--database", database_address, "--decisions", "x.csv")
    assert (code, "not both" in message) == (2, True)
    data = tmp_path / "data.csv"
    data.write_text("id,label\n" + "".join(f"s{place},{CLASSES[place % 3]}\n" for place in range(60)))
    apply = ("apply", data, "--label", "label", "--id", "id", "--found", folder, "--database", database_address)
    code, _, message = errata_command(*apply)
    assert (code, "--database works only with --at-most-wrong" in message) == (2, True)
    code, _, message = errata_command(*apply, "--at-most-wrong", "5%")  # nothing is left to accept unseen
    assert (code, "nothing is left to accept" in message) == (2, True)


def test_suggestions_are_accepted_unseen_from_the_verdicts_of_a_server(tmp_path, errata_command):
    folder = made_up_result(tmp_path / "errata-out", samples=600)
    with ReviewServer(folder, reviewers=("ana",)) as server:
        judge_the_queue(server.client(), 300, wrong=lambda place: True)
    data = tmp_path / "data.csv"
    data.write_text("id,label\n" + "".join(f"s{place},{CLASSES[place % 3]}\n" for place in range(600)))
    command = ("apply", data, "--label", "label", "--id", "id", "--found", folder, "--at-most-wrong", "50%")
    code, output, message = errata_command(*command)
    assert (code, message) == (0, "")
    accepted = int(re.search(r"suggested labels of (\d+) samples", output)[1])
    assert accepted > 0
    changed = (tmp_path / "data.corrected.csv").read_text().splitlines()[1:]
    before = data.read_text().splitlines()[1:]
    assert sum(one != other for one, other in zip(changed, before, strict=True)) == 300 + accepted


def test_drawing_more_with_the_database_of_a_review_needs_a_file(folder, errata_command):
    with ReviewServer(folder) as server:
        judge_the_queue(server.client(), 5)
        server.stop()
    code, _, message = errata_command("certify", folder, "--draw", 5)
    assert code == 2
    assert f"errata review {folder} --export decisions.csv" in message
    assert errata_command("review", folder, "--export", "decisions.csv")[0] == 0
    code, output, _ = errata_command("certify", folder, "--draw", 5, "--decisions", "decisions.csv")
    assert (code, "5 random samples to judge" in output) == (0, True)


def test_a_database_without_tables_is_not_certified(folder, errata_command):
    (folder / DATABASE).touch()
    code, _, message = errata_command("certify", folder)
    assert (code, "is empty: it is not the database of a review" in message) == (2, True)


def _next(stream):
    while True:
        line = stream.readline()
        if line.startswith(b"data: "):
            return line.removeprefix(b"data: ")
