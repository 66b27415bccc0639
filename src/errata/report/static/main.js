const PRINTED = 200;  // samples on paper
const stops = budgetStops();

const say = words => { byId("message").textContent = words; };

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
  const all = places.length === filters.budget;
  const searched = filters.search && report.contents.form === "columns" ? report.contents.rows.length : Infinity;
  const unsearched = searched < filters.budget ? ` The contents of the first ${whole(searched)} are in this page and were searched.` : "";
  byId("matching").textContent = all ? "" : `${whole(places.length)} of the first ${whole(filters.budget)} pass the filters.${unsearched}`;
  byId("clear").disabled = all;
}

/** How far the review of the budget is, and how the labels judged compare with what was expected of them. */
function drawProgress() {
  let decided = 0, judged = 0, wrong = 0, expected = 0;
  for (const [place, made] of decisions) {
    if (place >= filters.budget) continue;
    decided++;
    if (made.decision === "skip") continue;
    judged++;
    wrong += isChange(made) ? 1 : 0;
    expected += report.pWrong[place] ?? 0;
  }
  const compared = judged ? `: ${whole(wrong)} of ${whole(judged)} judged were wrong, about ${whole(expected)} expected` : "";
  byId("progress-text").textContent = `Decided ${whole(decided)} of the first ${whole(filters.budget)}${compared}`;
  byId("progress").max = filters.budget;
  byId("progress").value = decided;
  byId("undo").disabled = steps.length === 0;
  byId("download").disabled = decisions.size === 0;
}

/** Apply the filters again; the chosen sample stays chosen if it passes, else the next one is, or the first. */
function refilter() {
  places = matchingPlaces();
  if (!places.includes(current)) current = places.find(place => place > current) ?? places[0] ?? 0;
  drawToolbar();
  drawProgress();
  drawCharts();
  showCurrent();
}

function setBudget(wanted) {
  if (!Number.isFinite(wanted)) return;
  filters.budget = Math.min(listed, Math.max(1, Math.round(wanted)));
  refilter();
}

function clearFilters(budget = filters.budget) {
  Object.assign(filters, {budget, given: -1, suggested: -1, agreeing: 0, status: "all", search: ""});
  refilter();
}

/** Decide on the chosen sample and go on to the next. */
function decide(wanted, label = "") {
  if (!places.length) return;
  const place = current, at = currentAt(), made = decisionFor(place, wanted, label);
  decideAll([[place, made]]);
  places = matchingPlaces();
  drawToolbar();
  drawProgress();
  const told = {keep: `Kept ${givenOf(place)}`, accept: `Accepted ${made.label}`, relabel: `Relabelled ${made.label}`, skip: "Skipped"}[made.decision];
  const kept = storageWorks ? "" : " This browser keeps nothing of this page: download the decisions before you close it.";
  say(`${told}: sample ${ids[place]}.${kept}`);
  if (places.length) choose(places[at] === place ? at + 1 : at);
  else showCurrent();
}

function undo() {
  const undone = undoLast();
  if (undone === null) { say("There is nothing to undo."); return; }
  refilter();
  if (places.includes(undone[0])) choose(places.indexOf(undone[0]));
  say(undone.length === 1 ? `Undone: sample ${ids[undone[0]]}.` : `Undone: ${counted(undone.length, "decision")}.`);
}

function act(name) {
  if (name === "relabel") { if (places.length) askForLabel(); } else decide(name);
}

function download() {
  const address = URL.createObjectURL(new Blob([decisionsCsv()], {type: "text/csv"}));
  const link = make("a", {href: address, download: "decisions.csv"});
  link.click();
  URL.revokeObjectURL(address);
  undownloaded = false;
  say(`Downloaded ${counted(decisions.size, "decision")}; give the file to errata apply.`);
}

byId("load").addEventListener("click", () => byId("file").click());
byId("file").addEventListener("change", async event => {
  const [file] = event.target.files;
  if (!file) return;
  const told = loadDecisions(await file.text());
  event.target.value = "";  // the same file can be loaded again
  refilter();
  say(told);
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
  Object.assign(filters, again ? {given: -1, suggested: -1} : {given, suggested});
  refilter();
  byId("confusions").querySelector(`[data-pair="${pair}"]`)?.focus();
});
byId("agreement").addEventListener("click", event => {
  const level = event.target.closest("[data-level]")?.dataset.level;
  if (level === undefined) return;
  filters.agreeing = filters.agreeing === Number(level) ? 0 : Number(level);
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
  k: () => decide("keep"), a: () => decide("accept"), r: () => act("relabel"), s: () => decide("skip"), u: undo,
  "?": () => byId("help").showModal(), "/": () => byId("search").focus(),
};

document.addEventListener("keydown", event => {
  if (event.target.closest("input, select, textarea, dialog[open]") || event.altKey) return;
  const control = event.ctrlKey || event.metaKey;
  if (control && event.key === "z" && !event.shiftKey) undo();
  else if (control) return;
  else if (Object.hasOwn(commands, event.key)) commands[event.key]();
  else if (Object.hasOwn(moves, event.key) && (event.key.length === 1 || event.target === list || event.target === document.body))
    choose(moves[event.key](Math.max(0, currentAt())));
  else return;
  event.preventDefault();
});

// A list that is scrolled prints as it is cut off: paper gets a plain table instead.
addEventListener("beforeprint", () => {
  const hasTexts = report.contents.form === "columns";
  const heads = ["rank", "sample", "given", "suggested", "probably wrong", "decision", "new label", ...(hasTexts ? ["contents"] : [])];
  const row = place => [String(place + 1), ids[place], givenOf(place), suggestedOf(place), percent(report.pWrong[place]),
    decisions.get(place)?.decision ?? "", decisions.get(place)?.label ?? "",
    ...(hasTexts ? [excerptOf(place).slice(0, 120)] : [])];
  const shown = places.slice(0, PRINTED);
  byId("printed").replaceChildren(
    make("h2", {}, shown.length < places.length ? `The first ${whole(shown.length)} of ${whole(places.length)} samples` : counted(shown.length, "sample")),
    make("table", {}, make("thead", {}, make("tr", {}, ...heads.map(name => make("th", {scope: "col"}, name)))),
      make("tbody", {}, ...shown.map(place => make("tr", {}, ...row(place).map(text => make("td", {}, text)))))));
});
addEventListener("afterprint", () => byId("printed").replaceChildren());
// Another window on the same run decides too: the later decision must not wipe out the earlier ones.
addEventListener("storage", event => {
  if (event.key !== storageKey) return;
  restoreDecisions();
  refilter();
});
addEventListener("beforeunload", event => { if (!storageWorks && undownloaded && decisions.size) event.preventDefault(); });

function start() {
  const classOptions = () => [make("option", {value: -1}, "any"), ...report.classes.map((name, code) => make("option", {value: code}, name))];
  byId("given").append(...classOptions());
  byId("suggested").append(...classOptions());
  byId("agreeing").append(make("option", {value: 0}, "any"),
    ...agreementLevels.filter(level => level > 0).map(level => make("option", {value: level}, `at least ${percent(level)}`)));
  byId("budget").max = listed;
  byId("budget-slider").max = stops.length - 1;
  byId("listed").textContent = `of ${whole(listed)}`;
  byId("run").textContent = report.run;
  const notes = [...report.contents.notes];
  if (listed < report.samples) notes.unshift(`The ${whole(listed)} most suspicious of ${whole(report.samples)} samples are listed; ranking.csv has all of them.`);
  if (lossHeights && lossHeights.length / pointsDrawn < listed) notes.push(`Loss curves are in this page for the ${whole(lossHeights.length / pointsDrawn)} most suspicious.`);
  byId("notes").append(...notes.map(note => make("li", {}, note)));
  restoreDecisions();
  drawConflicts();
  refilter();
  choose(places.findIndex(place => !decisions.has(place)));
  if (decisions.size) say(`Back from an earlier visit: ${counted(decisions.size, "decision")}.`);
  if (!storageWorks) say("This browser keeps nothing of this page: download the decisions before you close it.");
}

start();
