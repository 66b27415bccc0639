const LONG = 600;  // longer values are shortened, with a button to show the rest

/** A text; if it is long, its start and a button that shows the rest. */
function longText(text) {
  if (text.length <= LONG) return make("span", {class: "text"}, text === "" ? make("i", {}, "empty") : text);
  const shown = make("span", {class: "text"}, `${text.slice(0, LONG)} …`);
  const button = make("button", {type: "button", class: "more", "aria-expanded": "false"}, `Show all ${whole(text.length)} characters`);
  button.addEventListener("click", () => {
    const open = button.getAttribute("aria-expanded") === "true";
    shown.textContent = open ? `${text.slice(0, LONG)} …` : text;
    button.textContent = open ? `Show all ${whole(text.length)} characters` : "Show less";
    button.setAttribute("aria-expanded", open ? "false" : "true");
  });
  return make("div", {}, shown, button);
}

const LONGEST_WORD = 24;  // longer words of column names are broken

/** A column name that breaks after _ . / - and spaces, but not inside words. */
function columnName(name) {
  const parts = name.split(/(?<=[_./\-])/);
  return parts.flatMap((part, at) => [at ? make("wbr") : "",
    part.split(" ").some(word => word.length > LONGEST_WORD) ? make("span", {class: "break"}, part) : part]);
}

/** Some columns of a sample with the typical values of its classes; columns not used for training are below. */
function columnTable(place, shown) {
  const {columns, typical} = report.contents;
  const values = columnsOf(place);
  const used = shown.filter(at => !columns[at].excluded);
  const excluded = shown.filter(at => columns[at].excluded);
  const compares = typical.length > 0 && used.some(at => !columns[at].text);
  const ofClass = (code, at) => columns[at].text ? "" : typical[code]?.[at] ?? "";
  const sides = compares ? [...new Set([report.label[place], shownSuggestion(place)])] : [];
  const head = make("tr", {}, make("th", {scope: "col"}, "column"), make("th", {scope: "col"}, "this sample"),
    ...sides.map(code => make("th", {scope: "col"}, `typical of ${className(code)}`)));
  const rows = used.map(at => make("tr", {}, make("th", {scope: "row"}, ...columnName(columns[at].name)),
    make("td", {class: columns[at].number ? "number" : ""}, longText(values[at])),
    ...sides.map(code => make("td", {class: columns[at].number ? "number soft" : "soft"}, ofClass(code, at)))));
  const below = excluded.map(at => make("tr", {},
    make("th", {scope: "row"}, ...columnName(columns[at].name), make("span", {class: "why"}, columns[at].excluded)),
    make("td", {colspan: 1 + sides.length}, longText(values[at]))));
  if (below.length) below.unshift(make("tr", {}, make("th", {scope: "rowgroup", colspan: 2 + sides.length}, "not used for training")));
  return make("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": "Columns of the sample"},
    make("table", {class: "columns"}, make("thead", {}, head), make("tbody", {}, ...rows), make("tbody", {class: "excluded"}, ...below)),
    sides.length ? make("p", {class: "note"}, "Typical: the median of numbers, otherwise the value of more than half of the samples.") : "");
}

function contentsOf(place) {
  const {form, rows} = report.contents;
  if (form === "nothing") return "";
  if (rows[place] === undefined && team && !fetching.has(place)) { fetchDetails(place); return ""; }
  if (rows[place] === undefined) return make("p", {class: "note"}, "The contents of this sample are not included, to keep the page small.");
  if (form === "picture") {
    const address = fileOf(place);
    const link = address ? make("a", {href: address, target: "_blank", rel: "noopener"}, "open the file") : "";
    return make("div", {class: "large-picture"}, picture(place), link);
  }
  const {columns} = report.contents;
  const every = [...columns.keys()];
  const isPlainText = columns[0].text && (columns.length === 1 || columns[1].excluded);  // columns used for training come first
  if (!isPlainText) return columnTable(place, every);
  return make("div", {}, make("blockquote", {}, longText(rows[place][0])), columns.length > 1 ? columnTable(place, every.slice(1)) : "");
}

function factsOf(place) {
  const facts = [
    ...(report.trusted ? [["probably wrong", percent(report.pWrong[place])]] : []),
    ["methods that agree", percent(report.agree[place])],
    ["mean loss", number(report.meanLoss[place])],
    ["score", number(report.score[place])],
    ["rank", `${whole(place + 1)} of ${whole(report.samples)}`],
  ];
  return make("dl", {}, ...facts.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))));
}

function decisionButtons(place) {
  const entry = filters.status === "disagreement" ? undefined : decisions.get(place);  // there, another decision is due
  const same = shownSuggestion(place) === report.label[place];
  const choices = [
    ["keep", "k", "Keep", shownLabel(givenOf(place))],
    ...(same ? [] : [["accept", "a", "Accept", shownLabel(shownSuggestedName(place))]]),
    ["relabel", "r", entry?.decision === "relabel" ? "Relabelled" : "Another label", entry?.decision === "relabel" ? entry.label : ""],
    ["skip", "s", "Skip", ""],
    ...(entry || others.has(place) ? [["clear", "c", "Clear", ""]] : []),
  ];
  return make("div", {class: "decisions", role: "group", "aria-label": "Decision"}, ...choices.map(([name, key, words, label]) => {
    const button = make("button", {type: "button", class: name, "aria-pressed": entry?.decision === name ? "true" : "false", "aria-keyshortcuts": key},
      make("span", {}, words, label ? make("b", {}, ` ${label}`) : ""), make("kbd", {}, key));
    button.dataset.decision = name;
    return button;
  }));
}

function drawDetail() {
  if (!places.length) {
    byId("detail").replaceChildren(make("p", {class: "note"}, "No sample is selected."));
    return;
  }
  const place = current;
  byId("detail").scrollTop = 0;
  const blind = isBlind(place);
  const curve = blind ? null : largeLossCurve(place);
  const caption = report.losses && curve
    ? make("p", {class: "note"}, `Loss of the given label over the ${report.unit}s. Dashed: the median of ${whole(report.losses.typicalOf)} samples of all ranks.`)
    : make("p", {class: "note"}, report.losses ? "The loss curve of this sample is not included, to keep the page small." : `This run did not record the loss of each ${report.unit}.`);
  const conflict = inConflict.has(place) ? make("p", {class: "conflict-note"}, "Another sample has the same inputs and a different label: one of the labels is wrong, or the inputs do not determine the class.") : "";
  const same = !blind && agreesWithLabel(place) ? make("p", {class: "note"}, "The model suggests the given label.") : "";
  const settling = filters.status === "disagreement";
  const seen = [...(settling ? ownVerdict(place) : []), ...verdictsOfOthers(place), ...(settling ? ["Your decision here settles it."] : [])];
  const beside = seen.length ? make("ul", {class: "others"}, ...seen.map(line => make("li", {}, line))) : "";
  byId("detail").replaceChildren(
    make("h2", {}, make("span", {class: "soft"}, blind ? "sample " : `#${place + 1} sample `), ids[place]),
    make("p", {class: "labels"}, labelPair(place), decisions.has(place) ? badge(place) : ""), same, decisionButtons(place), beside, conflict,
    contentsOf(place), blind ? "" : factsOf(place), curve ?? "", blind ? "" : caption);
}

byId("detail").addEventListener("click", event => {
  const button = event.target.closest("[data-decision]");
  if (!button) return;
  list.focus({preventScroll: true});  // the button is redrawn and would lose its focus
  act(button.dataset.decision);
});
