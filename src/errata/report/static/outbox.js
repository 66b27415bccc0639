// Verdicts that the server has not acknowledged, and those that it refused. This browser keeps them for the review and the
// reviewer, so that they are there again over another link.
const outbox = new Map();  // key -> event that the server has not acknowledged
const refused = new Map();  // key -> event that the server will never take, with its reason
const prefixOf = kept => `errata:${kept === outbox ? "outbox" : "refused"}:${team.review}:${team.reviewer}:`;

const newKey = () => [...crypto.getRandomValues(new Uint8Array(16))].map(byte => byte.toString(16).padStart(2, "0")).join("");

/** An event about a sample that is kept until the server acknowledges it. */
const newEvent = (place, verdict, more) => ({key: newKey(), made: Date.now() + outbox.size / 1000, sample: ids[place],
  label: givenOf(place), rank: place + 1, suggestion: shownSuggestedName(place), verdict, ...more});

function keep(event, kept = outbox) {
  kept.set(event.key, event);
  withStorage(() => localStorage.setItem(prefixOf(kept) + event.key, JSON.stringify(event)));
}

function drop(key, kept = outbox) {
  kept.delete(key);
  withStorage(() => localStorage.removeItem(prefixOf(kept) + key));
}

/** Events of an earlier visit that were not acknowledged, or were refused, in the order in which they were made. */
function readKept() {
  for (const kept of [outbox, refused]) withStorage(() => {
    const keys = Object.keys(localStorage).filter(key => key.startsWith(prefixOf(kept)));
    const events = keys.map(key => JSON.parse(localStorage.getItem(key))).sort((a, b) => a.made - b.made);
    for (const event of events) kept.set(event.key, event);
  });
  drawRefused();
}

const unsentSamples = () => new Set([...outbox.values()].map(event => event.sample));

/** The server will never take these events: send them no more, and list them until the reviewer dismisses the list. */
function refuse(events, reasons) {
  for (const event of events) { drop(event.key); keep({...event, reason: reasons.get(event.key)}, refused); }
  drawRefused();
  byId("refused").open = true;
}

function drawRefused() {
  byId("refused").hidden = !refused.size;
  byId("refused-count").textContent = `${counted(refused.size, "verdict")} refused and not stored`;
  byId("refused-list").replaceChildren(...[...refused.values()].map(({verdict, new_label, sample, reason}) =>
    make("li", {}, `${inWords({decision: verdict, label: new_label ?? ""})} for sample ${sample}: ${reason}`)));
}

function refusedCsv() {
  const line = event => csvLine([event.sample, event.label, event.verdict, event.new_label ?? "", team.reviewer,
    new Date(event.made).toISOString(), event.reason]);
  return csvLine(["id", "label", "decision", "new_label", "reviewer", "time", "reason"]) + [...refused.values()].map(line).join("");
}

if (team) {
  byId("download-refused").addEventListener("click", () => saveFile("refused.csv", refusedCsv()));
  byId("dismiss-refused").addEventListener("click", () => {
    for (const key of [...refused.keys()]) drop(key, refused);
    drawRefused();
  });
}
