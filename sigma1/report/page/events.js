// What the runs reported while they ran, the newest last.

const MOST_EVENTS = 500;

// A gradient's event may name its tensor without a role: then the first of that name is meant.
function tensorOfEvent(event) {
  return tensorView.tensors.find((tensor) => tensor.name === event.tensor &&
                                             (!event.role || tensor.role === event.role));
}

function tensorLink(event) {
  if (!event.tensor) return null;
  const tensor = tensorOfEvent(event);
  if (!tensor) return html("code", {}, event.tensor);
  return html("button", {type: "button", class: "link", title: "Open its histogram",
                         onclick: () => openHistogram(tensor.key)}, event.tensor);
}

function eventLine({run, event}, isAlone) {
  const details = [event.role, event.format, isNumber(event.share) ? percent(event.share) : null];
  return html("li", {},
              html("span", {class: "step"}, `step ${wholeNumber(event.step)}`),
              html("span", {class: `kind ${String(event.kind).replace(/\W+/g, "-")}`}, event.kind),
              isAlone ? null : runLabel(run), tensorLink(event),
              html("span", {class: "first"}, details.filter(Boolean).join(", ")),
              html("p", {}, event.text || ""));
}

function drawEvents(runs) {
  const all = [];
  for (const run of runs.filter((shown) => !shown.hidden && shown.events)) {
    for (const event of run.events.newest) all.push({run, event});
  }
  all.sort((a, b) => a.event.step - b.event.step);
  const shown = all.slice(-MOST_EVENTS);
  byId("events").replaceChildren(...shown.map((entry) => eventLine(entry, runs.length === 1)));
  const total = runs.reduce((sum, run) => sum + (run.hidden ? 0 : eventCount(run) || 0), 0);
  const missing = runs.filter((run) => !run.events);
  const notes = [total === 0 ? "None." : `${plural(total, "event")}, the newest last.`];
  if (total > shown.length) notes.push(`Only the newest ${wholeNumber(shown.length)} are shown.`);
  notes.push(missingNote("events.jsonl", runs, missing));
  if (missing.length === runs.length) notes.shift();
  byId("events-note").textContent = notes.join(" ");
}
