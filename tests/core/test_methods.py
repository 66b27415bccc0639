import csv
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from errata.core.aggregations import CTRL, EMA, LateStopping
from errata.core.composed_method import ComposedMethod
from errata.core.confident_learning import ConfidentLearning
from errata.core.measures import CPD
from errata.core.method_parts import VectorAggregation
from errata.core.method_registry import registered
from errata.core.methods import all_methods, methods, paper_methods, parse
from errata.errors import InputError

PAPER_ROWS = """
Last-CE/JS | Last-LM | Last-LM (OOS) | Mean-CE | Mean-JS | Mean-LM | Mean-LM (OOS) | Mean-CPD | MeanProb-CE/JS |
MeanProb-LM | SWA-CE/JS | SWA-LM | LateStopping-CPD | CTRL-CE | CTRL-JS | CTRL-LM | CTRL-CPD | CL-CC (IS) |
CL-CC (OOS) | CL-CYY (IS) | CL-CYY (OOS) | CL-PBC (IS) | CL-PBC (OOS) | CL-PBNR (IS) | CL-PBNR (OOS)
"""


def test_the_rows_of_the_papers_tables():
    rows = {row.strip() for row in PAPER_ROWS.split("|")}
    assert len(rows) == 25
    assert {method.paper_name for method in paper_methods()} == rows
    assert {parse(row).name for row in rows} == {method.name for method in paper_methods()}


PUBLISHED = Path(os.environ.get("ERRATA_PAPER", Path(__file__).parents[3] / "shared/paper")) / "fnr_at_noise_rate.csv"


@pytest.mark.skipif(not PUBLISHED.exists(), reason="the published tables are not here")
def test_the_published_table_parses():
    names = {row["method"] for row in csv.DictReader(PUBLISHED.open())}
    assert names == {method.paper_name for method in paper_methods()}


def test_all_methods_are_listed_once():
    names = [method.name for method in all_methods()]
    aggregations, measures = registered("aggregation").values(), registered("measure")
    with_vector = 2 * sum(issubclass(kind, VectorAggregation) for kind in aggregations) * len(measures)
    assert len(names) == len(set(names)) == 2 * len(aggregations) * len(measures) + 8 + 5 * with_vector


parameters = st.sampled_from(
    [EMA(0.5), EMA(0.99), LateStopping(2), LateStopping(3, 0.25), CTRL(2, 3, 1), CTRL(alpha=0.5, smooth=3)]
)


@given(st.sampled_from(list(all_methods())), st.one_of(st.none(), parameters))
def test_names_round_trip(method, aggregation):
    if aggregation is not None and isinstance(method, ComposedMethod):
        method = ComposedMethod(aggregation, method.measure, method.gathering)
    for spelling in (method.name, method.name.lower(), f"  {method.name} ", method.paper_name):
        found = parse(spelling)
        assert found == method or (found.name, method.measure.name) == (method.name.replace("-JS", "-CE"), "JS")
    assert parse(method) is method


def test_parameters_in_names():
    assert parse("LateStopping(k=2)-CPD") == ComposedMethod(LateStopping(2), CPD)
    assert parse("EMA(decay=0.90)-lm").name == "EMA-LM"
    assert parse("CTRL( windows=4, clusters=3,selected=1 )-CE").aggregation == CTRL(4, 3, 1)
    assert parse("CL-PBC(cleanlab=1) (OOS)") == ConfidentLearning("PBC", "out-of-sample", cleanlab=True)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("MeanProb-ML", "did you mean 'MeanProb-LM'"),
        ("meanprob", "did you mean 'MeanProb"),
        ("CL-PBNC", "did you mean 'CL-PB"),
        ("AUM", "did you mean 'Mean-LM'"),
        ("Late Stopping", "did you mean 'LateStopping-CPD'"),
        ("no such thing at all", "`errata methods` lists them"),
        (5, "a method must be a name"),
        ("LateStopping(k=nan)-CPD", "k is 'nan', not a number"),
        ("LateStopping(k=inf)-CPD", "k is 'inf', not a number"),
        ("LateStopping(k=2,k=3)-CPD", "k is set twice"),
        ("CTRL(windows=1.5,clusters=2,selected=1)-CE", "whole number of windows"),
        ("CTRL(smooth=2.5)-CE", "whole number of smooth"),
        ("Mean-JS/CE", "choose one of them"),
        ("", "unknown method ''"),
        ("Mean-CE(" * 20_000, "its name has 160,000 characters"),
        ("Mean-CE/JS", "choose one of them"),
        ("EMA(speed=3)-LM", "no parameter 'speed'"),
        ("EMA(decay=fast)-LM", "not a number"),
        ("Mean(x=1)-LM", "no parameter 'x'"),
        ("CL-PBNR(x=1)", "no parameter 'x'"),
    ],
)
def test_unknown_names_are_refused_with_help(name, message):
    with pytest.raises(InputError, match=message.replace("(", r"\(")):
        parse(name)


def test_the_table_names_the_literature_and_every_reason():
    table = methods().set_index("method")
    known = ", ".join(table["known_from"]).lower()
    published = """Co-teaching, DivideMix, Unicon, Jo-SRC, Dataset Cartography, O2U-Net, AUL, AUM, SELF, Wrong Event,
    Late Stopping, CTRL, confident learning"""
    for name in map(str.strip, published.split(",")):
        assert name.lower() in known
    assert (table["in_paper"] == (table["left_out"] == "")).all()
    assert table.loc["Mean-LM", "known_from"] == "AUM"
    assert "tie" in table.loc["Last-CPD", "left_out"]
    assert table.loc["MeanProb-LM (OOS)", "left_out"]
