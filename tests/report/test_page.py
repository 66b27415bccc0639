"""The report in a browser: what it shows, and how a reviewer uses it."""

import csv
import io
import json
import re
from dataclasses import replace
from datetime import datetime

import numpy as np
import pandas as pd
import pytest
from playwright.sync_api import expect

from errata.core.rates import NoiseRate
from errata.readers import open_data
from report_results import CLASSES, EPOCHS, made_up

HOSTILE = (
    "<script>document.title='owned'</script>",
    '"><img src=x onerror="document.title=1">',
    "</script><b>猫</b> & ünïcode \u2028 'quotes'",
    'a,b\n"c"',
)


@pytest.fixture
def opened(page, tmp_path):
    """Open the report of a result; a network request fails the test."""
    requests = []
    page.on("request", lambda request: requests.append(request.url))

    def open_report(found):
        path = found.write_report(tmp_path / "errata-out" / "report.html")
        page.goto(path.as_uri())
        expect(page.locator("#progress-text")).to_contain_text("Decided")
        page.evaluate(
            "status => { filters.status = status; refilter(); choose(0); }", "all"
        )  # in the order of the ranking
        return page

    yield open_report
    assert all(url.startswith(("file:", "data:", "blob:")) for url in requests)


def options(page):
    return page.locator("#list [role=option]")


def selected(page):
    return page.locator("#list [role=option][aria-selected=true]")


def choose_file(page, text):
    page.locator("#file").set_input_files({"name": "decisions.csv", "mimeType": "text/csv", "buffer": text.encode()})


def downloaded(page):
    with page.expect_download() as waiting:
        page.locator("#download").click()
    assert waiting.value.suggested_filename == "decisions.csv"
    text = waiting.value.path().read_text(encoding="utf-8")
    return list(csv.DictReader(io.StringIO(text, newline="")))


def press(page, *keys):
    for key in keys:
        page.keyboard.press(key)


def test_the_answer_is_at_the_top_and_the_reasons_are_collapsed(opened):
    found, first = made_up(), np.arange(60) < 20
    clear = found.ranking.assign(score=np.where(first, 9.0, -9.0), p_wrong=np.where(first, 0.8, 0.05))
    page = opened(replace(found, ranking=clear, summary=found.summary | {"held_out_loss": 0.9}))
    expect(page.locator("#head")).to_have_text("About 20 of 60 labels are wrong (33 %, 0–100 %).")
    expect(page.locator("#answer li")).to_have_count(2)
    expect(page.locator("#answer")).to_contain_text("Look at the first 20: expect about 16 errors")
    expect(page.locator("#answer")).to_contain_text("Warning: the estimates of this number disagree widely.")
    expect(page.locator("#trust li")).to_have_text("The ranking uses all 6 epochs.")
    expect(page.locator("#reasons li").first).to_be_hidden()
    page.locator("#reasons summary").click()
    expect(page.locator("#reasons li").first).to_have_text("Made up.")
    expect(page.locator("#facts")).to_contain_text("MeanProb-LM")
    page.locator("#remarks summary").click()
    expect(page.locator("#remarks li").first).to_have_text("3 rows have no label and are left out.")


def test_keys_decide_and_the_download_has_the_decisions(opened):
    page = opened(made_up())
    press(page, "k", "a", "s", "r")
    page.keyboard.type("OW")
    press(page, "Enter", "n", "n", "p", "a")
    rows = downloaded(page)
    times = [datetime.fromisoformat(row.pop("time")) for row in rows]
    assert times == sorted(times)
    assert rows == [
        {"id": "0", "label": "cat", "decision": "keep", "new_label": "", "reviewer": "", "random": ""},
        {"id": "1", "label": "dog", "decision": "accept", "new_label": "owl", "reviewer": "", "random": ""},
        {"id": "2", "label": "owl", "decision": "skip", "new_label": "", "reviewer": "", "random": ""},
        {"id": "3", "label": "cat", "decision": "accept", "new_label": "owl", "reviewer": "", "random": ""},
        {"id": "5", "label": "owl", "decision": "accept", "new_label": "dog", "reviewer": "", "random": ""},
    ]
    expect(page.locator("#progress-text")).to_contain_text("Decided 5 of 20: 3 of 4 labels were wrong")


def test_a_file_of_a_team_keeps_its_reviewers_and_times(opened):
    page = opened(made_up())
    press(page, "k")
    rows = (
        "0,cat,keep,,ana,2026-01-01T00:00:00.000Z\n0,cat,keep,,ben,2026-01-02T00:00:00.000Z\n"
        "1,dog,accept,owl,ana,2026-01-03T00:00:00.000Z\n2,owl,skip,,ana,2026-01-04T00:00:00.000Z\n"
        "2,owl,keep,,ben,2026-01-05T00:00:00.000Z\n"
    )
    file = f"id,label,decision,new_label,reviewer,time\n{rows}"
    for _ in range(2):
        page.locator("#file").set_input_files({"name": "d.csv", "mimeType": "text/csv", "buffer": file.encode()})
        expect(page.locator("#message")).to_have_text("Loaded 3 decisions.")
    page.reload()  # the browser has them
    expect(page.locator("#message")).to_have_text("Restored 3 decisions from an earlier visit.")
    first, *others = downloaded(page)
    assert (first["id"], first["reviewer"]) == ("0", "")
    assert [",".join([*row.values()][:-1]) + "\n" for row in others] == [
        line for line in rows.splitlines(keepends=True) if "skip" not in line
    ]


def test_another_label_is_selected_typed_or_new_and_escape_cancels(opened):
    page = opened(made_up())
    press(page, "r")
    expect(page.locator("#choices li")).to_have_text(["cat (the given label)", "dog", "owl"])
    press(page, "Enter")  # nothing is marked yet
    press(page, "ArrowDown", "ArrowDown", "ArrowDown", "Enter", "r", "Escape", "r")
    page.keyboard.type("Wolf")
    expect(page.locator("#choices li")).to_have_text(["new class: Wolf"])
    press(page, "Enter")
    expect(page.locator("#relabel")).to_be_visible()
    press(page, "ArrowDown", "Enter", "r")
    page.keyboard.type("o")
    expect(page.locator("#choices li")).to_have_text(["owl (the given label)", "dog", "new class: o"])
    page.locator("#choices li").nth(1).click()
    decisions = [(row["id"], row["decision"], row["new_label"]) for row in downloaded(page)]
    assert decisions == [("0", "relabel", "owl"), ("1", "relabel", "Wolf"), ("2", "relabel", "dog")]


def test_large_integer_ids_are_downloaded_exactly(opened):
    page = opened(made_up(ids=np.arange(60) + 2**62 + 1))
    press(page, "k")
    assert downloaded(page)[0]["id"] == str(2**62 + 1)


def test_buttons_do_what_keys_do(opened):
    page = opened(made_up())
    page.locator("[data-decision=accept]").click()
    page.locator("[data-decision=skip]").click()
    page.locator("[data-decision=relabel]").click()
    page.locator("#choices li", has_text="dog").click()
    assert [row["decision"] for row in downloaded(page)] == ["accept", "skip", "relabel"]
    press(page, "p")
    assert page.locator("[data-decision=relabel]").get_attribute("aria-pressed") == "true"


@pytest.mark.parametrize("key", ["u", "Control+z"])
def test_undo_reverts_one_step_and_selects_its_sample(opened, key):
    page = opened(made_up())
    press(page, "a", "k", "ArrowUp", "a")
    assert [row["decision"] for row in downloaded(page)] == ["accept", "accept"]
    press(page, key)
    expect(selected(page)).to_have_attribute("id", "option-1")
    assert [row["decision"] for row in downloaded(page)] == ["accept", "keep"]
    press(page, key, key)
    expect(selected(page)).to_have_attribute("id", "option-0")
    expect(page.locator("#download")).to_be_disabled()
    press(page, key)
    expect(page.locator("#message")).to_have_text("There is nothing to undo.")


def test_decisions_survive_a_reload_of_their_run_only(opened, tmp_path):
    page = opened(made_up())
    press(page, "a", "s")
    page.reload()
    expect(page.locator("#message")).to_have_text("Restored 2 decisions from an earlier visit.")
    expect(selected(page)).to_have_attribute("id", "option-2")
    assert [row["decision"] for row in downloaded(page)] == ["accept", "skip"]
    page = opened(made_up(samples=61))
    expect(page.locator("#progress-text")).to_have_text("Decided 0 of 20")


def test_two_windows_of_one_run_share_their_decisions(opened):
    page = opened(made_up())
    other = page.context.new_page()
    other.goto(page.url)
    other.evaluate("() => { filters.status = 'all'; refilter(); choose(0); }")
    expect(other.locator("#progress-text")).to_contain_text("Decided 0 of")
    press(other, "a")
    expect(other.locator("#progress-text")).to_contain_text("Decided 1 of")
    page.bring_to_front()  # a window in the background may handle events late
    expect(page.locator("#progress-text")).to_contain_text("Decided 1 of", timeout=30_000)
    press(page, "n", "k")
    other.bring_to_front()
    expect(other.locator("#progress-text")).to_contain_text("Decided 2 of", timeout=30_000)


def test_decisions_are_loaded_from_files_and_merged(opened):
    page = opened(made_up())
    press(page, "k", "k")
    mine = "id,label,decision,new_label\n"
    choose_file(page, mine + "1,dog,accept,owl\r\n2,owl,relabel,cat\r\n3,cat,skip,\r\n")
    expect(page.locator("#message")).to_have_text(
        "Loaded 3 decisions. Replaced 1 decision made here: sample 1 (keep, now accept owl)."
    )
    page.locator("#status").select_option("replaced")
    expect(options(page)).to_have_count(1)
    page.locator("#status").select_option("all")
    choose_file(page, mine + "1,dog,skip,\n")  # another reviewer could not decide
    expect(page.locator("#message")).to_have_text("Loaded 0 decisions.")
    decided = {row["id"]: (row["decision"], row["new_label"]) for row in downloaded(page)}
    # what somebody else's file accepts is checked against this page's suggestion: for sample 2 it is the label "cat"
    assert decided == {"0": ("keep", ""), "1": ("accept", "owl"), "2": ("accept", "cat"), "3": ("skip", "")}
    press(page, "u")
    assert [row["decision"] for row in downloaded(page)] == ["keep", "keep"]
    choose_file(page, mine + "999,cat,keep,\n4,owl,keep,\n5,owl,maybe,\n6,cat,relabel,\n7,dog,keep,,x\n8,owl,skip\n")
    expect(page.locator("#message")).to_have_text(
        "Loaded 0 decisions. Ignored: 1 for samples not in this list; 1 for samples with another label here; "
        "4 invalid (not keep, accept, relabel or skip, without a new label, or with too few or too many cells)."
    )
    choose_file(page, mine + '7,dog,relabel,"owl\n8,owl,skip,\n')
    expect(page.locator("#message")).to_have_text("Nothing was loaded: a quote in this file is not closed.")
    choose_file(page, "a,b\n1,2\n")
    expect(page.locator("#message")).to_contain_text("This file is not a decisions.csv")


def test_a_download_can_be_loaded_again_with_any_labels_and_ids(opened):
    ids = [f"{text} {place}" for place in range(20) for text in HOSTILE][:60]
    found = made_up(classes=HOSTILE, ids=ids, expected=60)
    page = opened(found)
    press(page, "k", "a", "s", "a")
    before = downloaded(page)
    assert [row["id"] for row in before] == ids[:4]
    assert [row["label"] for row in before] == list(HOSTILE)
    press(page, "u", "u", "u", "u")
    text = io.StringIO()
    writer = csv.DictWriter(text, before[0])
    writer.writeheader()
    writer.writerows(before)
    choose_file(page, text.getvalue())
    expect(page.locator("#message")).to_have_text("Loaded 4 decisions.")
    assert downloaded(page) == before


def test_nothing_in_the_data_becomes_markup(opened):
    texts = pd.DataFrame({"text": [f"{HOSTILE[place % 4]} some words of row {place}" for place in range(60)]})
    data = open_data(texts, np.arange(60) % 4, text="text")
    found = made_up(classes=HOSTILE, data=data, groups=[(0, 1)])
    found.summary["remarks"].append(HOSTILE[0])
    page = opened(found)
    assert page.title() == "errata: labels to look at"
    assert page.locator("main img, main b b, header script").count() == 0
    for place, hostile in enumerate(HOSTILE):
        expect(page.locator("#detail .pair .given")).to_have_text(hostile, use_inner_text=False)
        assert page.locator("#detail blockquote").inner_text() == texts["text"][place]
        press(page, "n")
    press(page, "r")
    page.keyboard.type("<i>")
    expect(page.locator("#choices li").last).to_have_text("new class: <i>")


def test_the_slider_and_the_number_set_the_budget(opened):
    page = opened(made_up())
    assert page.locator("#budget").input_value() == "20"
    page.locator("#budget").fill("7")
    press(page, "Tab")
    expect(options(page).first).to_have_attribute("aria-setsize", "7")
    wanted = np.cumsum(np.linspace(0.95, 0.05, 60))[6]
    expect(page.locator("#expectation")).to_contain_text(f"Among the first 7 samples expect about {wanted:.0f} errors.")
    page.locator("#budget-slider").focus()
    press(page, "End")
    expect(page.locator("#budget")).to_have_value("60")
    expect(page.locator("#expectation")).to_contain_text("After these, about 0 % of the errors remain.")
    press(page, "Home")
    expect(options(page)).to_have_count(1)
    assert page.locator("#budget-slider").get_attribute("aria-valuetext") == "1 sample"


def test_less_than_one_expected_error_leaves_no_share(opened):
    found = made_up()
    none = NoiseRate(0.0, 0.0, 0.1, 0.95, "Made up.")
    page = opened(replace(found, ranking=found.ranking.assign(p_wrong=0.01), estimate=none))
    expect(page.locator("#expectation")).to_have_text(
        "Among the first 20 samples expect less than one error. Dashed: random order."
    )


def test_the_heat_map_counts_the_pairs_and_a_click_filters_by_one(opened):
    found = made_up()
    page = opened(found)
    wanted = {
        (label, suggested): count
        for label, suggested, count in found.confusions[["label", "suggested", "count"]].itertuples(index=False)
    }
    shown = {}
    for button in page.locator("#confusions button").all():
        words = re.fullmatch(r"given (.*), suggested (.*): (\d+) samples?", button.get_attribute("aria-label"))
        shown[words[1], words[2]] = int(words[3])
    assert shown == wanted
    page.locator('#confusions button[aria-label^="given cat, suggested dog"]').click()
    expect(options(page)).to_have_count(wanted["cat", "dog"])
    assert {text.split()[0] for text in options(page).locator(".pair").all_inner_texts()} == {"cat"}
    assert page.locator("#given").input_value() == "0"
    page.locator('#confusions button[aria-pressed="true"]').click()
    expect(options(page).first).to_have_attribute("aria-setsize", "20")


def test_filters_combine_and_are_cleared_together(opened):
    page = opened(made_up(groups=[(0, 4), (2, 50)]))
    page.locator("#given").select_option("cat")
    expect(page.locator("#matching")).to_have_text("7 of the first 20 match the filters.")
    page.locator("#suggested").select_option("owl")
    expect(options(page)).to_have_count(3)
    press(page, "Tab")
    page.locator("#clear").click()
    page.locator("#status").select_option("conflict")
    expect(options(page)).to_have_count(3)
    page.locator("#clear").click()
    page.locator("#agreeing").select_option("1")
    expect(options(page)).to_have_count(int((np.linspace(5, 0, 60)[:20].round() == 5).sum()))
    page.locator("#search").fill("nothing like it")
    expect(page.locator("#list")).to_contain_text("No sample matches these filters.")
    page.locator("#search").blur()
    press(page, "k", "n", "a")
    expect(page.locator("#download")).to_be_disabled()


def test_deciding_among_the_undecided_selects_the_next_one(opened):
    page = opened(made_up())
    page.locator("#status").select_option("undecided")
    page.locator("#list").focus()
    press(page, "a", "s", "k")
    expect(selected(page)).to_have_attribute("id", "option-3")
    page.locator("#status").select_option("changed")
    expect(options(page)).to_have_count(1)
    page.locator("#status").select_option("skip")
    expect(options(page)).to_have_attribute("id", "option-1")


def test_agreement_is_counted_and_a_click_filters_by_it(opened):
    page = opened(made_up())
    levels = np.linspace(5, 0, 60).round()[:20]
    bar = page.locator("#agreement button").nth(1)
    expect(bar.locator(".level")).to_have_text("80 %")
    expect(bar.locator(".count")).to_have_text(str((levels == 4).sum()))
    bar.click()
    expect(page.locator("#matching")).to_have_text(f"{(levels >= 4).sum()} of the first 20 match the filters.")


def test_conflicts_are_listed_and_link_to_their_samples(opened):
    page = opened(made_up(groups=[(0, 4), (2, 50)]))
    expect(page.locator("#conflict-note")).to_contain_text("4 samples in 2 groups")
    page.locator("#conflict-table button", has_text="50").click()
    expect(selected(page)).to_have_attribute("id", "option-50")
    expect(page.locator("#detail")).to_contain_text("Another sample has the same inputs and a different label")
    page = opened(made_up())
    expect(page.locator("#conflicts")).to_be_hidden()


def test_the_loss_curve_is_drawn_and_described(opened):
    from scipy.special import log_softmax

    found = made_up()
    page = opened(found)
    assert found.dynamics.logits is not None
    losses = -log_softmax(found.dynamics.logits[:, 0].astype(float), axis=1)[:, found.dynamics.labels[0]]
    words = page.locator("#detail svg.loss").get_attribute("aria-label")
    values = [float(text) for text in re.findall(r"[\d.]+(?= at)", words)]
    assert values == pytest.approx([losses[0], losses[-1]], abs=0.06)
    assert page.locator("#detail svg.loss .own").get_attribute("d").count("L") == EPOCHS - 1


def test_help_opens_with_a_question_mark_and_blocks_keys(opened):
    page = opened(made_up())
    press(page, "?")
    expect(page.locator("#help")).to_be_visible()
    press(page, "a", "Escape")
    expect(page.locator("#help")).to_be_hidden()
    expect(page.locator("#download")).to_be_disabled()
    press(page, "/")
    page.keyboard.type("kas")
    expect(page.locator("#search")).to_have_value("kas")
    expect(page.locator("#download")).to_be_disabled()


def test_screen_readers_get_the_selection_and_the_last_action(opened):
    page = opened(made_up())
    page.locator("#list").focus()
    press(page, "ArrowDown", "End")
    assert page.locator("#list").get_attribute("aria-activedescendant") == "option-19"
    assert selected(page).get_attribute("aria-posinset") == "20"
    press(page, "Home", "a")
    expect(page.locator("#message[role=status]")).to_have_text("Accepted dog: sample 0.")
    label = page.locator("#option-0").get_attribute("aria-label")
    assert label == "1: 0, given cat, suggested dog, probably wrong 95 %; decided: accept dog"
    assert page.locator("button:not([aria-label])").evaluate_all("all => all.every(one => one.textContent.trim())")


def test_a_plain_table_is_printed(opened):
    page = opened(made_up(samples=300, expected=100))
    page.evaluate("setBudget(300)")
    press(page, "a")
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    expect(page.locator("#printed h2")).to_have_text("The first 200 of 300 samples")
    expect(page.locator("#printed tbody tr").first.locator("td")).to_have_text(
        ["1", "0", "cat", "dog", "95 %", "accept", "dog"]
    )
    expect(page.locator("#review")).to_be_hidden()
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    expect(page.locator("#printed")).to_be_empty()


def test_images_are_a_gallery_whose_arrows_move_by_rows_and_columns(opened):
    images = np.random.default_rng(0).integers(0, 255, (60, 16, 16, 3), dtype=np.uint8)
    page = opened(made_up(data=open_data(images, np.arange(60) % 3)))
    pictures = page.locator("#list img")
    assert pictures.count() > 5
    assert pictures.evaluate_all("all => all.every(one => one.complete && one.naturalWidth === 16)")
    across = page.evaluate("perRow()")
    assert across > 1
    page.locator("#list").focus()
    press(page, "ArrowDown", "ArrowRight")
    expect(selected(page)).to_have_attribute("id", f"option-{across + 1}")
    press(page, "ArrowUp", "ArrowLeft", "p")
    expect(selected(page)).to_have_attribute("id", "option-0")
    options(page).nth(3).click()
    expect(page.locator("#detail h2")).to_have_text("#4 sample 3")


def test_an_image_file_is_one_click_away(opened, tmp_path):
    from PIL import Image

    for number in range(6):
        folder = tmp_path / "images" / CLASSES[number % 3]
        folder.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (150, 100 + number), (40 * number, 0, 0)).save(folder / f"no {number}#.png")
    data = open_data(tmp_path / "images")
    page = opened(made_up(samples=6, ids=data.ids, data=data, expected=6))
    address = page.locator("#detail a").evaluate("link => link.href")
    assert address == (tmp_path / "images" / data.ids[0]).as_uri()


def test_a_row_is_shown_with_the_typical_values_of_both_classes(opened):
    labels = np.arange(60) % 3
    frame = pd.DataFrame({"length": 10.0 * labels, "colour": np.array(["red", "green", "blue"])[labels]})
    frame.loc[57:] = [[0.5, "grey"]] * 3  # columns that say the same as the label would be left out
    page = opened(made_up(data=open_data(frame, np.array(CLASSES)[labels])))
    rows = page.locator("#detail .columns tr").all_inner_texts()
    assert rows[0].split("\t") == ["column", "this sample", "typical of cat", "typical of dog"]
    assert {tuple(row.split("\t")) for row in rows[1:]} == {
        ("length", "0", "0", "10"),
        ("colour", "red", "red", "green"),
    }
    page.locator("#search").fill("blue")
    expect(page.locator("#matching")).to_have_text("6 of the first 20 match the filters.")


def test_excluded_columns_are_shown_lighter_and_can_be_searched(opened):
    rng = np.random.default_rng(0)
    columns = {f"n{number}": rng.normal(size=60) for number in range(35)}
    frame = pd.DataFrame(columns | {"name": [f"Quinn-{place}" for place in range(60)], "source": "<b>web"})
    page = opened(made_up(data=open_data(frame, np.array(CLASSES)[np.arange(60) % 3])))
    below = page.locator("#detail .columns tbody.excluded")
    assert below.locator("tr").all_inner_texts() == [
        "not used for training",
        "name\nlike an id\n\tQuinn-0",
        "source\nconstant\n\t<b>web",
    ]
    colours = "cells => cells.map(cell => getComputedStyle(cell).color)"
    used, excluded = (
        page.locator(f"#detail .columns tbody{kind} tr:last-child td:nth-child(2)")
        for kind in (":not(.excluded)", ".excluded")
    )
    assert used.evaluate_all(colours) != excluded.evaluate_all(colours)
    page.locator("#search").fill("quinn-17")
    expect(options(page)).to_have_attribute("id", "option-17")


def test_a_text_is_shown_above_the_excluded_columns(opened):
    frame = pd.DataFrame({"review": [f"a few words of {place}" for place in range(60)], "author_id": np.arange(60)})
    page = opened(made_up(data=open_data(frame, np.array(CLASSES)[np.arange(60) % 3])))
    expect(page.locator("#detail blockquote")).to_have_text("a few words of 0")
    expect(page.locator("#detail .columns tr").last).to_have_text("author_idlike an id0")


def test_a_long_text_is_shortened_until_expanded(opened):
    texts = [f"{number}: {'many words ' * 100}" for number in range(60)]
    page = opened(made_up(data=open_data(texts, np.arange(60) % 3)))
    text = page.locator("#detail .text")
    assert len(text.inner_text()) < 700
    page.locator("#detail .more").click()
    expect(text).to_have_text(texts[0].strip())
    page.locator("#detail .more").click()
    assert len(text.inner_text()) < 700


def test_fifty_thousand_samples_open_scroll_and_filter(opened):
    samples = 50_000
    texts = [f"a few words of sample {place}" for place in range(samples)]
    frame = pd.DataFrame({"text": texts, "ticket": [f"ticket-{place}" for place in range(samples)]})
    data = open_data(frame, np.arange(samples) % 3)
    page = opened(made_up(samples=samples, data=data))
    page.evaluate("setBudget(50_000)")
    assert options(page).count() < 60
    expect(options(page).first).to_have_attribute("aria-setsize", "50000")
    expect(page.locator("#notes")).to_contain_text("for the first 10,000 samples of the queue")
    press(page, "End")
    expect(selected(page)).to_have_attribute("id", "option-49999")
    page.evaluate("choose(reviewOrder.at(-1))")
    expect(page.locator("#detail")).to_contain_text("are not included, to keep the page small")
    page.locator("#search").fill("sample 8998")
    expect(options(page)).to_have_attribute("id", "option-8998")
    page.locator("#search").fill("ticket-7654")
    expect(options(page)).to_have_attribute("id", "option-7654")
    expect(page.locator("#matching")).to_contain_text("Only the contents of the first 10,000 samples were searched")
    page.locator("#clear").click()
    press(page, "End")
    page.locator("#given").select_option("owl")
    expect(page.locator("#matching")).to_have_text("16,666 of the first 50,000 match the filters.")
    expect(selected(page)).to_have_attribute("aria-posinset", "1")


def test_a_browser_without_storage_gives_a_warning(opened, page):
    page.add_init_script("Storage.prototype.getItem = Storage.prototype.setItem = () => { throw new Error('no') }")
    opened(made_up())
    press(page, "k")
    expect(page.locator("#message")).to_contain_text("This browser cannot store decisions")
    assert len(downloaded(page)) == 1


def test_equal_results_give_equal_bytes_and_others_another_key(tmp_path):
    def run_of(path):
        return json.loads(re.search(r'id="data">(.*?)</script>', path.read_text(), re.DOTALL)[1])["run"]

    one, two = (made_up().write_report(tmp_path / name) for name in ("one.html", "two.html"))
    assert one.read_bytes() == two.read_bytes()
    assert run_of(one) != run_of(made_up(classes=("cat", "dog", "hen")).write_report(tmp_path / "three.html"))


def test_shares_near_0_and_1_are_not_rounded_to_0_and_100_percent(opened):
    page = opened(made_up())
    shares = [0, 0.004, 0.006, 0.5, 0.994, 0.996, 1, None]
    wanted = ["0 %", "< 1 %", "1 %", "50 %", "99 %", "> 99 %", "100 %", "unknown"]
    assert page.evaluate("shares => shares.map(percent)", shares) == wanted
