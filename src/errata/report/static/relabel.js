// The dialog to choose another label or to create a new class.
const CHOICES = 50;  // labels shown; typing narrows them down
let marked = -1;  // -1 is none, so that Enter alone does not create a class from a typo

/** The labels that contain the typed text, those that start with it first, and the text itself as a new class. */
function choicesFor(typed) {
  const text = typed.trim().toLowerCase();
  const holding = report.classes.filter(name => name.toLowerCase().includes(text));
  const rank = name => name.toLowerCase() === text ? 0 : name.toLowerCase().startsWith(text) ? 1 : 2;
  const found = text ? holding.sort((a, b) => rank(a) - rank(b)) : holding;
  const choices = found.slice(0, CHOICES).map(name => ({name, isNew: false}));
  if (text && !report.classes.includes(typed.trim())) choices.push({name: typed.trim(), isNew: true});
  return choices;
}

function drawChoices() {
  const choices = choicesFor(byId("new-label").value);
  marked = Math.min(marked, choices.length - 1);
  if (marked < 0 && byId("new-label").value.trim() && !choices[0].isNew) marked = 0;
  byId("choices").replaceChildren(...choices.map(({name, isNew}, at) => {
    const item = make("li", {id: `choice-${at}`, role: "option", "aria-selected": at === marked ? "true" : "false"},
      isNew ? `new class: ${name}` : name === givenOf(current) ? `${shownLabel(name)} (the given label)` : shownLabel(name));
    item.addEventListener("click", () => chooseLabel(name));
    return item;
  }));
  if (marked >= 0) byId("new-label").setAttribute("aria-activedescendant", `choice-${marked}`);
  else byId("new-label").removeAttribute("aria-activedescendant");
  byId(`choice-${marked}`)?.scrollIntoView({block: "nearest"});
}

function openRelabel() {
  byId("new-label").value = "";
  marked = -1;
  byId("relabel-title").textContent = `Another label than ${givenOf(current)}`;
  byId("relabel").showModal();
  drawChoices();
  byId("new-label").focus();
}

/** Close and move the focus immediately: the next key press may follow within a frame. */
function closeRelabel() {
  byId("relabel").close();
  list.focus({preventScroll: true});
}

function chooseLabel(name) {
  closeRelabel();
  decide("relabel", name);
}

byId("new-label").addEventListener("input", () => { marked = -1; drawChoices(); });
byId("new-label").addEventListener("keydown", event => {
  const step = {ArrowDown: 1, ArrowUp: -1}[event.key];
  if (step) { marked = Math.max(-1, marked + step); drawChoices(); event.preventDefault(); }
  if (event.key === "Escape") { closeRelabel(); event.preventDefault(); }
  if (event.key === "Enter") {
    const choice = choicesFor(byId("new-label").value)[marked];
    if (choice) chooseLabel(choice.name);
    event.preventDefault();
  }
});
