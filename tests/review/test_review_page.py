"""The page of `errata review` in Chromium: several reviewers, lost connections, sizes and colours."""

import csv
import io
import time

import numpy as np
import pytest
from playwright.sync_api import expect

from errata.readers import open_data
from review_servers import PATIENCE, ReviewServer, made_up_result, verdict

HOSTILE = ("<script>document.title='owned'</script>", '"><img src=x onerror="document.title=1">', "</script>a,b\n'c'")


@pytest.fixture
def served(tmp_path):
    """Start a server on a made-up result."""
    servers = []

    def start(*options, **settings):
        folder = tmp_path / "errata-out"
        if not folder.exists():
            made_up_result(
                folder, **{name: settings.pop(name) for name in ("samples", "classes", "data") if name in settings}
            )
        servers.append(ReviewServer(folder, *options, **settings))
        assert servers[-1].links, servers[-1].output
        return servers[-1]

    yield start
    for server in servers:
        server.__exit__()


@pytest.fixture
def opened(chromium):
    """Open a link in a browser of its own; errors in the script and requests to other hosts fail the test."""
    contexts, errors, requests = [], [], []

    def open_link(link, context=None, width=1280, height=900, scheme="light"):
        if context is None:
            context = chromium.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
            context.set_default_timeout(1_000 * PATIENCE)
            contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text) if "Content Security" in message.text else None)
        page.on("request", lambda request: requests.append(request.url))
        page.goto(link)
        expect(page.locator("#connection")).to_have_text("all verdicts stored")
        return page

    yield open_link
    for context in contexts:
        context.close()
    assert errors == []
    assert [url for url in requests if not url.startswith(("http://127.0.0.1:", "data:", "blob:"))] == []


def press(page, *keys):
    for key in keys:
        page.keyboard.press(key)


def until(page, expression):
    """Wait for an expression. The content security policy forbids `wait_for_function`."""
    patience = time.monotonic() + PATIENCE
    while not page.evaluate(expression):
        assert time.monotonic() < patience, f"{expression} is still false"
        page.wait_for_timeout(50)


def box_of(page, selector):
    """Where an element is. `bounding_box` takes two steps, between which a live update may draw the element anew."""
    return page.evaluate("selector => document.querySelector(selector).getBoundingClientRect().toJSON()", selector)


def queue_of(page):
    return page.evaluate("queue")


def shown_panel(page):
    return page.locator("#panel")


def stored(page):
    expect(page.locator("#connection")).to_have_text("all verdicts stored")


def decisions_of(client):
    status, text = client.send("GET", "/decisions.csv")
    assert status == 200
    return list(csv.DictReader(io.StringIO(text)))


def words_of(client):
    return sorted(row["decision"] for row in decisions_of(client))


def test_two_reviewers_at_once_get_different_samples_and_see_each_others_work(served, opened):
    server = served()
    ana, ben = opened(server.links["ana"]), opened(server.links["ben"])
    expect(ana.locator("#reviewer")).to_have_text("ana")
    assert set(queue_of(ana)).isdisjoint(queue_of(ben))
    first = queue_of(ana)[0]
    ana.bring_to_front()
    press(ana, "k")
    stored(ana)
    ben.bring_to_front()
    expect(shown_panel(ben)).to_contain_text("1 of 60 labels judged (ana 1, ben 0): 0 wrong")
    ben.locator("[data-decision=accept]").click()
    ben.locator("[data-decision=skip]").click()
    stored(ben)
    ana.bring_to_front()
    expect(shown_panel(ana)).to_contain_text("2 of 60 labels judged (ana 1, ben 2): 1 wrong")
    ben.locator("#status").select_option("others")
    expect(ben.locator("#list [role=option]")).to_have_id(f"option-{first}")
    expect(ben.locator(".others")).to_have_text("ana: keep")
    assert {(row["reviewer"], row["decision"]) for row in decisions_of(server.client())} == {
        ("ana", "keep"),
        ("ben", "accept"),
        ("ben", "skip"),
    }


def test_a_queue_is_topped_up_and_hides_ranks_until_the_verdict(served, opened):
    page = opened(served(reviewers=("ana",)).links["ana"])
    assert len(queue_of(page)) == 10
    expect(page.locator("#detail h2")).to_have_text(f"sample s{queue_of(page)[0]}")
    expect(page.locator("#detail dl")).to_have_count(0)
    expect(page.locator("#list .rank")).to_have_count(0)
    press(page, *"kakakaka")
    stored(page)
    until(page, "queue.length > 10")
    expect(page.locator("#list .rank").first).to_be_visible()
    assert len(set(queue_of(page))) == len(queue_of(page))


def test_undo_works_after_reopening_and_any_decision_can_be_cleared(served, opened):
    server = served(reviewers=("ana",))
    page = opened(server.links["ana"])
    press(page, "a", "k", "s")
    stored(page)
    page.close()
    page = opened(server.links["ana"])
    press(page, "u", "u")
    stored(page)
    assert words_of(server.client()) == ["accept"]
    page.locator("#status").select_option("decided")
    press(page, "c")
    stored(page)
    assert decisions_of(server.client()) == []
    press(page, "u")
    stored(page)
    assert words_of(server.client()) == ["accept"]


def test_a_decision_that_another_clears_is_gone_from_ones_own_page(served, opened):
    server = served()
    ana, ben = opened(server.links["ana"]), opened(server.links["ben"])
    press(ana, "k")
    stored(ana)
    ben.bring_to_front()
    expect(shown_panel(ben)).to_contain_text("1 of 60 labels judged")
    ben.locator("#status").select_option("others")
    ben.locator("[data-decision=clear]").click()
    stored(ben)
    ana.bring_to_front()
    until(ana, "decisions.size === 0")
    expect(shown_panel(ana)).to_contain_text("0 of 60 labels judged")
    press(ben, "u")
    until(ana, "decisions.size === 1")
    ana.reload()
    until(ana, "decisions.size === 1")


def test_two_judge_the_overlap_blindly_and_a_disagreement_is_settled(served, opened):
    server = served("--overlap", "100%")
    ana, ben = opened(server.links["ana"]), opened(server.links["ben"])
    place = queue_of(ana)[0]
    assert place in queue_of(ben)
    press(ana, "k")
    stored(ana)
    ben.bring_to_front()
    expect(shown_panel(ben)).to_contain_text("ana 1")
    ben.evaluate("place => choose(places.indexOf(place))", place)
    expect(ben.locator(".others")).to_have_count(0)
    press(ben, "a")
    stored(ben)
    expect(shown_panel(ben)).to_contain_text("1 disagreement to settle")
    ben.locator("#status").select_option("disagreement")
    suggested = ben.evaluate("suggestedOf(current)")
    expect(ben.locator(".others li")).to_have_text(
        [f"you: accept {suggested}", "ana: keep", "Your decision here settles it."]
    )
    expect(ben.locator("[data-decision][aria-pressed=true]")).to_have_count(0)
    assert len(decisions_of(server.client())) == 2
    press(ben, "k")
    stored(ben)
    expect(ben.locator("#list")).to_contain_text("No sample matches these filters.")
    assert [(row["decision"], row["reviewer"]) for row in decisions_of(server.client())] == [("keep", "ben")]
    expect(shown_panel(ana)).to_contain_text("Cohen’s kappa")


def test_verdicts_made_without_a_connection_are_sent_later(served, opened):
    server = served(reviewers=("ana",))
    page = opened(server.links["ana"])
    context = page.context
    context.set_offline(True)
    press(page, "k", "a")
    expect(page.locator("#connection")).to_have_text(
        "no connection: 2 verdicts not stored yet, kept in this browser and sent again"
    )
    page.close()
    assert decisions_of(server.client()) == []
    context.set_offline(False)
    page = opened(server.links["ana"], context)
    assert words_of(server.client()) == ["accept", "keep"]
    expect(shown_panel(page)).to_contain_text("2 of 60 labels judged")


def test_unsent_verdicts_are_sent_over_a_new_link_of_the_same_reviewer(served, opened):
    server = served()
    page = opened(server.links["ana"])
    context = page.context
    server.stop()
    press(page, "k", "a")
    expect(page.locator("#connection")).to_contain_text("2 verdicts not stored yet")
    page.close()
    again = served("--new-links", port=server.port)
    assert again.links["ana"] != server.links["ana"]
    opened(again.links["ben"], context)
    assert decisions_of(again.client()) == []
    opened(again.links["ana"], context)
    assert words_of(again.client()) == ["accept", "keep"]
    assert {row["reviewer"] for row in decisions_of(again.client())} == {"ana"}


def test_refused_verdicts_are_listed_until_they_are_dismissed(served, opened):
    server = served(reviewers=("ana",))
    page = opened(server.links["ana"])
    expect(page.locator("#refused")).to_be_hidden()
    page.evaluate(
        "for (let place = 0; place < 8; place++) keep({...newEvent(place, 'keep'), label: 'changed'}); flush()"
    )
    expect(page.locator("#refused-count")).to_have_text("8 verdicts refused and not stored")
    expect(page.locator("#refused-list li")).to_have_count(8)
    stored(page)
    page.close()
    page = opened(server.links["ana"], page.context)
    expect(page.locator("#refused-list li")).to_have_count(8)
    page.locator("#refused-count").click()
    with page.expect_download() as waiting:
        page.locator("#download-refused").click()
    with waiting.value.path().open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(row["id"], row["label"], row["decision"], row["reviewer"]) for row in rows] == [
        (f"s{place}", "changed", "keep", "ana") for place in range(8)
    ]
    assert rows[0]["reason"].startswith("the label of sample 's0' is 'cat' now")
    page.locator("#dismiss-refused").click()
    expect(page.locator("#refused")).to_be_hidden()
    page.reload()
    stored(page)
    expect(page.locator("#refused")).to_be_hidden()


def test_a_killed_server_is_started_again_and_nothing_is_lost(served, opened):
    server = served(reviewers=("ana",))
    page = opened(server.links["ana"])
    press(page, "k")
    stored(page)
    server.kill()
    press(page, "a", "s", "u", "k")
    expect(page.locator("#connection")).to_contain_text("not stored yet")
    again = served(reviewers=("ana",), port=server.port)
    assert again.links == server.links
    stored(page)
    assert words_of(again.client()) == ["accept", "keep", "keep"]


def test_new_samples_are_shown_to_a_reviewer_who_waited_for_them(served, opened):
    server = served(reviewers=("ana",))
    page = opened(server.links["ana"])
    before = queue_of(page)
    server.kill()
    press(page, *"k" * len(before))
    expect(page.locator("#connection")).to_contain_text("10 verdicts not stored yet")
    served(reviewers=("ana",), port=server.port)
    until(page, "queue.length > 10")
    until(page, "!decisions.has(current)")
    assert page.evaluate("current") == queue_of(page)[10]


def test_decisions_are_downloaded_and_loaded(served, opened):
    server = served()
    page = opened(server.links["ana"])
    press(page, "a")
    stored(page)
    with page.expect_download() as waiting:
        page.locator("#download").click()
    text = waiting.value.path().read_text()
    assert text.startswith("id,label,decision,new_label,reviewer,time,random\n")
    rows = "id,label,decision,new_label\ns50,owl,keep,\ns51,dog,keep,\nnobody,cat,keep,\n"
    page.locator("#file").set_input_files({"name": "d.csv", "mimeType": "text/csv", "buffer": rows.encode()})
    expect(page.locator("#message")).to_have_text(
        "Loaded 1 decision. Ignored: 1 for samples not in these results; 1 for samples with another label here."
    )
    page.locator("#file").set_input_files({"name": "d.csv", "mimeType": "text/csv", "buffer": b"a,b\n"})
    expect(page.locator("#message")).to_contain_text("Nothing was loaded: decisions.csv must have the columns")
    assert {row["id"] for row in decisions_of(server.client())} == {f"s{queue_of(page)[0]}", "s50"}


def test_hostile_labels_and_texts_do_nothing(served, opened):
    texts = [f"{HOSTILE[place % 3]} words of row {place}" for place in range(30)]
    data = open_data(texts, np.array(HOSTILE)[np.arange(30) % 3], id=[f"s{place}" for place in range(30)])
    server = served(samples=30, classes=HOSTILE, data=data, reviewers=("ana",))
    page = opened(server.links["ana"])
    place = queue_of(page)[0]
    expect(page.locator("#detail blockquote")).to_have_text(texts[place].strip())
    press(page, "a", "k", "r")
    page.keyboard.type("<b>new</b>")
    press(page, "ArrowDown", "Enter")
    stored(page)
    assert page.title() == "errata: labels to look at"
    assert page.locator("main img, #detail b b").count() == 0
    assert {row["label"] for row in decisions_of(server.client())} <= set(HOSTILE)
    assert "<b>new</b>" in {row["new_label"] for row in decisions_of(server.client())}


@pytest.mark.parametrize("width", [390, 768, 1024, 1280, 1920])
def test_sizes_and_colours(served, opened, width, tmp_path):
    server = served(reviewers=("ana",))
    for scheme in ("light", "dark"):
        page = opened(server.links["ana"], width=width, height=900, scheme=scheme)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert box_of(page, "[data-decision=keep]")["y"] < 860  # above the fold
        dark = page.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
        assert dark == (scheme == "dark")
        press(page, "n", "n", "k", "n", "p")
        stored(page)
        shown = "#detail" if width < 992 else "#list [aria-selected=true]"
        box, bar = box_of(page, shown), box_of(page, "#toolbar")
        assert box["y"] >= 0
        assert box["y"] < 800
        assert width < 992 or box["y"] >= bar["y"] + bar["height"] - 1


def test_the_panel_shows_the_interval_and_the_certificate_after_verdicts(served, opened):
    server = served(reviewers=("ana", "ben"), samples=200)
    client, judged = server.client(), 0
    while judged < 140:
        queue = client.send("POST", "/queue", {})[1]["queue"]
        client.judge(*(verdict(place, "accept" if place < 20 else "keep") for place in queue))
        judged += len(queue)
    page = opened(server.links["ana"])
    expect(shown_panel(page)).to_contain_text("labels are wrong, with 95 % confidence (estimate: ")
    expect(shown_panel(page)).to_contain_text("among the next 60 samples.")
    expect(shown_panel(page)).to_contain_text("Not certified for 95 %")
    press(page, "k")
    stored(page)
    expect(shown_panel(page)).to_contain_text("among the next 59 samples.")
    statements = server.client().state()["panel"]["statements"]
    assert len(statements) == 4
    expect(page.locator("#head")).to_contain_text("Before any verdict: ")
    expect(page.locator("#budget-figure")).to_be_hidden()  # the curve is that of the model alone
    page.evaluate("refilter()")
    expect(page.locator("#budget-figure")).to_be_hidden()
    for sentence in statements:
        expect(shown_panel(page)).to_contain_text(sentence)


def test_the_panel_states_nothing_after_a_few_verdicts(served, opened):
    page = opened(served(reviewers=("ana",)).links["ana"])
    press(page, *"kkkkk")
    stored(page)
    expect(shown_panel(page)).to_contain_text("5 of 60 labels judged")
    expect(shown_panel(page)).not_to_contain_text("confidence")
