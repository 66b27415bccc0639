"""The report in a browser: keys after every control, scrolling, small screens, and labels that look the same."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from playwright.sync_api import expect

import errata
from errata.core.certifying import certify_recall
from errata.core.guarantees import count_wrong
from errata.core.random_part import random_order, random_positions
from errata.finding.found import Found
from errata.readers import open_data
from report_results import CLASSES, made_up
from review_servers import made_up_result


@pytest.fixture
def opened(page, tmp_path):
    def open_report(found, width=1280, height=800, status="all"):
        page.set_viewport_size({"width": width, "height": height})
        page.goto(found.write_report(tmp_path / "report.html").as_uri())
        expect(page.locator("#progress-text")).to_contain_text("Decided")
        page.evaluate("status => { filters.status = status; refilter(); choose(0); }", status)
        return page

    return open_report


def decided(page):
    return page.evaluate("decisions.size")


def in_view(page):
    """Whether the selected sample is in the window and not covered by the bar."""
    top, bottom, bar, height = page.evaluate(
        """() => {
          const box = document.querySelector("#list [aria-selected=true]").getBoundingClientRect();
          return [box.top, box.bottom, document.getElementById("toolbar").getBoundingClientRect().bottom, innerHeight];
        }"""
    )
    return top >= bar - 1 and bottom <= height + 1


def test_keys_work_after_the_slider_and_the_number(opened):
    page = opened(made_up())
    page.locator("#budget-slider").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#budget").input_value() != "20"  # arrows belong to the slider
    page.keyboard.press("k")
    page.locator("#budget-slider").click()
    page.keyboard.press("a")
    page.keyboard.press("ArrowDown")  # after a click, to the list
    page.locator("#budget").fill("30")
    page.keyboard.press("s")
    assert decided(page) == 3
    assert page.evaluate("current") > 2


def test_keys_work_after_a_filter(opened):
    page = opened(made_up())
    page.locator("#given").select_option("cat")
    page.locator("#given").focus()
    page.keyboard.press("k")
    assert page.locator("#given").input_value() == "0"
    assert decided(page) == 1
    page.locator("#confusions button").first.click()
    page.keyboard.press("a")
    assert decided(page) == 2


@pytest.mark.parametrize("key", ["Enter", "Escape", "ArrowDown"])
def test_keys_work_after_a_search(opened, key):
    page = opened(made_up())
    page.keyboard.press("/")
    page.keyboard.type("a")  # is text here
    assert decided(page) == 0
    page.keyboard.press(key)
    page.keyboard.press("k")
    assert decided(page) == 1
    assert page.locator("#search").input_value() == "a"


def test_c_clears_a_decision(opened):
    page = opened(made_up())
    page.keyboard.press("k")
    page.keyboard.press("p")
    page.locator("[data-decision=clear]").click()
    assert decided(page) == 0
    page.keyboard.press("c")
    expect(page.locator("#message")).to_have_text("There is no decision to clear.")
    page.keyboard.press("u")
    assert decided(page) == 1


@pytest.mark.parametrize("width", [1000, 1280, 1920])
def test_the_page_follows_the_selected_sample(opened, width):
    page = opened(made_up(expected=60), width)
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    page.keyboard.press("n")
    assert in_view(page)
    for _ in range(30):
        page.keyboard.press("k")
        assert in_view(page)
    page.evaluate("scrollTo(0, 0)")
    page.keyboard.press("Home")
    assert in_view(page)


@pytest.mark.parametrize(("width", "height"), [(390, 844), (768, 1024), (1280, 800), (1920, 1080)])
def test_samples_are_above_the_fold_and_nothing_overflows(opened, width, height):
    page = opened(made_up(), width, height)
    assert page.locator("[data-decision=keep]").bounding_box()["y"] < height - 40
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_column_names_break_only_between_words(opened):
    values = np.random.default_rng(0).normal(size=(60, 3))
    frame = pd.DataFrame(values, columns=["mean_concavity_of_the_nucleus", "compactness", "w" * 40])
    page = opened(made_up(data=open_data(frame, np.array(CLASSES)[np.arange(60) % 3])), 1000)
    heading = page.locator(".columns tbody th", has_text="compactness").first
    height = page.evaluate("element => parseFloat(getComputedStyle(element).lineHeight)", heading.element_handle())
    assert heading.bounding_box()["height"] < 2 * height
    assert page.locator(".columns tbody th wbr").count() == 4
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_dataset_and_the_label_column_are_named(opened):
    found = made_up()
    found.summary["source"] = {"path": "../data/flowers.csv", "label": "species"}
    page = opened(found)
    expect(page.locator("h1")).to_have_text("Labels to look at in flowers.csv, column species")
    assert page.title() == "errata: labels to look at in flowers.csv"


def test_a_model_that_guesses_gives_no_numbers(opened):
    found = made_up()
    page = opened(replace(found, summary={**found.summary, "held_out_loss": 2.0}))
    expect(page.locator("#head")).to_contain_text("How many labels are wrong is not known")
    page.keyboard.press("k")
    page.keyboard.press("p")
    shown = page.locator("body").inner_text()
    assert "expect" not in shown.replace("unexpected", "")
    assert "probably wrong" not in shown
    expect(page.locator("#budget-figure")).to_be_hidden()


def test_where_classes_overlap_no_expected_number_is_shown(opened):
    found = made_up()
    page = opened(replace(found, ranking=found.ranking.assign(p_wrong=np.linspace(0.95, 0.05, 60))))
    expect(page.locator("#head")).to_contain_text("of 60 labels are wrong")
    expect(page.locator("#head")).to_contain_text("classes overlap")
    page.keyboard.press("k")
    page.keyboard.press("p")
    shown = page.locator("body").inner_text()
    assert "expect" not in shown
    assert "probably wrong" not in shown
    expect(page.locator("#budget-figure")).to_be_hidden()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("#printed th").all_text_contents() == [
        "rank", "sample", "given", "suggested", "decision", "new label"
    ]  # fmt: skip
    assert page.locator("#printed tbody tr").first.locator("td").all_text_contents()[3:] == ["dog", "keep", ""]


def test_random_samples_do_not_stand_out_in_the_queue(opened):
    found = made_up(samples=200)
    ranking = found.ranking
    page = opened(
        replace(
            found, ranking=ranking.assign(suggested=ranking["suggested"].where(ranking.index < 100, ranking["label"]))
        ),
        status="queue",
    )
    shown = page.locator("#list [role=option] .pair").all_inner_texts()
    assert len(shown) > 5
    assert all(given != suggested for given, suggested in (pair.split("→") for pair in shown))
    position = page.evaluate("places.findIndex(agreesWithLabel)")
    page.evaluate("at => choose(at)", position)
    place = page.evaluate("current")
    expect(page.locator("#detail")).not_to_contain_text("The model suggests the given label.")
    other = page.locator("[data-decision=accept] b").inner_text().strip()
    assert other == {"cat": "dog", "dog": "owl", "owl": "cat"}[ranking["label"][place]]  # suggested most often instead
    page.keyboard.press("a")
    row = page.evaluate("decisionsCsv()").splitlines()[1].split(",")
    assert [*row[:4], row[6]] == [str(place), ranking["label"][place], "relabel", other, "yes"]
    page.evaluate("at => choose(at)", position)
    expect(page.locator("#detail")).to_contain_text("The model suggests the given label.")


def test_labels_that_differ_in_spaces_or_case_are_told_apart(opened):
    page = opened(made_up(classes=("cat", "Cat", "cat ", "owl  x")))
    texts = page.locator("#list .given").all_inner_texts()
    assert {"cat", "Cat", "cat␣"} <= set(texts)
    expect(page.locator("#notes")).to_contain_text("These labels differ only in case or spaces: “cat”, “Cat”, “cat␣”.")
    page.keyboard.press("n")
    page.keyboard.press("n")
    page.keyboard.press("k")
    assert "cat ,keep" in page.evaluate("decisionsCsv()").replace('"', "")


def test_random_samples_are_mixed_into_the_queue_and_counted(opened, tmp_path, errata_command):
    folder = made_up_result(tmp_path / "errata-out", samples=200)
    found = Found.open(folder)
    page = opened(found, status="queue")
    page.locator("#budget").fill("200")
    page.locator("#budget").press("Enter")
    positions, drawn, order = (
        random_positions(120, found.random_seed),
        random_order(200, found.random_seed).tolist(),
        [],
    )
    for at_random in positions.tolist():  # the samples are ranked in the order of their rows
        order.append(next(row for row in (drawn if at_random else range(200)) if row not in order))
    assert page.evaluate("places.slice(0, 120)") == order
    shown = page.locator("#detail")
    for row in order:
        expect(shown.locator("h2")).to_have_text(f"sample s{row}")  # without a rank
        expect(shown).not_to_contain_text("probably wrong")
        page.keyboard.press("a" if row < 20 else "k")
    page.locator("#list").press("ArrowUp")
    expect(shown.locator("h2")).to_contain_text(f"#{order[-1] + 1}")  # after the verdict
    with page.expect_download() as download:
        page.locator("#download").click()
    download.value.save_as(tmp_path / "decisions.csv")
    table = pd.read_csv(tmp_path / "decisions.csv").set_index("id")
    assert table.index[table["random"] == "yes"].tolist() == [f"s{row}" for row in sorted(np.array(order)[positions])]
    arrays = (found.ranking["p_wrong"], order, [int(row < 20) for row in order], positions)
    review = errata.certify(folder, tmp_path / "decisions.csv")
    assert (review.count, review.certificate) == (count_wrong(*arrays), certify_recall(*arrays))
    fewer = table.drop(index=f"s{order[50]}").reset_index()  # draws after a sample without a verdict do not count
    assert errata.certify(folder, fewer).count.checks == positions[:50].sum()
    code, _, message = errata_command("certify", folder, "--decisions", tmp_path / "decisions.csv", "--draw", 5)
    assert (code, message) == (0, "")
    assert pd.read_csv(folder / "random-part.csv")["how"].tolist()[-5:] == ["random"] * 5
    assert errata.certify(folder, tmp_path / "decisions.csv").count == review.count
