const CLASSES_DRAWN = 20;
const LEVELS_DRAWN = 12;

function drawBudgetCurve() {
  byId("budget-figure").hidden = !report.trusted || verdictsStateCounts();
  if (byId("budget-figure").hidden) return;
  const [left, top, width, height] = [44, 8, 300, 140];
  const {inspected, expected} = report.curve;
  const highest = highestOf(expected, 1);
  const x = count => left + width * count / listed;
  const y = errors => top + height * (1 - errors / highest);
  const [chosen, reached] = [filters.budget, expectedAmong(filters.budget)];
  const few = Math.round(reached) === 0;
  const expects = few ? "less than one error" : `about ${counted(Math.round(reached), "error")}`;
  const words = `Among the first ${counted(chosen, "sample")} expect ${expects}.`;
  const line = inspected.map((count, at) => `${at ? "L" : "M"}${x(count).toFixed(1)} ${y(expected[at]).toFixed(1)}`).join("");
  byId("budget-chart").replaceChildren(
    svg("svg", {class: "budget-curve", viewBox: "0 0 360 184", role: "img", "aria-label": words},
      svg("path", {class: "axis", d: `M${left} ${top}v${height}h${width}`}),
      svg("text", {x: left - 5, y: top + 9, class: "end"}, whole(highest)),
      svg("text", {x: left - 5, y: top + height, class: "end"}, "0"),
      svg("text", {x: left + width, y: top + height + 15, class: "end"}, whole(listed)),
      svg("text", {x: left + width / 2, y: top + height + 31, class: "middle"}, "samples inspected"),
      svg("path", {class: "typical", d: `M${x(0)} ${y(0)}L${x(listed)} ${y(expected.at(-1))}`}),
      svg("path", {class: "own", d: line}),
      svg("path", {class: "chosen", d: `M${x(chosen).toFixed(1)} ${top}v${height}`}),
      svg("circle", {class: "chosen", cx: x(chosen).toFixed(1), cy: y(reached).toFixed(1), r: 4}),
    ));
  const remaining = report.curve.total ? Math.max(0, 1 - reached / report.curve.total) : 0;
  byId("expectation").textContent =
    `${words}${few ? "" : ` After these, about ${percent(remaining)} of the errors remain.`} Dashed: random order.`;
}

/** The counts of each pair of given and suggested label among the first samples. */
function countPairs() {
  const pairs = new Map(), involved = new Map();
  for (let place = 0; place < filters.budget; place++) {
    if (agreesWithLabel(place)) continue;
    const [given, suggested] = [report.label[place], report.suggested[place]];
    const pair = `${given} ${suggested}`;
    pairs.set(pair, (pairs.get(pair) ?? 0) + 1);
    for (const code of [given, suggested]) involved.set(code, (involved.get(code) ?? 0) + 1);
  }
  return {pairs, involved};
}

function drawConfusions() {
  const {pairs, involved} = countPairs();
  const most = [...involved].sort((a, b) => b[1] - a[1] || a[0] - b[0]).slice(0, CLASSES_DRAWN);
  const codes = most.map(([code]) => code).sort((a, b) => a - b);
  const highest = highestOf(pairs.values(), 1);
  const long = codes.some(code => className(code).length > 3);
  const heading = (code, scope) => make("th", {scope, title: className(code)}, make("span", {}, shownLabel(className(code))));
  const cell = (given, suggested) => {
    const count = pairs.get(`${given} ${suggested}`) ?? 0;
    if (given === suggested || !count) return make("td", {class: given === suggested ? "same" : ""});
    const pressed = filters.given === given && filters.suggested === suggested;
    const words = `given ${className(given)}, suggested ${className(suggested)}: ${counted(count, "sample")}`;
    const button = make("button", {type: "button", "aria-label": words, title: words, "aria-pressed": pressed ? "true" : "false"}, String(count));
    button.style.setProperty("--share", `${Math.round(5 + 40 * count / highest)}%`);  // a darker cell would hide the number
    button.dataset.pair = `${given} ${suggested}`;
    return make("td", {}, button);
  };
  const head = make("thead", {}, make("tr", {}, make("td"), ...codes.map(code => heading(code, "col"))));
  const body = codes.map(given => make("tr", {}, heading(given, "row"), ...codes.map(suggested => cell(given, suggested))));
  byId("confusions").replaceChildren(make("table", {class: long ? "heat long" : "heat"}, head, make("tbody", {}, ...body)));
  const some = involved.size > codes.length ? `The ${codes.length} most frequent of ${whole(involved.size)} confused classes. ` : "";
  byId("confusion-note").textContent = `${some}Among the first ${whole(filters.budget)}; click a number to see its samples.`;
}

/** The levels of agreement that occur, highest first; if there are many, rounded down to tenths. */
const agreementLevels = (() => {
  const known = report.agree.filter(share => share !== null);
  const exact = [...new Set(known)];
  const levels = exact.length <= LEVELS_DRAWN ? exact : [...new Set(known.map(share => Math.floor(10 * share) / 10))];
  return levels.sort((a, b) => b - a);
})();

function drawAgreement() {
  const counts = new Map(agreementLevels.map(level => [level, 0]));
  for (let place = 0; place < filters.budget; place++) {
    const level = agreementLevels.find(least => report.agree[place] >= least);
    if (level !== undefined) counts.set(level, counts.get(level) + 1);
  }
  const highest = highestOf(counts.values(), 1);
  byId("agreement").replaceChildren(...[...counts].map(([level, count]) => {
    const bar = make("span", {class: "bar"});
    bar.style.setProperty("--share", `${100 * count / highest}%`);
    const words = `agreement of ${percent(level)}: ${counted(count, "sample")}; show samples with at least this agreement`;
    const button = make("button", {type: "button", "aria-label": words, "aria-pressed": level > 0 && filters.agreeing === level ? "true" : "false"},
      make("span", {class: "level"}, percent(level)), bar, make("span", {class: "count"}, whole(count)));
    button.dataset.level = level;
    return button;
  }));
}

function drawCharts() {
  drawBudgetCurve();
  drawConfusions();
  drawAgreement();
}
