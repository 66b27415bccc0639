function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const NOT_RECORDED = 255;
const lossHeights = report.losses ? Uint8Array.from(atob(report.losses.heights), letter => letter.charCodeAt(0)) : null;
const pointsDrawn = report.losses?.epochs.length ?? 0;

const reviewPosition = new Map(reviewOrder.slice(0, pointsDrawn ? lossHeights.length / pointsDrawn : 0).map((place, at) => [place, at]));

/** The heights (0 to 254) of a sample's loss curve, or null if it is not in the page. */
const extraLosses = new Map();  // fetched from a server
function lossesOf(place) {
  if (extraLosses.has(place)) return extraLosses.get(place);
  const at = reviewPosition.get(place);
  return at === undefined ? null : lossHeights.subarray(at * pointsDrawn, (at + 1) * pointsDrawn);
}

/** The path of a curve, with gaps where nothing was recorded; a single epoch is a horizontal line. */
function linePath(heights, left, top, width, height) {
  const last = report.losses.epochs[pointsDrawn - 1], first = report.losses.epochs[0];
  let path = "", pen = "M";
  heights.forEach((value, at) => {
    if (value === NOT_RECORDED) { pen = "M"; return; }
    const x = last === first ? left : left + width * (report.losses.epochs[at] - first) / (last - first);
    path += `${pen}${x.toFixed(1)} ${(top + height * (1 - value / 254)).toFixed(1)}`;
    if (last === first) path += `h${width}`;
    pen = "L";
  });
  return path;
}

function smallLossCurve(place, width, height) {
  const heights = lossesOf(place);
  const drawing = svg("svg", {class: "loss", viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true"});
  if (!heights) return drawing;
  drawing.append(
    svg("path", {class: "typical", d: linePath(report.losses.typical, 1, 2, width - 2, height - 4)}),
    svg("path", {class: "own", d: linePath(heights, 1, 2, width - 2, height - 4)}),
  );
  return drawing;
}

/** The loss curve with axes, and its first and last value as a label for screen readers. */
function largeLossCurve(place) {
  const heights = lossesOf(place);
  if (!heights) return null;
  const [left, top, width, height] = [40, 8, 270, 96];
  const {epochs, top: highest} = report.losses;
  const known = [...heights].filter(value => value !== NOT_RECORDED);
  const loss = value => value === 254 ? `${highest} or more` : (highest * value / 254).toPrecision(2);
  const words = known.length ? `Loss of the given label: ${loss(known[0])} at the first epoch, ${loss(known.at(-1))} at the last.` : "No loss recorded.";
  return svg("svg", {class: "loss large", viewBox: "0 0 320 132", role: "img", "aria-label": words},
    svg("path", {class: "axis", d: `M${left} ${top}v${height}h${width}`}),
    svg("text", {x: left - 5, y: top + 9, class: "end"}, String(highest)),
    svg("text", {x: left - 5, y: top + height, class: "end"}, "0"),
    svg("text", {x: left, y: top + height + 15}, `${report.unit} ${epochs[0]}`),
    svg("text", {x: left + width, y: top + height + 15, class: "end"}, String(epochs.at(-1))),
    svg("path", {class: "typical", d: linePath(report.losses.typical, left, top, width, height)}),
    svg("path", {class: "own", d: linePath(heights, left, top, width, height)}),
  );
}
