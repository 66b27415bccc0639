// The dialog in which another label is typed or chosen.
const CHOICES = 50;  // more are found by typing more
let marked = -1;  // -1 for none: a misspelt label must not become a class by one Enter

/** Labels that hold what was typed, those that start with it first, and what was typed itself as a new class. */
function choicesFor(typed) {
  const wanted = typed.trim().toLowerCase();
  const holding = report.classes.filter(name => name.toLowerCase().includes(wanted));
  const rank = name => name.toLowerCase() === wanted ? 0 : name.toLowerCase().startsWith(wanted) ? 1 : 2;
  const found = wanted ? holding.sort((a, b) => rank(a) - rank(b)) : holding;
  const choices = found.slice(0, CHOICES).map(name => ({name, isNew: false}));
  if (wanted && !report.classes.includes(typed.trim())) choices.push({name: typed.trim(), isNew: true});
  return choices;
}

function drawChoices() {
  const choices = choicesFor(byId("wanted").value);
  marked = Math.min(marked, choices.length - 1);
  if (marked < 0 && byId("wanted").value.trim() && !choices[0].isNew) marked = 0;
  byId("choices").replaceChildren(...choices.map(({name, isNew}, at) => {
    const item = make("li", {id: `choice-${at}`, role: "option", "aria-selected": at === marked ? "true" : "false"},
      isNew ? `new class: ${name}` : name === givenOf(current) ? `${name} (the given label)` : name);
    item.addEventListener("click", () => takeLabel(name));
    return item;
  }));
  if (marked >= 0) byId("wanted").setAttribute("aria-activedescendant", `choice-${marked}`);
  else byId("wanted").removeAttribute("aria-activedescendant");
  byId(`choice-${marked}`)?.scrollIntoView({block: "nearest"});
}

function askForLabel() {
  byId("wanted").value = "";
  marked = -1;
  byId("relabel-title").textContent = `Another label than ${givenOf(current)}`;
  byId("relabel").showModal();
  drawChoices();
  byId("wanted").focus();
}

/** At once, not when the browser gets round to it: the next key may follow within a frame. */
function closeRelabel() {
  byId("relabel").close();
  list.focus({preventScroll: true});
}

function takeLabel(name) {
  closeRelabel();
  decide("relabel", name);
}

byId("wanted").addEventListener("input", () => { marked = -1; drawChoices(); });
byId("wanted").addEventListener("keydown", event => {
  const step = {ArrowDown: 1, ArrowUp: -1}[event.key];
  if (step) { marked = Math.max(-1, marked + step); drawChoices(); event.preventDefault(); }
  if (event.key === "Escape") { closeRelabel(); event.preventDefault(); }
  if (event.key === "Enter") {
    const choice = choicesFor(byId("wanted").value)[marked];
    if (choice) takeLabel(choice.name);
    event.preventDefault();
  }
});
