// Decisions stored by `errata review`: every verdict is sent to the server, kept here until it is acknowledged, and sent
// again with the same key after a lost connection, so that none is lost and none counts twice.
const base = location.pathname.replace(/\/$/, "");
const SEND_AT_ONCE = 200;  // events in one request
const QUEUE_LOW = 5;  // undecided samples below which more are fetched
const LONGEST_PAUSE = 5000;  // milliseconds between two attempts
let own = [];  // own events that are not undone: {key, place, entry or null, kind}
const others = new Map();  // place -> verdicts of others that this reviewer may see: [name, verdict, label]
const onServer = new Map();  // place -> own verdict as the server has it, or null; others may clear it
const settled = new Map();  // place -> [name, verdict, label] of an adjudication
let queue = [], disagreements = [], panel = null;
let sending = false, pause = 250, serverNumber = -1, shownSince = performance.now(), offline = "";

/** The JSON that the server answers; its sentence is the error if it refuses. */
async function ask(path, options = {}) {
  const answer = await fetch(`${base}${path}`, {cache: "no-store", credentials: "omit", ...options});
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.error);
  return body;
}
const post = (path, body, type = "application/json") => ask(path, {method: "POST", headers: {"content-type": type}, body});

/** Send one verdict. entry: {decision, label}, or null to clear. */
function sendVerdict(place, entry, kind = "review") {
  const seconds = Math.round(performance.now() - shownSince) / 1000;
  const event = newEvent(place, entry?.decision ?? "clear", {new_label: entry?.label ?? "", kind, seconds,
    new_class: Boolean(entry?.label) && !report.classes.includes(entry.label)});
  own.push({key: event.key, place, entry, kind});
  onServer.delete(place);
  keep(event);
  flush();
}

/** The decisions that follow from the own events. */
function foldOwn() {
  decisions.clear();
  for (const {place, entry, kind} of own) {
    if (kind !== "adjudication") setOrDelete(decisions, place, entry);
  }
  const unsent = unsentSamples();
  for (const [place, entry] of onServer) if (!unsent.has(ids[place])) setOrDelete(decisions, place, entry);
}

/** Undo the last own event; returns its place as a list, or null. */
function undoOwn() {
  const last = own.pop();
  if (!last) return null;
  keep(newEvent(last.place, "undo", {undoes: last.key, seconds: 0}));
  onServer.delete(last.place);
  if (last.kind === "adjudication") settled.delete(last.place);
  foldOwn();
  flush();
  return [last.place];
}

async function flush() {
  if (sending || !outbox.size) { drawTeam(); return; }
  sending = true;
  drawTeam();
  try {
    const events = [...outbox.values()].slice(0, SEND_AT_ONCE);
    const answer = await post("/verdicts", JSON.stringify({events}));
    const reasons = new Map(answer.refused.map(({key, reason}) => [key, reason]));
    for (const key of answer.acknowledged) drop(key);
    if (reasons.size) withdraw(events.filter(event => reasons.has(event.key)), reasons);
    [pause, offline, sending] = [250, "", false];
    if (outbox.size) flush();
    topUp();
  } catch (error) {
    offline = error instanceof TypeError || error instanceof SyntaxError ? "no connection" : error.message;
    sending = false;
    setTimeout(flush, pause);
    pause = Math.min(LONGEST_PAUSE, 2 * pause);
  }
  drawTeam();
}

/** Refused events do not count on the page. */
function withdraw(events, reasons) {
  refuse(events, reasons);
  own = own.filter(event => !reasons.has(event.key));
  foldOwn();
  refilter();
  showMessage(`Not stored: ${counted(events.length, "verdict")}; the list above says why.`);
}

/** Fetch what the page does not hold of a sample: its contents and losses, and beyond the list its numbers. */
const fetching = new Map();
function fetchDetails(place) {
  if (!team) return Promise.resolve();
  if (!fetching.has(place)) fetching.set(place, ask(`/samples/${place}`).then(details => {
    for (const [name, value] of Object.entries(details.columns ?? {})) report[name][place] = value;
    if (details.row !== null && details.row !== undefined) report.contents.rows[place] ??= details.row;
    if (details.heights) extraLosses.set(place, Uint8Array.from(details.heights));
    if (currentAt() >= 0) { drawList(); if (current === place) drawDetail(); }
  }).catch(error => { fetching.delete(place); console.warn(error); }));
  return fetching.get(place);
}

/** Add samples to the queue once the page knows them. */
async function enqueue(newPlaces) {
  const unknown = newPlaces.filter(place => place >= listed && ids[place] === undefined);
  await Promise.all(unknown.map(fetchDetails));
  const added = newPlaces.filter(place => !queue.includes(place) && ids[place] !== undefined);
  queue.push(...added);
  for (const place of added) if (report.contents.form !== "nothing" && report.contents.rows[place] === undefined) fetchDetails(place);
  return added.length;
}

let toppingUp = false;
async function topUp() {
  const undecided = queue.filter(place => !decisions.has(place)).length;
  if (toppingUp || undecided >= QUEUE_LOW) return;
  toppingUp = true;
  try {
    const answer = await post("/queue", "{}");
    if (await enqueue(answer.queue) && filters.status === "queue") {
      refilter();
      if (!undecided) choose(places.indexOf(nextMatching()));  // the reviewer was waiting for samples
    }
  } catch (error) {
    console.warn(error);
  }
  toppingUp = false;
}

function applyChanges(changes) {
  const unsent = unsentSamples();
  for (const {place, mine, others: verdicts, adjudicated} of changes.samples) {
    if (!unsent.has(ids[place])) onServer.set(place, mine && {decision: mine[0], label: mine[1]});
    setOrDelete(others, place, verdicts.length ? verdicts : null);
    setOrDelete(settled, place, adjudicated);
  }
  [serverNumber, disagreements, panel] = [changes.number, changes.disagreements, changes.panel];
  foldOwn();
}

async function loadState() {
  const state = await ask("/state");
  if (state.run !== report.run) { showMessage("The results on the server have changed. Reload this page; nothing that you decided is lost."); return; }
  const known = new Set(state.own.map(([key]) => key));
  own = state.own.map(([key, place, decision, label, kind]) => ({key, place, kind, entry: decision === "clear" ? null : {decision, label}}));
  const placeOf = new Map(ids.map((id, place) => [id, place]));
  for (const event of outbox.values()) {
    if (event.verdict === "undo") own = own.filter(({key}) => key !== event.undoes);
    else if (!known.has(event.key) && placeOf.has(event.sample))
      own.push({key: event.key, place: placeOf.get(event.sample), kind: event.kind, entry: event.verdict === "clear" ? null : {decision: event.verdict, label: event.new_label}});
  }
  for (const known of [others, settled, onServer]) known.clear();
  applyChanges(state);
  await enqueue(state.queue);
}

function listen() {
  const live = new EventSource(`${base}/live`);
  live.onmessage = async message => {
    const data = JSON.parse(message.data);
    offline = "";
    if (data.samples) applyChanges(data);
    else if (data.number !== serverNumber || data.run !== report.run) await loadState().catch(error => console.warn(error));
    flush();
    places = matchingPlaces();
    if (!places.includes(current)) refilter();
    else { drawList(); drawToolbar(); drawTeam(); if (others.has(current)) drawDetail(); }
  };
  live.onerror = () => {
    offline = "no connection";
    drawTeam();
    if (live.readyState === EventSource.CLOSED) setTimeout(listen, LONGEST_PAUSE);
  };
}

/** `Reviewers agree on 14 of 22 samples judged twice ...: 64 % (exact 95 % interval of this share: 41 % to 83 %). Cohen's kappa: 0.40 ...`. */
const kappaWords = kappa => {
  const interval = kappa.low === null ? "no interval: the verdicts do not vary" : `approximate 95 % interval: ${kappa.low.toFixed(2)} to ${kappa.high.toFixed(2)}`;
  return `Reviewers agree on ${whole(kappa.agreed)} of ${counted(kappa.samples, "sample")} judged twice, without seeing each other’s verdict: `
    + `${percent(kappa.agreed / kappa.samples)} (exact 95 % interval of this share: ${percent(kappa.share_low)} to ${percent(kappa.share_high)}). `
    + `${kappa.name}’s kappa: ${kappa.value.toFixed(2)} (${interval})`;
};

function drawTeam() {
  if (!team) return;
  const waiting = outbox.size ? `${counted(outbox.size, "verdict")} not stored yet` : "all verdicts stored";
  const kept = storageWorks ? "kept in this browser and sent again" : "kept only while this page is open";
  byId("connection").textContent = offline ? `${offline}: ${waiting}${outbox.size ? `, ${kept}` : ""}` : waiting;
  byId("connection").classList.toggle("warn", Boolean(offline));
  if (!panel) return;
  const by = Object.entries(panel.reviewers).map(([name, count]) => `${name} ${whole(count)}`).join(", ");
  const lines = [
    `${whole(panel.judged)} of ${counted(report.samples, "label")} judged (${by}): ${whole(panel.wrong)} wrong`,
    `drawn at random: ${whole(panel.random)} judged, ${whole(panel.randomWrong)} wrong`,
    ...panel.statements,
    panel.training,
    panel.kappa ? kappaWords(panel.kappa) : "",
    disagreements.length ? `${counted(disagreements.length, "disagreement")} to settle (show: disagreements)` : "",
    panel.stale ? `${counted(panel.stale, "verdict")} about labels that have changed since, ignored` : "",
  ];
  byId("panel").replaceChildren(...lines.filter(Boolean).map(line => make("li", {}, line)));
  if (verdictsStateCounts()) {  // they say more than the model alone
    byId("head").textContent = `Before any verdict: ${headline[0].toLowerCase()}${headline.slice(1)}`;
    byId("answer").hidden = byId("budget-figure").hidden = true;
  }
}
const headline = byId("head").textContent;
/** Whether there are enough random verdicts for an interval. */
const verdictsStateCounts = () => panel !== null && panel.statements.length > 1;

const ownVerdict = place => decisions.has(place) ? [`you: ${inWords(decisions.get(place))}`] : [];

/** The verdicts of others on a sample, as far as this reviewer may see them. */
function verdictsOfOthers(place) {
  const lines = (others.get(place) ?? []).map(([name, verdict, label]) => `${name}: ${inWords({decision: verdict, label})}`);
  if (settled.has(place)) { const [name, verdict, label] = settled.get(place); lines.push(`settled by ${name}: ${inWords({decision: verdict, label})}`); }
  return lines;
}

/** Train again on all verified labels; the panel says how it goes. */
async function retrain() {
  const answer = await post("/retrain", "{}").catch(error => ({message: `Not started: ${error.message}`}));
  showMessage(answer.message);
}

async function uploadDecisions(text) {
  const answer = await post("/decisions.csv", text, "text/csv").catch(error => ({message: error.message}));
  await loadState().catch(error => console.warn(error));
  return answer.message;
}

async function startTeam() {
  byId("reviewer").textContent = team.reviewer;
  byId("retrain").hidden = !team.retrain;
  byId("retrain").addEventListener("click", retrain);
  readKept();
  for (;;) {
    try { await loadState(); break; } catch (error) {
      offline = error instanceof TypeError ? "no connection" : error.message;
      drawTeam();
      await new Promise(done => setTimeout(done, 1000));
    }
  }
  refilter();
  choose(Math.max(0, places.findIndex(place => !decisions.has(place))));
  flush();
  listen();
}
