const PRINTED = 200;  // samples in the printed table
const STATUSES_OF_ALL = ["queue", "all"];  // these show all samples that they choose from
const NOT_STORED = "This browser cannot store decisions: download them before you close this page.";
const stops = budgetStops();

const showMessage = text => { byId("message").textContent = text; };

function drawToolbar() {
  byId("budget").value = filters.budget;
  const slider = byId("budget-slider");
  const nearest = stops.findIndex(stop => stop >= filters.budget);
  slider.value = nearest;
  slider.setAttribute("aria-valuetext", counted(filters.budget, "sample"));
  byId("given").value = filters.given;
  byId("suggested").value = filters.suggested;
  byId("agreeing").value = filters.agreeing;
  byId("status").value = filters.status;
  if (byId("search").value !== filters.search) byId("search").value = filters.search;
  byId("budget-group").hidden = team && filters.status !== "all";  // the queue on a server has no end
  const candidates = candidatePlaces().length, all = places.length === candidates && STATUSES_OF_ALL.includes(filters.status);
  const searched = filters.search && report.contents.form === "columns" ? withContents : Infinity;
  const unsearched = searched < filters.budget ? ` Only the contents of the first ${whole(searched)} samples were searched.` : "";
  const among = candidates === filters.budget ? `the first ${whole(candidates)}` : counted(candidates, "sample");
  byId("matching").textContent = all ? "" : `${whole(places.length)} of ${among} match the filters.${unsearched}`;
  byId("clear").disabled = all;
}

/** The progress within the budget, and the number of wrong labels so far next to the expected one. */
function drawProgress() {
  byId("undo").disabled = team ? own.length === 0 : steps.length === 0;
  byId("download").disabled = !team && decisions.size === 0;
  if (team) return;  // the panel says how many are judged
  let decided = 0, reviewed = 0, wrong = 0, expected = 0;
  for (const place of candidatePlaces()) {
    const entry = decisions.get(place);
    if (!entry) continue;
    decided++;
    if (entry.decision === "skip") continue;
    reviewed++;
    wrong += isChange(entry) ? 1 : 0;
    expected += report.pWrong[place] ?? 0;
  }
  const estimate = report.trusted ? `, about ${whole(expected)} expected` : "";
  const compared = reviewed ? `: ${whole(wrong)} of ${whole(reviewed)} labels were wrong${estimate}` : "";
  byId("progress-text").textContent = `Decided ${whole(decided)} of ${whole(filters.budget)}${compared}`;
  byId("progress").max = filters.budget;
  byId("progress").value = decided;
}

/** Apply the filters again. The selected sample stays selected if it matches; otherwise the next one, or the first. */
const nextMatching = () => places.find(place => filters.status === "queue" ? !decisions.has(place) : place > current) ?? places[0] ?? 0;
function refilter() {
  places = matchingPlaces();
  if (!places.includes(current)) current = nextMatching();
  drawToolbar();
  drawProgress();
  drawCharts();
  showCurrent();
}

function setBudget(count) {
  if (!Number.isFinite(count)) return;
  filters.budget = Math.min(listed, Math.max(1, Math.round(count)));
  refilter();
}

function clearFilters(budget = filters.budget) {
  Object.assign(filters, {budget, given: -1, suggested: -1, agreeing: 0, status: budget === filters.budget ? firstStatus : "all", search: ""});
  refilter();
}

/** Decide on the selected sample and select the next one. */
function decide(decision, label = "") {
  if (!places.length) return;
  const place = current, at = currentAt(), entry = decision === "clear" ? null : decisionFor(place, decision, label);
  if (filters.status === "disagreement") {
    sendVerdict(place, entry, "adjudication");
    disagreements = disagreements.filter(other => other !== place);
  } else decideAll([[place, entry]]);
  places = matchingPlaces();
  drawToolbar();
  drawProgress();
  const words = {keep: `Kept ${givenOf(place)}`, accept: `Accepted ${entry?.label}`, relabel: `Relabelled ${entry?.label}`, skip: "Skipped"};
  const done = entry === null ? "Cleared" : words[entry.decision];
  showMessage(`${done}: sample ${ids[place]}.${storageWorks ? "" : ` ${NOT_STORED}`}`);
  if (places.length) choose(places[at] === place && entry !== null ? at + 1 : at);
  else showCurrent();
  reveal();
}

/** Withdraw the decision on the selected sample. */
function clearDecision() {
  if (places.length && (decisions.has(current) || others.has(current) || settled.has(current))) decide("clear");
  else showMessage("There is no decision to clear.");
}

function undo() {
  const undone = undoLast();
  if (undone === null) { showMessage("There is nothing to undo."); return; }
  refilter();
  if (places.includes(undone[0])) choose(places.indexOf(undone[0]));
  showMessage(undone.length === 1 ? `Undone: sample ${ids[undone[0]]}.` : `Undone: ${counted(undone.length, "decision")}.`);
}

function act(name) {
  if (name === "relabel") { if (places.length) openRelabel(); } else if (name === "clear") clearDecision(); else decide(name);
}

function download() {
  if (team) { make("a", {href: `${base}/decisions.csv`, download: "decisions.csv"}).click(); return; }
  saveFile("decisions.csv", decisionsCsv());
  undownloaded = false;
  showMessage(`Downloaded ${counted(decisions.size, "decision")}. Next: errata apply DATA --decisions decisions.csv`);
}

byId("load").addEventListener("click", () => byId("file").click());
byId("file").addEventListener("change", async event => {
  const [file] = event.target.files;
  if (!file) return;
  const message = team ? await uploadDecisions(await file.text()) : loadDecisions(await file.text());
  event.target.value = "";  // so that the same file can be loaded again
  refilter();
  showMessage(message);
});
byId("download").addEventListener("click", download);
byId("undo").addEventListener("click", undo);
byId("clear").addEventListener("click", () => clearFilters());
byId("open-help").addEventListener("click", () => byId("help").showModal());
byId("budget").addEventListener("change", event => setBudget(event.target.valueAsNumber || filters.budget));
byId("budget-slider").addEventListener("input", event => setBudget(stops[event.target.valueAsNumber]));
for (const name of ["given", "suggested", "agreeing"])
  byId(name).addEventListener("change", event => { filters[name] = Number(event.target.value); refilter(); });
byId("status").addEventListener("change", event => { filters.status = event.target.value; refilter(); });
byId("search").addEventListener("input", event => { filters.search = event.target.value; refilter(); });
byId("confusions").addEventListener("click", event => {
  const pair = event.target.closest("[data-pair]")?.dataset.pair;
  if (!pair) return;
  const [given, suggested] = pair.split(" ").map(Number);
  const again = filters.given === given && filters.suggested === suggested;
  Object.assign(filters, again ? {given: -1, suggested: -1} : {given, suggested, status: "all"});  // as counted, by rank
  refilter();
  byId("confusions").querySelector(`[data-pair="${pair}"]`)?.focus();
});
byId("agreement").addEventListener("click", event => {
  const level = event.target.closest("[data-level]")?.dataset.level;
  if (level === undefined) return;
  Object.assign(filters, filters.agreeing === Number(level) ? {agreeing: 0} : {agreeing: Number(level), status: "all"});
  refilter();
  byId("agreement").querySelector(`[data-level="${level}"]`).focus();
});

const moves = {
  n: at => at + 1, ArrowRight: at => at + 1, p: at => at - 1, ArrowLeft: at => at - 1,
  ArrowDown: at => at + perRow(), ArrowUp: at => at - perRow(),
  PageDown: at => at + perRow() * Math.max(1, Math.floor(list.clientHeight / itemHeight)),
  PageUp: at => at - perRow() * Math.max(1, Math.floor(list.clientHeight / itemHeight)),
  Home: () => 0, End: () => places.length - 1,
};
const commands = {
  k: () => decide("keep"), a: () => decide("accept"), r: () => act("relabel"), s: () => decide("skip"), c: clearDecision, u: undo,
  "?": () => byId("help").showModal(), "/": () => byId("search").focus(),
};

// Letters are text only in these. On the slider, the number and the filters, letters are commands and arrows are theirs.
const TYPING = "input[type=search], input[type=text], input[type=file], textarea, dialog[open]";
byId("search").addEventListener("keydown", event => {
  if (!["Enter", "Escape", "ArrowDown"].includes(event.key)) return;
  list.focus({preventScroll: true});
  event.preventDefault();
  event.stopPropagation();
});
// A filter that was changed with the mouse gives the keys back to the list.
let byPointer = false;
addEventListener("pointerdown", () => { byPointer = true; }, true);
addEventListener("keydown", () => { byPointer = false; }, true);
for (const name of ["given", "suggested", "agreeing", "status", "budget-slider"])
  byId(name).addEventListener("change", () => { if (byPointer) list.focus({preventScroll: true}); });

document.addEventListener("keydown", event => {
  if (event.target.closest(TYPING) || event.altKey) return;
  const control = event.ctrlKey || event.metaKey;
  if (control && event.key === "z" && !event.shiftKey) undo();
  else if (control) return;
  else if (Object.hasOwn(commands, event.key)) commands[event.key]();
  else if (Object.hasOwn(moves, event.key) && (event.key.length === 1 || event.target === list || event.target === document.body))
    { choose(moves[event.key](Math.max(0, currentAt()))); reveal(); }
  else return;
  event.preventDefault();
});

// A scrolled list would print cut off, so print a plain table instead.
addEventListener("beforeprint", () => {
  const hasTexts = report.contents.form === "columns";
  const heads = ["rank", "sample", "given", "suggested", ...(report.trusted ? ["probably wrong"] : []), "decision", "new label",
    ...(hasTexts ? ["contents"] : [])];
  const row = place => [String(place + 1), ids[place], givenOf(place), suggestedOf(place),
    ...(report.trusted ? [percent(report.pWrong[place])] : []), decisions.get(place)?.decision ?? "",
    decisions.get(place)?.label ?? "", ...(hasTexts ? [excerptOf(place).slice(0, 120)] : [])];
  const shown = places.slice(0, PRINTED);
  byId("printed").replaceChildren(
    make("h2", {}, shown.length < places.length ? `The first ${whole(shown.length)} of ${whole(places.length)} samples` : counted(shown.length, "sample")),
    make("table", {}, make("thead", {}, make("tr", {}, ...heads.map(name => make("th", {scope: "col"}, name)))),
      make("tbody", {}, ...shown.map(place => make("tr", {}, ...row(place).map(text => make("td", {}, text)))))));
});
addEventListener("afterprint", () => byId("printed").replaceChildren());
// Take over decisions from another window of the same run.
addEventListener("storage", event => {
  if (event.key !== storageKey) return;
  restoreDecisions();
  refilter();
});
addEventListener("beforeunload", event => {
  if (!storageWorks && (team ? outbox.size : undownloaded && decisions.size)) event.preventDefault();
});

function start() {
  const classOptions = () => [make("option", {value: -1}, "any"), ...report.classes.map((name, code) => make("option", {value: code}, shownLabel(name)))];
  byId("given").append(...classOptions());
  byId("suggested").append(...classOptions());
  byId("agreeing").append(make("option", {value: 0}, "any"),
    ...agreementLevels.filter(level => level > 0).map(level => make("option", {value: level}, `at least ${percent(level)}`)));
  byId("budget").max = listed;
  byId("budget-slider").max = stops.length - 1;
  byId("listed").textContent = `of ${whole(listed)}`;
  byId("run").textContent = report.run;
  const notes = [...report.contents.notes];
  if (listed < report.samples) notes.unshift(`The ${whole(listed)} most suspicious of ${whole(report.samples)} samples are listed; ranking.csv has all.`);
  if (lossHeights && lossHeights.length / pointsDrawn < listed) notes.push(`Loss curves are included for the first ${whole(lossHeights.length / pointsDrawn)} samples of the queue only.`);
  for (const names of similarLabels) notes.push(`These labels differ only in case or spaces: ${names.map(name => `“${withSpaces(name)}”`).join(", ")}. To make them one class: errata find ... --merge-labels`);
  byId("notes").append(...notes.map(note => make("li", {}, note)));
  byId("status").querySelector("[value=queue]").hidden = firstStatus === "all";
  restoreDecisions();
  drawConflicts();
  byId("narrowing").open = !matchMedia("(max-width: 62rem)").matches;
  new ResizeObserver(([bar]) => document.documentElement.style.setProperty("--bar", `${bar.target.offsetHeight}px`)).observe(byId("toolbar"));
  refilter();
  if (team) { startTeam(); return; }
  choose(places.findIndex(place => !decisions.has(place)));
  if (decisions.size) showMessage(`Restored ${counted(decisions.size, "decision")} from an earlier visit.`);
  if (!storageWorks) showMessage(NOT_STORED);
}

start();
