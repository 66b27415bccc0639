// place -> {decision, label}; label is the new label, or "".
const decisions = new Map();
const steps = [];  // steps to undo, each a list of [place, earlier decision or null]
const storageKey = `errata:${report.run}`;
let storageWorks = true;
let undownloaded = false;

/** Decisions in the form in which they are stored: [place, decision, label]. */
const asEntries = () => [...decisions].map(([place, entry]) => [place, entry.decision, entry.label]);

function restoreDecisions() {
  try {
    const stored = localStorage.getItem(storageKey);
    decisions.clear();
    for (const [place, decision, label] of JSON.parse(stored ?? "[]")) decisions.set(place, {decision, label});
  } catch (error) {
    storageWorks = false;
    console.warn(error);
  }
}

function storeDecisions() {
  undownloaded = true;
  try {
    localStorage.setItem(storageKey, JSON.stringify(asEntries()));
  } catch (error) {
    storageWorks = false;
    console.warn(error);
  }
}

/** Store several decisions as one step that can be undone; null deletes a decision. */
function decideAll(changes) {
  steps.push(changes.map(([place]) => [place, decisions.get(place) ?? null]));
  for (const [place, entry] of changes) entry === null ? decisions.delete(place) : decisions.set(place, entry);
  storeDecisions();
}

/** Choosing the given label means keep; choosing the suggested label means accept. */
function decisionFor(place, decision, label = "") {
  if (decision === "accept") label = suggestedOf(place);
  if (decision === "keep" || decision === "skip") return {decision, label: ""};
  if (label === givenOf(place)) return {decision: "keep", label: ""};
  return {decision: label === suggestedOf(place) ? "accept" : "relabel", label};
}

/** Undo the last step; returns its places, or null if there is nothing to undo. */
function undoLast() {
  const step = steps.pop();
  if (!step) return null;
  for (const [place, before] of step) before === null ? decisions.delete(place) : decisions.set(place, before);
  storeDecisions();
  return step.map(([place]) => place);
}

const isChange = entry => entry !== undefined && (entry.decision === "accept" || entry.decision === "relabel");

function decisionsCsv() {
  const places = [...decisions.keys()].sort((a, b) => a - b);
  const line = place => csvLine([ids[place], givenOf(place), decisions.get(place).decision, decisions.get(place).label]);
  return csvLine(["id", "label", "decision", "new_label"]) + places.map(line).join("");
}

/** Load a decisions.csv; returns a message about the result. */
function loadDecisions(text) {
  const [header = [], ...rows] = parseCsv(text);
  const [idAt, labelAt, decisionAt, newAt] = ["id", "label", "decision", "new_label"].map(name => header.indexOf(name));
  if ([idAt, labelAt, decisionAt, newAt].includes(-1))
    return "This file is not a decisions.csv: its first line must name the columns id, label, decision and new_label.";
  const placeOf = new Map(ids.map((id, place) => [id, place]));
  const changes = new Map();
  let unlisted = 0, relabelled = 0, invalid = 0, replaced = 0;
  for (const row of rows) {
    const place = placeOf.get(row[idAt]);
    const [decision, label] = [row[decisionAt], row[newAt] ?? ""];
    if (place === undefined) unlisted++;
    else if (row[labelAt] !== givenOf(place)) relabelled++;
    else if (!DECISIONS.includes(decision) || (label === "" && (decision === "accept" || decision === "relabel"))) invalid++;
    else {
      const entry = decisionFor(place, decision === "accept" ? "relabel" : decision, label);
      const before = decisions.get(place);
      if (before && (before.decision !== entry.decision || before.label !== entry.label)) replaced++;
      changes.set(place, entry);
    }
  }
  if (changes.size) decideAll([...changes]);
  const message = [`Loaded ${counted(changes.size, "decision")}.`];
  if (replaced) message.push(`Replaced ${counted(replaced, "decision")} made here.`);
  const ignored = [[unlisted, "for samples not in this list"], [relabelled, "for samples with another label here"],
    [invalid, "invalid (not keep, accept, relabel or skip, or without a new label)"]].filter(([count]) => count);
  if (ignored.length) message.push(`Ignored: ${ignored.map(([count, why]) => `${whole(count)} ${why}`).join("; ")}.`);
  return message.join(" ");
}
