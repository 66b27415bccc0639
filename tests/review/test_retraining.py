"""`errata review --retrain`: a real training beside a running review."""

import time

import numpy as np
import pandas as pd
import pytest
from playwright.sync_api import expect

import errata
from errata.finding.found import Found
from errata.review.server.review_session import RETRAINED
from review_servers import PATIENCE, ReviewServer


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Two clusters with wrong labels, and the results of `errata find`."""
    folder, rng = tmp_path_factory.mktemp("retrain"), np.random.default_rng(0)
    kinds = np.arange(150) % 2
    given = np.where(np.arange(150) < 12, 1 - kinds, kinds)
    frame = pd.DataFrame({"x": rng.normal(size=150) + 3 * kinds, "y": rng.normal(size=150)})
    frame.assign(kind=np.array(["ant", "bee"])[given]).to_csv(folder / "data.csv", index=False)
    errata.find(folder / "data.csv", "kind", model="boosting", out=folder / "errata-out")
    return folder


def judge(client, places, ranking):
    """Verdicts on places of the ranking: rows 0 to 11 of the data are wrong."""
    for place in places:
        row = ranking.iloc[place]
        wrong = int(row["id"]) < 12
        other = "ant" if row["label"] == "bee" else "bee"
        event = {"key": f"key-of-place-{place:08}", "sample": str(row["id"]), "label": row["label"], "rank": place + 1}
        event |= {"suggestion": row["suggested"], "verdict": "relabel" if wrong else "keep"}
        if wrong:
            event |= {"new_label": other, "verdict": "accept" if other == row["suggested"] else "relabel"}
        status, answer = client.judge({**event, "seconds": 1.0})
        assert (status, answer["refused"]) == (200, [])


def finished(client):
    """What the panel says at the end of a training; the server answers all the while."""
    patience = time.monotonic() + 5 * PATIENCE
    while (message := client.state()["panel"]["training"]).startswith("training again on"):
        assert time.monotonic() < patience, message
        time.sleep(0.1)
    return message


def test_the_rest_is_ranked_by_a_model_with_the_verified_labels(trained, opened_page):
    folder = trained / "errata-out"
    ranking = Found.open(folder).ranking
    with ReviewServer(folder, "--retrain") as server:
        ana, ben = server.client("ana"), server.client("ben")
        status, answer = ben.send("POST", "/retrain", {})
        assert (status, "only the first reviewer" in answer["error"]) == (400, True)
        assert ana.send("POST", "/retrain", {}) == (
            400,
            {"error": "no label is verified yet: judge some samples first"},
        )
        judge(ben, range(8), ranking)
        page = opened_page(server.links["ana"])
        page.locator("#retrain").click()
        expect(page.locator("#panel")).to_contain_text("training again on 8 verified labels")
        assert "running already" in ana.send("POST", "/retrain", {})[1]["error"]
        judge(ana, range(8, 14), ranking)  # while it runs
        assert finished(ana) == "the remaining samples are ranked by a model with 8 verified labels"
        expect(page.locator("#panel")).to_contain_text("ranked by a model with 8 verified labels")
        expect(opened_page(server.links["ben"]).locator("#retrain")).to_be_hidden()
        assert ana.state()["panel"]["judged"] == 14
        server.kill()
    table = pd.read_parquet(folder / RETRAINED).set_index("id")
    assert table["verified"].sum() == 8
    assert set(table.index) == set(ranking["id"].map(str))
    oracle = pd.read_csv(trained / "data.csv")
    for id_ in ranking["id"].head(8):
        oracle.loc[id_, "kind"] = ("bee", "ant")[id_ % 2 == 0]
    again = errata.find(oracle, "kind", model="boosting").ranking.set_index("id")["p_wrong"]
    np.testing.assert_allclose(table["p_wrong"], again.loc[table.index.astype(int)], rtol=1e-6)
    with ReviewServer(folder, "--retrain") as server:  # after the kill
        ana = server.client("ana")
        assert ana.state()["panel"]["judged"] == 14
        (trained / "data.csv").rename(trained / "moved.csv")
        ana.send("POST", "/retrain", {})
        message = finished(ana)
        assert message.startswith("training again failed, the ranking stays as it is: the data were read from")
        assert ana.state()["panel"]["judged"] == 14
    command_output = ReviewServer(folder, "--retrain").output
    assert "--retrain needs the data that were ranked" in command_output
    (trained / "moved.csv").rename(trained / "data.csv")
    with ReviewServer(folder) as server:
        assert server.client("ana").send("POST", "/retrain", {})[0] == 400


@pytest.fixture
def opened_page(chromium):
    contexts = []

    def open_link(link):
        contexts.append(chromium.new_context())
        page = contexts[-1].new_page()
        page.goto(link)
        return page

    yield open_link
    for context in contexts:
        context.close()
