// Puts the page together. A part that fails is told in its place and leaves the others alone: a
// page made by another version may lack what this one expects.

const listeners = [];

// Draws into the element of that id, at the start and whenever the shown runs or tensors change.
function onChange(id, draw) {
  listeners.push({id, draw});
}

function guard(id, work) {
  try {
    work();
  } catch (error) {
    console.error(`${id}: ${error.stack}`);
    byId(id).replaceChildren(html("p", {class: "note"}, `Cannot be shown: ${error.message}`));
  }
}

function changed() {
  for (const {id, draw} of listeners) guard(id, draw);
}

function drawLegend(runs) {
  byId("legend").replaceChildren(...runs.map((run) => {
    const button = html("button", {type: "button", "aria-pressed": "true", "data-run": run.name,
                                   title: "Hide or show this run", onclick: () => {
      run.hidden = !run.hidden;
      button.setAttribute("aria-pressed", String(!run.hidden));
      changed();
    }}, runLabel(run, 60));
    return button;
  }));
}

// Charts are drawn for a width, so another width is another drawing; once a frame is enough.
function redrawOnResize() {
  let width = window.innerWidth, isWaiting = false;
  window.addEventListener("resize", () => {
    if (isWaiting || window.innerWidth === width) return;
    isWaiting = true;
    requestAnimationFrame(() => {
      isWaiting = false;
      width = window.innerWidth;
      changed();
    });
  });
}

// On paper nothing can be opened.
function openForPrint() {
  window.addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll("details")) details.open = true;
  });
}

function start() {
  const data = JSON.parse(byId("data").textContent);
  const runs = (data.runs || []).map((run, index) => ({
    ...run, index, hidden: false, style: runStyle(index)}));
  if (runs.length === 0) return;
  guard("legend", () => drawLegend(runs));
  guard("subtitle", () => drawSubtitle(runs));
  guard("results", () => drawResults(runs));
  guard("settings", () => drawSettings(runs));
  guard("machine", () => drawMachine(runs));
  guard("loss-note", () => startLoss(runs));
  guard("scale-note", () => startTensors(runs));
  onChange("events", () => drawEvents(runs));
  redrawOnResize();
  openForPrint();
  changed();
}

guard("subtitle", start);
