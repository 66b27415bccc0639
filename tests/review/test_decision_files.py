"""decisions.csv into a running review: older rows and rows in the name of others change nothing."""

import pytest

from errata.review.server.database import ReviewDatabase
from errata.review.server.event_log import EventLog
from errata.review.server.events import utc_time
from review_servers import ReviewServer, verdict

HEADER = "id,label,decision,new_label,reviewer,time\n"


def download(client):
    status, text = client.send("GET", "/decisions.csv")
    assert status == 200
    return text


def upload(client, text):
    status, answer = client.send("POST", "/decisions.csv", text.encode(), Content_Type="text/csv")
    assert status == 200, answer
    return answer["message"]


def rows_of(text):
    """(id, decision, new label, reviewer) of each row."""
    cells = [line.split(",") for line in text.splitlines()[1:]]
    return [(row[0], row[2], row[3], row[4]) for row in cells]


def test_an_older_file_changes_no_newer_verdict(folder, database_address, tmp_path, errata_command):
    with ReviewServer(folder, "--database", database_address) as server:
        ana, ben = server.client(), server.client("ben")
        ben.judge(verdict(0), verdict(1), verdict(2))
        old = tmp_path / "old.csv"
        old.write_text(download(ben))
        ben.judge(verdict(0, "accept"), verdict(1, "clear"))
        now = rows_of(download(ben))
        assert now == [("s0", "accept", "dog", "ben"), ("s2", "keep", "", "ben")]
        upload(ana, old.read_text())
        assert rows_of(download(ana)) == now
        message = upload(ben, old.read_text())
        assert message == (
            "Loaded 0 decisions. Ignored: 1 known already; 2 not newer than the verdict or the clear here."
        )
        assert rows_of(download(ben)) == now
        server.stop()
    start = ("review", folder, "--database", database_address, "--reviewer", "ana", "--reviewer", "ben")
    code, output, _ = errata_command(*start, "--import", old, "--export", tmp_path / "out.csv")
    assert (code, "2 not newer than the verdict or the clear here" in output) == (0, True)
    assert rows_of((tmp_path / "out.csv").read_text()) == now


def test_a_newer_row_replaces_a_verdict_and_is_named(folder):
    with ReviewServer(folder) as server:
        ana = server.client()
        assert upload(ana, f"{HEADER}s0,cat,keep,,ana,2026-01-01T10:00:00Z\n") == "Loaded 1 decision."
        later = f"{HEADER}s0,cat,skip,,ana,2026-01-01T09:00:00Z\ns0,cat,relabel,dog,ana,2026-01-01 10:30+01:00\n"
        assert upload(ana, later).startswith("Loaded 0 decisions. Ignored: 2 not newer")
        later = f"{HEADER}s0,cat,relabel,dog,ana,2026-01-01T12:00+01:00\ns0,cat,relabel,owl,,2026-01-01T11:30\n"
        assert upload(ana, later) == (
            "Loaded 1 decision. Replaced 1 older verdict: sample s0 of ana (keep, now relabel owl). "
            "Ignored: 1 not newer than the verdict or the clear here."
        )
        assert rows_of(download(ana)) == [("s0", "relabel", "owl", "ana")]


@pytest.mark.parametrize("time", ["", "yesterday"])
def test_a_row_without_a_time_adds_a_verdict_but_replaces_none(folder, time):
    with ReviewServer(folder) as server:
        ana = server.client()
        assert upload(ana, f"{HEADER}s0,cat,keep,,,{time}\n") == "Loaded 1 decision."
        assert "1 not newer" in upload(ana, f"{HEADER}s0,cat,skip,,,{time}\n")
        assert rows_of(download(ana)) == [("s0", "keep", "", "ana")]


def test_a_link_takes_no_verdicts_in_the_name_of_others(folder, database_address, tmp_path, errata_command):
    rows = f"{HEADER}s0,cat,keep,,ben,2026-01-01T00:00:00Z\ns1,dog,keep,,ana,\ns2,owl,keep,,,\ns3,cat,skip,,zoe,\n"
    with ReviewServer(folder, "--database", database_address) as server:
        message = upload(server.client(), rows)
        assert message.startswith("Loaded 2 decisions. Refused: 2 rows of 'ben' and 'zoe'. A link takes only its ")
        assert message.endswith("errata review --import.")
        assert rows_of(download(server.client())) == [("s1", "keep", "", "ana"), ("s2", "keep", "", "ana")]
        server.stop()
    file = tmp_path / "decisions.csv"
    file.write_text(rows)
    start = ("review", folder, "--database", database_address, "--reviewer", "ana")
    code, output, _ = errata_command(*start, "--import", file, "--export", tmp_path / "out.csv")
    assert (code, "Loaded 2 decisions. Ignored: 2 known already." in output) == (0, True)
    names = [name for *_, name in rows_of((tmp_path / "out.csv").read_text())]
    assert names == ["ben", "ana", "ana", "zoe"]
    database = ReviewDatabase(database_address)
    (first, last, who), (third, fourth, operator) = EventLog(database).uploaders()
    database.close()
    assert (first, last, who, third, fourth) == (1, 2, "ana", 3, 4)
    assert operator.startswith("command line: ")


def test_times_of_files():
    assert utc_time("2026-01-31T12:00:00.123456Z") == "2026-01-31T12:00:00.123Z"
    assert utc_time(" 2026-01-31 12:00 ") == "2026-01-31T12:00:00.000Z"
    assert utc_time("2026-01-31T12:00+02:00") == "2026-01-31T10:00:00.000Z"
    assert utc_time("9999-01-01T00:00:00Z") < "9999"
    assert [utc_time(text) for text in ("", "noon", "31/01/2026 12:00", "0001-01-01T00:00+10:00")] == [""] * 4
