const firstStatus = team || report.random ? "queue" : "all";
const filters = {
  budget: report.budget, given: -1, suggested: -1, agreeing: 0, status: firstStatus, search: "",
};
/** Whether a sample must not stand out: ranks, numbers and agreement would show which ones were drawn at random. */
const isBlind = place => filters.status === "queue" && !decisions.has(place);
/** The suggested class as it is shown: in a queue another class than the given one, also if the model agrees with that. */
const shownSuggestion = place => isBlind(place) && agreesWithLabel(place) ? report.alternatives[report.label[place]] : report.suggested[place];
const shownSuggestedName = place => className(shownSuggestion(place));
const haystacks = new Array(listed);  // built on the first search, to save memory

function haystackOf(place) {
  haystacks[place] ??= [ids[place], givenOf(place), suggestedOf(place), ...columnsOf(place)].join("\n").toLowerCase();
  return haystacks[place];
}

function hasStatus(place, status) {
  const entry = decisions.get(place);
  if (status === "undecided") return entry === undefined;
  if (status === "decided") return entry !== undefined;
  if (status === "changed") return isChange(entry);
  if (status === "skip") return entry?.decision === "skip";
  if (status === "replaced") return replaced.has(place);
  if (status === "conflict") return inConflict.has(place);
  if (status === "others") return others.has(place);
  return true;
}

/** The places that the filters choose from: the first of the review or of the ranking, or with a server the own queue. */
function candidatePlaces() {
  if (filters.status === "queue") return team ? queue : reviewOrder.slice(0, filters.budget);
  if (filters.status === "disagreement") return disagreements;
  return Array.from({length: team && filters.status !== "all" ? listed : filters.budget}, (_, place) => place);
}

/** The candidates that match all filters. */
function matchingPlaces() {
  const {given, suggested, agreeing, status} = filters;
  const search = filters.search.trim().toLowerCase();
  const places = [];
  for (const place of candidatePlaces()) {
    if (given >= 0 && report.label[place] !== given) continue;
    if (suggested >= 0 && shownSuggestion(place) !== suggested) continue;
    if (agreeing > 0 && !(report.agree[place] >= agreeing)) continue;
    if (!hasStatus(place, status)) continue;
    if (search && !haystackOf(place).includes(search)) continue;
    places.push(place);
  }
  return places;
}

/** The budgets of the slider: dense for small values. */
function budgetStops() {
  const stops = new Set();
  for (let stop = 1; stop < listed; stop = Math.max(stop + 1, stop * 1.08)) {
    const unit = 10 ** Math.max(0, Math.floor(Math.log10(stop)) - 1);
    stops.add(Math.min(listed, Math.round(stop / unit) * unit));
  }
  return [...stops.add(report.budget).add(listed)].sort((a, b) => a - b);
}

/** The expected errors among the first `count` samples, interpolated linearly. */
function expectedAmong(count) {
  const {inspected, expected} = report.curve;
  const after = inspected.findIndex(point => point >= count);
  if (after <= 0) return expected[Math.max(after, 0)];
  const share = (count - inspected[after - 1]) / (inspected[after] - inspected[after - 1]);
  return expected[after - 1] + share * (expected[after] - expected[after - 1]);
}
