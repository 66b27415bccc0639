const filters = {budget: report.budget, given: -1, suggested: -1, agreeing: 0, status: "all", search: ""};
const haystacks = new Array(listed);  // made when first searched: it doubles what the page holds

function haystackOf(place) {
  haystacks[place] ??= [ids[place], givenOf(place), suggestedOf(place), ...columnsOf(place)].join("\n").toLowerCase();
  return haystacks[place];
}

function hasStatus(place, status) {
  const made = decisions.get(place);
  if (status === "undecided") return made === undefined;
  if (status === "decided") return made !== undefined;
  if (status === "changed") return isChange(made);
  if (status === "skip") return made?.decision === "skip";
  if (status === "conflict") return inConflict.has(place);
  return true;
}

/** The places within the budget that pass every filter, most suspicious first. */
function matchingPlaces() {
  const {budget, given, suggested, agreeing, status} = filters;
  const search = filters.search.trim().toLowerCase();
  const places = [];
  for (let place = 0; place < budget; place++) {
    if (given >= 0 && report.label[place] !== given) continue;
    if (suggested >= 0 && report.suggested[place] !== suggested) continue;
    if (agreeing > 0 && !(report.agree[place] >= agreeing)) continue;
    if (!hasStatus(place, status)) continue;
    if (search && !haystackOf(place).includes(search)) continue;
    places.push(place);
  }
  return places;
}

/** Budgets the slider stops at: close together where they are small. */
function budgetStops() {
  const stops = new Set();
  for (let stop = 1; stop < listed; stop = Math.max(stop + 1, stop * 1.08)) {
    const unit = 10 ** Math.max(0, Math.floor(Math.log10(stop)) - 1);
    stops.add(Math.min(listed, Math.round(stop / unit) * unit));
  }
  return [...stops.add(report.budget).add(listed)].sort((a, b) => a - b);
}

/** Expected errors among the first `count`, between the points of the curve on a straight line. */
function expectedAmong(count) {
  const {inspected, expected} = report.curve;
  const after = inspected.findIndex(point => point >= count);
  if (after <= 0) return expected[Math.max(after, 0)];
  const share = (count - inspected[after - 1]) / (inspected[after] - inspected[after - 1]);
  return expected[after - 1] + share * (expected[after] - expected[after - 1]);
}
