// Only visible rows are drawn, so that long lists scroll quickly.
const list = byId("list");
const isGallery = report.contents.form === "picture";
const itemHeight = isGallery ? 186 : 78;
const cardWidth = 150;
const overscan = 3;  // rows drawn above and below the visible ones
let places = [];  // places that match the filters
let current = 0;  // place of the selected sample

const perRow = () => isGallery ? Math.max(1, Math.floor(list.clientWidth / cardWidth)) : 1;
const currentAt = () => places.indexOf(current);

function optionLabel(place) {
  const entry = decisions.get(place);
  const decided = entry ? `; decided: ${entry.decision}${entry.label ? ` ${entry.label}` : ""}` : "";
  const names = `${ids[place]}, given ${givenOf(place)}, suggested ${shownSuggestedName(place)}`;
  if (isBlind(place)) return names;
  return `${place + 1}: ${names}${report.trusted ? `, probably wrong ${percent(report.pWrong[place])}` : ""}${decided}`;
}

function badge(place) {
  const entry = decisions.get(place);
  const settling = filters.status === "disagreement";
  if (!entry || settling) {
    const verdicts = [...(settling ? ownVerdict(place) : []), ...verdictsOfOthers(place)].join("; ");
    return verdicts ? make("span", {class: "badge", title: verdicts}, verdicts) : "";
  }
  const words = {keep: "kept", accept: "accepted", relabel: `→ ${shownLabel(entry.label)}`, skip: "skipped"}[entry.decision];
  return make("span", {class: `badge ${entry.decision}`}, words);
}

function labelPair(place) {
  return make("span", {class: "pair"},
    make("b", {class: "given", title: givenOf(place)}, shownLabel(givenOf(place))), make("span", {class: "arrow"}, "→"),
    make("b", {class: "suggested", title: shownSuggestedName(place)}, shownLabel(shownSuggestedName(place))));
}

function picture(place) {
  const address = report.contents.rows[place];
  if (!address) return make("span", {class: "no-picture"}, address === "" ? "unreadable file" : "not in this page");
  return make("img", {src: address, alt: "", draggable: "false", class: report.contents.pixels ? "pixels" : ""});
}

function option(place, at) {
  const blind = isBlind(place);
  const numbers = make("span", {class: "numbers"},
    blind ? "" : make("span", {class: "rank"}, `#${place + 1}`),
    blind || !report.trusted ? "" : make("span", {title: "estimated probability that the label is wrong"}, percent(report.pWrong[place])),
    inConflict.has(place) ? make("span", {class: "conflict", title: "another sample has the same inputs and a different label"}, "conflict") : "");
  const parts = isGallery
    ? [make("span", {class: "frame"}, picture(place)), labelPair(place), numbers,
       make("span", {class: "foot"}, blind ? "" : smallLossCurve(place, 60, 22), badge(place))]
    : [make("span", {class: "middle"}, labelPair(place), make("span", {class: "excerpt"}, excerptOf(place) || ids[place])),
       numbers, blind ? "" : smallLossCurve(place, 110, 40), badge(place)];
  const item = make("div", {id: `option-${place}`, role: "option", class: isGallery ? "card" : blind ? "row blind" : "row",
    "aria-selected": place === current ? "true" : "false", "aria-posinset": at + 1, "aria-setsize": places.length,
    "aria-label": optionLabel(place)}, ...parts);
  const columns = perRow();
  item.style.top = `${Math.floor(at / columns) * itemHeight}px`;
  item.style.left = isGallery ? `${(at % columns) * 100 / columns}%` : "0";
  item.style.width = `${100 / columns}%`;
  item.style.height = `${itemHeight}px`;
  return item;
}

function drawList() {
  const columns = perRow();
  const first = Math.max(0, Math.floor(list.scrollTop / itemHeight) - overscan) * columns;
  const beyond = (Math.ceil((list.scrollTop + list.clientHeight) / itemHeight) + overscan) * columns;
  byId("rows").style.height = `${Math.ceil(places.length / columns) * itemHeight}px`;
  byId("rows").replaceChildren(...places.slice(first, beyond).map((place, at) => option(place, first + at)));
  if (!places.length) byId("rows").replaceChildren(make("p", {class: "empty"}, "No sample matches these filters."));
  if (byId(`option-${current}`)) list.setAttribute("aria-activedescendant", `option-${current}`);
  else list.removeAttribute("aria-activedescendant");
}

/** Scroll to the selected sample and draw. */
function showCurrent() {
  const at = currentAt();
  if (at >= 0) {
    const top = Math.floor(at / perRow()) * itemHeight;
    if (top < list.scrollTop) list.scrollTop = top;
    else if (top + itemHeight > list.scrollTop + list.clientHeight) list.scrollTop = top + itemHeight - list.clientHeight;
  }
  drawList();
  drawDetail();
}

/** Scroll the page so that the selected sample is in view, below the bar at the top. */
function reveal() {
  const narrow = matchMedia("(max-width: 62rem)").matches;
  const shown = narrow ? byId("detail") : byId(`option-${current}`) ?? list;
  const top = narrow || byId("toolbar").getBoundingClientRect().bottom < 0 ? 0 : byId("toolbar").offsetHeight;
  const box = shown.getBoundingClientRect();
  if (box.top < top) scrollBy(0, box.top - top);
  else if (box.bottom > innerHeight) scrollBy(0, Math.min(box.top - top, box.bottom - innerHeight));
}

/** Select the sample at a position of the list, or the nearest one. */
function choose(at) {
  if (!places.length) return;
  const before = current;
  current = places[Math.min(places.length - 1, Math.max(0, at))];
  if (current !== before) shownSince = performance.now();
  showCurrent();
}

let drawing = 0;
list.addEventListener("scroll", () => {
  cancelAnimationFrame(drawing);
  drawing = requestAnimationFrame(drawList);
});
addEventListener("resize", drawList);
list.addEventListener("click", event => {
  const item = event.target.closest("[role=option]");
  if (item) choose(places.indexOf(Number(item.id.slice("option-".length))));
});
