"use strict";
// The data of the page: one list per column. Place 0 is the most suspicious sample.
const report = JSON.parse(document.getElementById("data").textContent);
const listed = report.id.length;
const ids = report.id;
const inConflict = new Set(report.conflicts.places);
const team = JSON.parse(document.getElementById("server")?.textContent ?? "null");  // null: the browser stores decisions
/** All places in the order of a review: by rank, with random draws at some positions. */
const reviewOrder = (() => {
  const drawn = new Map(report.random?.at.map((position, at) => [position, report.random.places[at]]));
  const order = new Set();
  for (let place = 0; order.size < listed;) {
    if (drawn.has(order.size)) order.add(drawn.get(order.size));
    else order.add(place++);  // no effect if it was drawn before
  }
  return [...order];
})();
const drawnAtRandom = new Set(report.random?.places);
const withContents = report.contents.rows.length;  // the first samples of the review
report.contents.rows = report.contents.rows.reduce((rows, row, at) => { rows[reviewOrder[at]] = row; return rows; }, []);
const byId = id => document.getElementById(id);

/** An element with attributes and children. Strings become text nodes, never markup. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

const className = code => report.classes[code];
const givenOf = place => className(report.label[place]);
const suggestedOf = place => className(report.suggested[place]);
const agreesWithLabel = place => report.label[place] === report.suggested[place];
/** Labels that differ from another only in case or spaces; their spaces are shown as ␣. */
const folded = name => name.trim().replace(/\s+/g, " ").toLowerCase();
const similarLabels = (() => {
  const groups = new Map();
  for (const name of report.classes) groups.set(folded(name), [...(groups.get(folded(name)) ?? []), name]);
  return [...groups.values()].filter(names => names.length > 1);
})();
const isSimilar = new Set(similarLabels.flat());
const withSpaces = name => name.replace(/^\s+|\s+$|\s{2,}/g, spaces => "␣".repeat(spaces.length));
const shownLabel = name => isSimilar.has(name) || name !== name.trim() ? withSpaces(name) : name;
const whole = number => Math.round(number).toLocaleString("en-GB");
const counted = (number, noun) => `${whole(number)} ${noun}${number === 1 ? "" : "s"}`;
const highestOf = (numbers, least) => [...numbers].reduce((highest, number) => Math.max(highest, number), least);

/** A share in whole percent; "< 1 %" and "> 99 %" instead of 0 % and 100 % for values in between. */
function percent(share) {
  if (share === null) return "unknown";
  if (share > 0 && share < 0.005) return "< 1 %";
  if (share < 1 && share > 0.995) return "> 99 %";
  return `${Math.round(100 * share)} %`;
}

const number = value => value === null ? "unknown" : String(value);

/** The texts of a sample, one per column; empty if they are not in the page. */
function columnsOf(place) {
  return report.contents.form === "columns" ? report.contents.rows[place] ?? [] : [];
}

/** The URL of a sample's image file relative to the page, or null. */
function fileOf(place) {
  if (!report.contents.files) return null;
  return `${report.contents.files}/${ids[place].split("/").map(encodeURIComponent).join("/")}`;
}

/** A sample in one line. */
function excerptOf(place) {
  const values = columnsOf(place);
  const parts = report.contents.columns?.map((column, at) => column.text ? values[at] : `${column.name} = ${values[at]}`);
  return values.length ? parts.filter((_, at) => values[at]).slice(0, 6).join("  ·  ").slice(0, 300) : "";
}
