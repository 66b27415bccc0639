// place -> {decision, label, by}; label is the new label, or "". by: who decided so and when, in pairs of texts; nobody is named
// for a decision made on this page. A server has its own log instead.
const decisions = new Map();
const steps = [];  // steps to undo, each a list of [place, earlier decision or null]
const storageKey = `errata:${report.run}`;
const replaced = new Map();  // place -> the decision made here that the last loaded file replaced
const MOST_REPLACED = 20;  // in a message
let storageWorks = true;
let undownloaded = false;

/** Do something with the browser's storage. If that fails, decisions stay on the page only. */
function withStorage(action) {
  try {
    action();
  } catch (error) {
    storageWorks = false;
    console.warn(error);
  }
}

const setOrDelete = (map, key, value) => value === null ? map.delete(key) : map.set(key, value);

function restoreDecisions() {
  if (team) return;
  withStorage(() => {
    const stored = localStorage.getItem(storageKey);
    decisions.clear();
    for (const [place, decision, label, by = [["", ""]]] of JSON.parse(stored ?? "[]")) decisions.set(place, {decision, label, by});
  });
}

function storeDecisions() {
  undownloaded = true;
  withStorage(() => localStorage.setItem(storageKey, JSON.stringify([...decisions].map(([place, {decision, label, by}]) => [place, decision, label, by]))));
}

/** Store several decisions as one step that can be undone; null deletes a decision. */
function decideAll(changes) {
  if (team) {
    for (const [place, entry] of changes) sendVerdict(place, entry);
    foldOwn();
    return;
  }
  steps.push(changes.map(([place]) => [place, decisions.get(place) ?? null]));
  const by = [["", new Date().toISOString()]];
  for (const [place, entry] of changes) setOrDelete(decisions, place, entry && {by, ...entry});
  storeDecisions();
}

/** Choosing the given label means keep; choosing the suggested label means accept. */
function decisionFor(place, decision, label = "") {
  if (decision === "accept") label = shownSuggestedName(place);
  if (decision === "keep" || decision === "skip") return {decision, label: ""};
  if (label === givenOf(place)) return {decision: "keep", label: ""};
  return {decision: label === suggestedOf(place) ? "accept" : "relabel", label};
}

/** Undo the last step; returns its places, or null if there is nothing to undo. */
function undoLast() {
  if (team) return undoOwn();
  const step = steps.pop();
  if (!step) return null;
  for (const [place, before] of step) setOrDelete(decisions, place, before);
  storeDecisions();
  return step.map(([place]) => place);
}

const isChange = entry => entry !== undefined && (entry.decision === "accept" || entry.decision === "relabel");

function decisionsCsv() {
  const places = [...decisions.keys()].sort((a, b) => a - b);
  const drawn = place => drawnAtRandom.has(place) ? "yes" : "";
  const lines = place => {
    const {decision, label, by} = decisions.get(place);
    return by.map(([reviewer, time]) => csvLine([ids[place], givenOf(place), decision, label, reviewer, time, drawn(place)])).join("");
  };
  return csvLine(["id", "label", "decision", "new_label", "reviewer", "time", "random"]) + places.map(lines).join("");
}

const inWords = entry => entry.label === "" ? entry.decision : `${entry.decision} ${entry.label}`;

/** The pairs of a reviewer and a time in either list, each once. */
const joined = (by, more) => [...new Map([...by, ...more].map(pair => [JSON.stringify(pair), pair])).values()];

/** `Replaced 2 decisions made here: sample 4 (keep, now accept dog), ...`. */
function replacedMessage() {
  const all = [...replaced].map(([place, before]) => `sample ${ids[place]} (${inWords(before)}, now ${inWords(decisions.get(place))})`);
  const more = all.length > MOST_REPLACED ? ` and ${whole(all.length - MOST_REPLACED)} more` : "";
  return `Replaced ${counted(all.length, "decision")} made here: ${all.slice(0, MOST_REPLACED).join(", ")}${more}.`;
}

/** Load a decisions.csv; returns a message about the result. A skipped sample keeps the decision made here. */
function loadDecisions(text) {
  const parsed = parseCsv(text);
  if (parsed === null) return "Nothing was loaded: a quote in this file is not closed.";
  const [header = [], ...rows] = parsed;
  const [idAt, labelAt, decisionAt, newAt] = ["id", "label", "decision", "new_label"].map(name => header.indexOf(name));
  const [reviewerAt, timeAt] = ["reviewer", "time"].map(name => header.indexOf(name));
  if ([idAt, labelAt, decisionAt, newAt].includes(-1))
    return "This file is not a decisions.csv: its first line must name the columns id, label, decision and new_label.";
  const placeOf = new Map(ids.map((id, place) => [id, place]));
  const changes = new Map();
  let unlisted = 0, relabelled = 0, invalid = 0;
  replaced.clear();
  for (const row of rows) {
    const place = placeOf.get(row[idAt]);
    const [decision, label] = [row[decisionAt], row[newAt]];
    if (row.length < header.length || row.slice(header.length).some(cell => cell.trim())) invalid++;
    else if (place === undefined) unlisted++;
    else if (row[labelAt] !== givenOf(place)) relabelled++;
    else if (!DECISIONS.includes(decision) || (label === "" && (decision === "accept" || decision === "relabel"))) invalid++;
    else {
      const entry = decisionFor(place, decision === "accept" ? "relabel" : decision, label);
      const before = changes.get(place) ?? decisions.get(place);
      entry.by = [[row[reviewerAt] ?? "", row[timeAt] ?? ""]];
      if (before && inWords(before) === inWords(entry)) entry.by = joined(before.by, entry.by);
      if (before && before.decision !== "skip" && inWords(before) !== inWords(entry)) {
        if (entry.decision === "skip") continue;
        if (decisions.has(place)) replaced.set(place, decisions.get(place));
      }
      changes.set(place, entry);
    }
  }
  if (changes.size) decideAll([...changes]);
  const message = [`Loaded ${counted(changes.size, "decision")}.`];
  if (replaced.size) message.push(replacedMessage());
  const ignored = [[unlisted, "for samples not in this list"], [relabelled, "for samples with another label here"],
    [invalid, "invalid (not keep, accept, relabel or skip, without a new label, or with too few or too many cells)"]].filter(([count]) => count);
  if (ignored.length) message.push(`Ignored: ${ignored.map(([count, why]) => `${whole(count)} ${why}`).join("; ")}.`);
  return message.join(" ");
}
