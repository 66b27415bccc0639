"""The samples of a review, and the page that shows them: that of report.html, with a server to store decisions."""

import json
import re
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from errata.core.random_part import random_order
from errata.dynamics.ids import match_ids
from errata.finding.answer import report_data
from errata.finding.attached_data import earlier_run
from errata.finding.found import REPORT, Found
from errata.readers import UserData
from errata.report.page import page_html, payload, sample_columns, script_json
from errata.report.sample_details import SampleDetails
from errata.review.reranking import NEIGHBOURS

EMBEDDED = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)


class ReviewSamples:
    """The ranking of a folder that `errata find` wrote, held in memory. Places are positions in it, from 0."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.found = Found.open(folder)
        run = earlier_run(self.found.dynamics)
        self.data: UserData | None = run.data
        ranking = self.found.ranking
        self.ids, self.labels, self.suggested = (
            [str(value) for value in ranking[name].tolist()] for name in ("id", "label", "suggested")
        )
        self.places = {id_: place for place, id_ in enumerate(self.ids)}
        self.p_wrong: NDArray[np.float64] = ranking["p_wrong"].to_numpy(dtype=np.float64)
        dynamics = self.found.dynamics
        self.classes = list(dict.fromkeys(str(dynamics.class_name(number)) for number in range(dynamics.num_classes)))
        self.class_codes = {name: code for code, name in enumerate(self.classes)}
        self.label_codes = np.array([self.class_codes[label] for label in self.labels], dtype=np.int64)
        self._report = report_data(self.found)
        self.payload: dict[str, Any] = payload(self._report, None, self._stored_payload())
        if self.data is not None and self.payload["contents"]["form"] == "nothing":
            self._report = report_data(replace(self.found, data=self.data))
            self.payload = payload(self._report, None)
        self._details = SampleDetails(dynamics, self.data, self.classes)

    @property
    def run(self) -> str:
        """The key of these results. It changes with the samples, their labels and their order."""
        return str(self.payload["run"])

    def _stored_payload(self) -> dict[str, Any] | None:
        """The data in report.html, which hold pictures and texts already; None if there are none."""
        path = self.folder / REPORT
        embedded = EMBEDDED.search(path.read_text(encoding="utf-8")) if path.is_file() else None
        try:
            stored = json.loads(embedded[1]) if embedded else None
        except ValueError:
            return None
        return stored if isinstance(stored, dict) else None

    def page(self, server: dict[str, Any]) -> str:
        """The page for one reviewer. server: what the page knows about the server."""
        return page_html(self._report, self._payload_json, server)

    @cached_property
    def _payload_json(self) -> str:
        return script_json(self.payload)

    def details(self, place: int) -> dict[str, Any]:
        """The contents and losses of a sample that the page lacks, and its numbers if it is not listed."""
        row = self.found.ranking.iloc[place : place + 1]
        details = self._details.of(row["id"].to_numpy(), self.payload)
        if place >= len(self.payload["id"]):
            details["columns"] = {name: column[0] for name, column in sample_columns(row, self.class_codes).items()}
        return details

    @property
    def seed(self) -> int:
        """The seed of the random part, which `errata certify --draw` uses too."""
        return self.found.random_seed

    @cached_property
    def _row_places(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """The row (N,) of the stored run at each place, and the place (N,) of each row."""
        rows = match_ids(self.found.dynamics.ids, self.found.ranking["id"].to_numpy())
        place_of_row = np.empty(len(rows), dtype=np.int32)
        place_of_row[rows] = np.arange(len(rows), dtype=np.int32)
        return rows, place_of_row

    @property
    def random_places(self) -> list[int]:
        """All places in random order."""
        places: list[int] = self._row_places[1][random_order(len(self.ids), self.seed)].tolist()
        return places

    @cached_property
    def near(self) -> NDArray[np.int32] | None:
        """The places (N, k) of the nearest neighbours of every sample; None if the run stored no features or inputs."""
        dynamics = self.found.dynamics
        spaces = dynamics.context
        if not spaces.points:
            return None
        rows, place_of_row = self._row_places
        index = spaces.nearest("features" if "features" in spaces.points else "inputs", NEIGHBOURS)
        near: NDArray[np.int32] = place_of_row[index[rows]]
        return near
