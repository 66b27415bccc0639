import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import errata
from errata.core.random_part import design_seed, random_order
from errata.errors import InputError, StoreError
from errata.review.certified_review import sentences
from errata.review.random_draws import FILE, draw_more, read_steps

SAMPLES, CHOSEN = 600, 80


@pytest.fixture(scope="module")
def searched():
    """The result of find on logits of two classes with a tenth of the labels wrong, and the truth by id."""
    rng = np.random.default_rng(0)
    truth = np.arange(SAMPLES) % 2
    wrong = rng.permutation(SAMPLES) < SAMPLES // 10
    labels = np.where(wrong, 1 - truth, truth)
    margins = np.where(truth == 1, 3.0, -3.0) + rng.normal(size=(4, SAMPLES))
    logits = np.stack([0 * margins, margins], axis=2)
    ids = np.array([f"s{row}" for row in range(SAMPLES)])
    dynamics = errata.Dynamics.from_arrays(logits, np.array(["no", "yes"])[labels], ids=ids, classes=["no", "yes"])
    return errata.find(dynamics), dict(zip(ids.tolist(), wrong.tolist(), strict=True))


@pytest.fixture
def folder(searched, tmp_path):
    searched[0].save(tmp_path / "errata-out")
    return tmp_path / "errata-out"


def decide(searched, ids):
    """Decisions of a perfect reviewer."""
    found, wrong = searched
    rows = found.ranking.set_index("id").loc[list(ids)]
    other = np.where(rows["label"] == "yes", "no", "yes")
    is_wrong = np.array([wrong[id_] for id_ in rows.index])
    return pd.DataFrame(
        {
            "id": rows.index,
            "label": rows["label"].to_numpy(),
            "decision": np.where(is_wrong, "relabel", "keep"),
            "new_label": np.where(is_wrong, other, ""),
        }
    )


def first_ids(searched, count=CHOSEN):
    return searched[0].ranking["id"].head(count).tolist()


def test_the_design_is_stored_with_the_results(searched, folder):
    stored = json.loads((folder / "summary.json").read_text())["random_part"]
    assert stored == {"seed": design_seed(searched[0].dynamics.labels), "share": 0.1}
    damaged = json.loads((folder / "summary.json").read_text()) | {"random_part": {"seed": "x", "share": 0.1}}
    (folder / "summary.json").write_text(json.dumps(damaged))
    with pytest.raises(StoreError, match="in its random_part, 'seed' is 'x'"):
        errata.Found.open(folder)


def test_draw_judge_certify(searched, folder, errata_command):
    decide(searched, first_ids(searched)).to_csv("decisions.csv", index=False)
    code, out, _ = errata_command("certify", str(folder), "--decisions", "decisions.csv")
    assert code == 0
    assert "80 of 600 samples have a verdict, 0 of them drawn at random: 60 wrong, 20 right, 0 unsure." in out
    assert "not known before some random samples are judged" in out
    needed = int(out.rpartition("--draw ")[2].partition(")")[0])
    code, out, _ = errata_command("certify", str(folder), "--decisions", "decisions.csv", "--draw", str(needed))
    assert code == 0
    steps = read_steps(folder, searched[0])
    assert [step.how for step in steps] == ["chosen"] * CHOSEN + ["random"] * needed
    assert not {step.id for step in steps[CHOSEN:]} & set(first_ids(searched))
    decide(searched, [step.id for step in steps]).to_csv("decisions.csv", index=False)
    code, out, _ = errata_command("certify", str(folder), "--decisions", "decisions.csv")
    assert "Certified: at least 95 % of the wrong labels are found, with 95 % confidence" in out
    assert "Between 60 and 64 labels are wrong" in out


def test_a_number_of_checks_fixed_before_needs_fewer(searched):
    found, _ = searched
    verdicts = decide(searched, first_ids(searched))
    once, often = errata.certify(found, verdicts, fixed=True), errata.certify(found, verdicts)
    assert once.certificate.more_checks < often.certificate.more_checks
    drawn = [step.id for step in draw_more(found, [], first_ids(searched), once.certificate.more_checks)][CHOSEN:]
    judged = decide(searched, [*first_ids(searched), *drawn])
    assert errata.certify(found, judged, random=drawn, fixed=True).certificate.certified
    assert errata.certify(found, judged, random=drawn).certificate.more_checks > 0


def test_draws_after_one_without_a_verdict_do_not_count(searched):
    found, _ = searched
    order = [f"s{row}" for row in random_order(SAMPLES, design_seed(found.dynamics.labels))[:20]]
    review = errata.certify(found, decide(searched, order[:8] + order[9:]), random=order)
    assert review.certificate.checks == 8
    assert review.pending == 1
    assert "1 sample of the random part has no verdict yet." in sentences(review)


def test_skipped_samples_are_unsure(searched):
    found, _ = searched
    verdicts = decide(searched, first_ids(searched))
    verdicts.loc[70:, ["decision", "new_label"]] = ["skip", ""]
    review = errata.certify(found, verdicts)
    assert review.certificate.unsure == 10
    assert review.certificate.more_checks is None
    assert "Decide some of the 10 unsure samples" in str(review)


def test_p_wrong_is_corrected(searched):
    found, wrong = searched
    review = errata.certify(found, decide(searched, first_ids(searched)))
    assert review.p_wrong[:CHOSEN].tolist() == [float(wrong[id_]) for id_ in first_ids(searched)]
    assert review.expected_next == pytest.approx(review.p_wrong[CHOSEN : CHOSEN + 100].sum())


def test_more_draws_do_not_repeat_earlier_ones(searched):
    found, _ = searched
    steps = draw_more(found, [], [], 10)
    more = draw_more(found, steps, first_ids(searched, 5), 10, first=50)
    assert len({step.id for step in more}) == len(more)
    assert {step.id for step in more[-10:]} <= set(first_ids(searched, 50))
    with pytest.raises(InputError, match=r"only \d+ samples have no verdict and no draw yet among the first 50"):
        draw_more(found, more, [], 60, first=50)


def test_the_safe_part_of_the_ranking_is_relabelled(searched, folder, errata_command):
    found, wrong = searched
    pd.DataFrame({"id": found.dynamics.ids, "y": [found.dynamics.class_name(k) for k in found.dynamics.labels]}).to_csv(
        "data.csv", index=False
    )
    decide(searched, first_ids(searched, 3)).to_csv("decisions.csv", index=False)
    options = ("data.csv", "--label", "y", "--id", "id", "--found", str(folder), "--at-most-wrong", "20%")
    code, _, err = errata_command("apply", *options, "--decisions", "decisions.csv")
    assert code == 2
    assert "at most 20 % of the changes are wrong. If the suggestions are right," in err
    assert f"errata certify {folder} --decisions decisions.csv --draw " in err
    errata_command("certify", str(folder), "--decisions", "decisions.csv", "--draw", "40", "--first", "60")
    steps = read_steps(folder, found)
    decide(searched, [step.id for step in steps]).to_csv("decisions.csv", index=False)
    code, out, _ = errata_command("apply", *options, "--decisions", "decisions.csv")
    assert code == 0
    unseen = set(first_ids(searched, 60)) - {step.id for step in steps}
    accepted = int(out.partition("the suggested labels of ")[2].partition(" samples")[0])
    assert 10 <= accepted <= len(unseen)
    log = pd.read_csv("data.corrected.csv.log.csv")
    assert (log["decisions"] == f"{folder}, accepted unseen").sum() == accepted
    assert all(wrong[id_] for id_ in log["id"])


def test_at_most_wrong_needs_decisions(folder, errata_command):
    pd.DataFrame({"id": ["s0"], "y": ["no"]}).to_csv("data.csv", index=False)
    code, _, err = errata_command("apply", "data.csv", "--found", str(folder), "--at-most-wrong", "5%")
    assert code == 2
    assert "Pass them with --decisions FILE" in err


@pytest.mark.parametrize("share", ["0", "100%", "five", "-5%", "nan"])
def test_a_share_that_is_none_is_refused(share, folder, errata_command):
    code, _, err = errata_command("certify", str(folder), "--recall", share)
    assert code == 2
    assert "--recall must be a share such as 5% or 0.05" in err


def test_decisions_of_other_data_are_refused(searched):
    found, _ = searched
    verdicts = decide(searched, first_ids(searched))
    with pytest.raises(InputError, match="the ranking has no sample 'x'"):
        errata.certify(found, verdicts.assign(id=["x", *verdicts["id"][1:]]))
    with pytest.raises(InputError, match=r"was 'maybe', and is '\w+' in the ranking \(80 such decisions\)"):
        errata.certify(found, verdicts.assign(label="maybe"))


def test_a_damaged_or_outdated_list_of_draws_is_refused(searched, folder):
    found, _ = searched
    path, header = folder / FILE, "id,label,suggested,how,seed\n"
    seed = design_seed(found.dynamics.labels)
    for text, problem in (
        ("id,label\n", "must have the columns id, label, suggested, how, seed"),
        (f"{header}s1,no,no,random,7\n", "was drawn for other labels"),
        (f"{header}zz,no,no,random,{seed}\n", "line 2 has the id 'zz'"),
        (f"{header}s1,no,no,random of the first x,{seed}\n", "'random of the first x'"),
        (f"{header}s1,no,no,random,{seed}\ns1,no,no,random,{seed}\n", "line 3"),
    ):
        path.write_text(text)
        with pytest.raises(StoreError, match=problem):
            read_steps(folder, found)


def test_results_of_earlier_versions_have_the_same_random_part(searched):
    found, _ = searched
    earlier = replace(found, summary={key: value for key, value in found.summary.items() if key != "random_part"})
    assert draw_more(earlier, [], [], 5) == draw_more(found, [], [], 5)


def test_first_without_draw_is_refused(folder, errata_command):
    code, _, err = errata_command("certify", str(folder), "--first", "5")
    assert code == 2
    assert "--first works only with --draw" in err
