// place -> {decision, label}; label is the new one, "" where there is none.
const decisions = new Map();
const steps = [];  // steps to undo, each a list of [place, what was decided before]
const storageKey = `errata:${report.run}`;
let storageWorks = true;
let undownloaded = false;

/** Decisions as they are stored: [place, decision, label]. */
const asEntries = () => [...decisions].map(([place, made]) => [place, made.decision, made.label]);

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

/** Take in several decisions as one step that can be undone; null takes a decision back. */
function decideAll(changes) {
  steps.push(changes.map(([place]) => [place, decisions.get(place) ?? null]));
  for (const [place, made] of changes) made === null ? decisions.delete(place) : decisions.set(place, made);
  storeDecisions();
}

/** To accept what the label says already is to keep it, and to pick the suggestion is to accept it. */
function decisionFor(place, wanted, label = "") {
  if (wanted === "accept") label = suggestedOf(place);
  if (wanted === "keep" || wanted === "skip") return {decision: wanted, label: ""};
  if (label === givenOf(place)) return {decision: "keep", label: ""};
  return {decision: label === suggestedOf(place) ? "accept" : "relabel", label};
}

/** Take the last step back; the places it was about, or null where there is nothing to undo. */
function undoLast() {
  const step = steps.pop();
  if (!step) return null;
  for (const [place, before] of step) before === null ? decisions.delete(place) : decisions.set(place, before);
  storeDecisions();
  return step.map(([place]) => place);
}

const isChange = made => made !== undefined && (made.decision === "accept" || made.decision === "relabel");

function decisionsCsv() {
  const places = [...decisions.keys()].sort((a, b) => a - b);
  const line = place => csvLine([ids[place], givenOf(place), decisions.get(place).decision, decisions.get(place).label]);
  return csvLine(["id", "label", "decision", "new_label"]) + places.map(line).join("");
}

/** Take in a decisions.csv; returns the sentence that says what came of it. */
function loadDecisions(text) {
  const [header = [], ...rows] = parseCsv(text);
  const [idAt, labelAt, decisionAt, newAt] = ["id", "label", "decision", "new_label"].map(name => header.indexOf(name));
  if ([idAt, labelAt, decisionAt, newAt].includes(-1))
    return "This is no decisions.csv: its first line must name the columns id, label, decision and new_label.";
  const placeOf = new Map(ids.map((id, place) => [id, place]));
  const changes = new Map();
  let elsewhere = 0, relabelled = 0, unclear = 0, replaced = 0;
  for (const row of rows) {
    const place = placeOf.get(row[idAt]);
    const [decision, label] = [row[decisionAt], row[newAt] ?? ""];
    if (place === undefined) elsewhere++;
    else if (row[labelAt] !== givenOf(place)) relabelled++;
    else if (!DECISIONS.includes(decision) || (label === "" && (decision === "accept" || decision === "relabel"))) unclear++;
    else {
      const made = decisionFor(place, decision === "accept" ? "relabel" : decision, label);
      const before = decisions.get(place);
      if (before && (before.decision !== made.decision || before.label !== made.label)) replaced++;
      changes.set(place, made);
    }
  }
  if (changes.size) decideAll([...changes]);
  const told = [`Loaded ${counted(changes.size, "decision")}.`];
  if (replaced) told.push(`Decided otherwise here, and replaced: ${whole(replaced)}.`);
  const leftOut = [[elsewhere, "of samples not listed here"], [relabelled, "of samples that have another label here"],
    [unclear, "that are not keep, accept, relabel or skip, or name no new label"]].filter(([count]) => count);
  if (leftOut.length) told.push(`Left out: ${leftOut.map(([count, why]) => `${whole(count)} ${why}`).join("; ")}.`);
  return told.join(" ");
}
