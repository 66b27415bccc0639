"""A server that is killed at any moment: what was acknowledged is there, once."""

import http.client
import random
import threading
import time

import pytest

from errata.review.server.database import ReviewDatabase
from errata.review.server.event_log import EventLog
from review_servers import PATIENCE, Client, QuickServer, free_port, made_up_result, verdict

KILLS = 25
REVIEWERS = ("ana", "ben", "cleo")


class Page(threading.Thread):
    """Judges samples one after the other, and sends each verdict again until it is acknowledged."""

    def __init__(self, link, number, stopped):
        super().__init__()
        self.client, self.number, self.stopped = Client(link), number, stopped
        self.acknowledged, self.attempts, self.problems = [], 0, []

    def run(self):
        count = 0
        while not self.stopped.is_set():
            place = (7 * count + self.number) % 60
            event = verdict(place, random.choice(["keep", "accept", "skip"]))
            count += 1
            while event["key"] not in self.acknowledged:
                self.attempts += 1
                try:
                    status, answer = self.client.judge(event)
                except (OSError, http.client.HTTPException):
                    time.sleep(0.005)
                    continue
                if status != 200 or answer["acknowledged"] != [event["key"]]:
                    self.problems.append((status, answer))
                    return
                self.acknowledged.append(event["key"])


def test_no_acknowledged_verdict_is_lost_or_counted_twice(tmp_path, database_address):
    folder = made_up_result(tmp_path / "errata-out")
    server = QuickServer(folder, database_address, REVIEWERS, free_port())
    stopped = threading.Event()
    pages = [Page(server.links[name], number, stopped) for number, name in enumerate(REVIEWERS)]
    chance = random.Random(0)
    for page in pages:
        page.start()
    for _ in range(KILLS):
        before, process = sum(len(page.acknowledged) for page in pages), server.start()
        patience = time.monotonic() + PATIENCE
        while sum(len(page.acknowledged) for page in pages) == before and time.monotonic() < patience:
            time.sleep(0.01)  # on a busy machine a server needs a while
        time.sleep(0.2 * chance.random())
        server.kill(process)
    last = server.start()
    stopped.set()
    for page in pages:
        page.join(PATIENCE)
    server.kill(last)
    server.close()
    sent = [key for page in pages for key in page.acknowledged]
    database = ReviewDatabase(database_address)
    stored = [event.key for event in EventLog(database).events_after(0)]
    database.close()
    assert [page.problems for page in pages] == [[], [], []]
    assert len(stored) == len(set(stored))
    assert set(stored) == set(sent)
    assert len(sent) >= KILLS
    assert sum(page.attempts for page in pages) > len(sent)  # some were sent more than once


@pytest.mark.parametrize("keep_page", [True, False], ids=["sent twice", "sent by two pages"])
def test_one_key_counts_once(tmp_path, database_address, keep_page):
    folder = made_up_result(tmp_path / "errata-out")
    server = QuickServer(folder, database_address, ("ana",), free_port())
    process = server.start()
    client, event = Client(server.links["ana"]), verdict(3)
    patience = time.monotonic() + PATIENCE
    while True:
        try:
            client.state()
            break
        except OSError:
            assert time.monotonic() < patience
            time.sleep(0.05)
    other = client if keep_page else Client(server.links["ana"])
    answers = [client.judge(event), other.judge(event), other.judge(event, event)]
    server.kill(process)
    server.close()
    assert [status for status, _ in answers] == [200, 200, 200]
    database = ReviewDatabase(database_address)
    assert [stored.key for stored in EventLog(database).events_after(0)] == [event["key"]]
    database.close()
