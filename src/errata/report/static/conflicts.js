function drawConflicts() {
  const {rows, groups, group, id, label, place} = report.conflicts;
  if (!rows) return;
  byId("conflicts").hidden = false;
  const some = rows > group.length ? ` The first ${whole(group.length)} are shown; conflicts.csv has all.` : "";
  byId("conflict-note").textContent =
    `${counted(rows, "sample")} in ${counted(groups, "group")}: within a group, inputs are the same and labels differ.${some}`;
  const head = make("tr", {}, ...["group", "sample", "label"].map(name => make("th", {scope: "col"}, name)));
  const body = group.map((number, at) => {
    const link = place[at] < 0 ? id[at] : make("button", {type: "button", class: "link"}, id[at]);
    if (place[at] >= 0) link.dataset.place = place[at];
    return make("tr", {class: at && group[at - 1] !== number ? "rule" : ""},
      make("td", {}, String(number)), make("td", {}, link), make("td", {}, label[at]));
  });
  byId("conflict-table").append(make("thead", {}, head), make("tbody", {}, ...body));
}

byId("conflict-table").addEventListener("click", event => {
  const place = Number(event.target.closest("[data-place]")?.dataset.place ?? -1);
  if (place < 0) return;
  clearFilters(Math.max(filters.budget, place + 1));
  choose(places.indexOf(place));
  list.focus();
});
