const DECISIONS = ["keep", "accept", "relabel", "skip"];

const csvField = text => /[",\r\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
const csvLine = fields => fields.map(csvField).join(",") + "\n";

/** Let the browser download a text. */
function saveFile(name, text) {
  const address = URL.createObjectURL(new Blob([text], {type: "text/csv"}));
  make("a", {href: address, download: name}).click();
  URL.revokeObjectURL(address);
}

/**
 * The rows of a CSV text as lists of fields. Quoted fields may hold commas, line ends and doubled quotes.
 * null if a quote is not closed.
 */
function parseCsv(text) {
  const rows = [];
  let row = [], field = "", quoted = false, touched = false;
  const endField = () => { row.push(field); field = ""; };
  const endRow = () => { if (touched) { endField(); rows.push(row); } row = []; touched = false; };
  const start = text.startsWith("\ufeff") ? 1 : 0;
  for (let at = start; at < text.length; at++) {
    const letter = text[at];
    if (quoted) {
      if (letter !== '"') field += letter;
      else if (text[at + 1] === '"') { field += '"'; at++; }
      else quoted = false;
      continue;
    }
    if (letter === "\n") endRow();
    else if (letter === "\r") { if (text[at + 1] !== "\n") endRow(); }
    else {
      touched = true;
      if (letter === '"' && field === "") quoted = true;
      else if (letter === ",") endField();
      else field += letter;
    }
  }
  endRow();
  return quoted ? null : rows;
}
