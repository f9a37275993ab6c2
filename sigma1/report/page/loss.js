// What the runs learned: training loss, smoothed, and what validations found.

const lossView = {window: 1, logX: false, logY: false, range: null};
const WINDOWS = [1, 2, 5, 10, 20, 50, 100, 200];

// The mean of the last `window` points; what is missing stays missing.
function smooth(values, window) {
  const kept = [];
  let sum = 0;
  return values.map((value) => {
    if (!isNumber(value)) return null;
    kept.push(value);
    sum += value;
    if (kept.length > window) sum -= kept.shift();
    return sum / kept.length;
  });
}

function curveOf(run, name) {
  const curve = run[name] || {};
  return {steps: curve.steps || [], values: curve.values || []};
}

function extent(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    if (!isNumber(value)) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  return low <= high ? [low, high] : null;
}

// A run that diverges must not press the others flat: what is far above where runs begin is cut
// off.
function valueRange(lines, isLog) {
  const [low, high] = extent(lines.flatMap((line) => line.shown)) || [0, 1];
  if (isLog && low > 0) return [low * 0.98, high * 1.02];
  const starts = lines.map((line) => line.shown.find(isNumber)).filter(isNumber);
  const cut = Math.max(...starts, low) * 2;
  const top = isLog ? high : Math.min(high, Math.max(cut, low + 1e-6));
  const pad = (top - low || Math.abs(top) || 1) * 0.05;
  return [low - pad, top + pad];
}

function within(range, step) {
  return !range || (step >= range[0] && step <= range[1]);
}

// {run, steps, values, smoothed, shown}: `shown` has what lies in the range of steps.
function linesOf(runs, name, window, range) {
  return runs.filter((run) => !run.hidden).map((run) => {
    const {steps, values} = curveOf(run, name);
    const smoothed = smooth(values, window);
    const shown = smoothed.filter((_, i) => within(range, steps[i]));
    return {run, steps, values, smoothed, shown};
  }).filter((line) => line.steps.length > 0);
}

// A chart of lines over steps; `options`: name, label, window, markers, view.
function drawCurves(holder, runs, options) {
  const {range, logX, logY} = options.view;
  const lines = linesOf(runs, options.name, options.window, range);
  if (lines.length === 0) {
    emptyChart(holder, "Nothing was logged yet, or no run is shown.");
    return null;
  }
  const frame = makeFrame(holder, options.height, {left: 46, right: 24, top: 10, bottom: 40},
                          options.label);
  dropNativeTitle(frame);
  // Both charts have the steps of training, so that they can be read together.
  const trained = lines.flatMap((line) => curveOf(line.run, "train").steps);
  const steps = range || extent([...trained, ...lines.flatMap((line) => line.steps)]);
  const values = valueRange(lines, logY);
  const {box} = frame;
  const from = logX ? Math.max(1, steps[0]) : steps[0];
  const x = makeScale(from, Math.max(steps[1], from + 1), box.left, box.right, logX);
  const y = makeScale(values[0], values[1], box.bottom, box.top, logY && values[0] > 0);
  drawYAxis(frame, y, ticksOf(y, 6), (tick) => shortNumber(tick, 3));
  drawXAxis(frame, x, ticksOf(x, (box.right - box.left) / 90).filter(Number.isInteger), "step");
  if (extent(lines.flatMap((line) => line.shown))?.[1] > y.to) {
    frame.over.append(svg("text", {x: box.right, y: box.top + 10, "text-anchor": "end", ...TEXT},
                          "larger values are cut off"));
  }
  for (const line of lines) drawLine(frame, x, y, line, options);
  addCrosshair(frame, x, y, lines);
  return {frame, x};
}

function drawLine(frame, x, y, line, options) {
  const {colour, dash} = line.run.style;
  const xs = line.steps.map(x.at);
  if (options.window > 1) {
    frame.plot.append(svg("path", {class: "raw", d: linePath(xs, line.values.map(
        (value) => isNumber(value) ? y.at(value) : null)), fill: "none", stroke: colour,
        "stroke-width": 0.8, opacity: 0.22}));
  }
  const ys = line.smoothed.map((value) => isNumber(value) ? y.at(value) : null);
  frame.plot.append(svg("path", {class: "series", "data-run": line.run.name, d: linePath(xs, ys),
                                 fill: "none", stroke: colour, "stroke-width": 1.9,
                                 "stroke-linejoin": "round", "stroke-linecap": "round",
                                 "stroke-dasharray": dash || null}));
  if (!options.markers) return;
  xs.forEach((at, i) => {
    if (isNumber(ys[i])) frame.over.append(marker(line.run.style, at, ys[i], 3.6));
  });
}

function nearestIndex(steps, step) {
  let low = 0, high = steps.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (steps[middle] < step) low = middle + 1;
    else high = middle;
  }
  return low > 0 && step - steps[low - 1] < steps[low] - step ? low - 1 : low;
}

// Where the pointer is in the chart's own units, whatever size it is shown at.
function pointerX(frame, event) {
  const shown = frame.root.getBoundingClientRect();
  return (event.clientX - shown.left) / shown.width * frame.width;
}

function addCrosshair(frame, x, y, lines) {
  const {box} = frame;
  const cross = svg("g", {visibility: "hidden", "pointer-events": "none"});
  frame.over.append(cross);
  const move = (event) => {
    const at = Math.min(box.right, Math.max(box.left, pointerX(frame, event)));
    const all = lines.map((line) => line.steps[nearestIndex(line.steps, x.invert(at))]);
    const step = all.reduce((a, b) => Math.abs(x.at(a) - at) <= Math.abs(x.at(b) - at) ? a : b);
    const place = x.at(step);
    cross.replaceChildren(svg("line", {x1: place, x2: place, y1: box.top, y2: box.bottom,
                                       stroke: "#555", "stroke-dasharray": "3 3"}));
    const rows = lines.map((line) => {
      const i = nearestIndex(line.steps, step), value = line.smoothed[i];
      const dot = () => marker(line.run.style, x.at(line.steps[i]), y.at(value), 4);
      if (isNumber(value)) cross.append(dot());
      return html("tr", {}, html("td", {}, runLabel(line.run)), html(
          "td", {class: "number"}, isNumber(value) ? resultNumber(value) : "not finite"));
    });
    cross.setAttribute("visibility", "visible");
    showTooltip(event, html("b", {}, `step ${wholeNumber(step)}`),
                html("table", {}, rows));
  };
  frame.root.addEventListener("pointermove", move);
  frame.root.addEventListener("pointerleave", () => {
    cross.setAttribute("visibility", "hidden");
    hideTooltip();
  });
}

// A stretch of steps is looked at by dragging over it.
function addZoom({frame, x}, redraw) {
  const {box} = frame;
  let start = null;
  const mark = svg("rect", {y: box.top, height: box.bottom - box.top, fill: "#0072b2",
                            opacity: 0.1, width: 0});
  frame.over.append(mark);
  const clamp = (at) => Math.min(box.right, Math.max(box.left, at));
  frame.root.addEventListener("pointerdown", (event) => {
    start = clamp(pointerX(frame, event));
    event.preventDefault();
  });
  frame.root.addEventListener("pointermove", (event) => {
    if (start === null) return;
    const end = clamp(pointerX(frame, event));
    fill(mark, {x: Math.min(start, end), width: Math.abs(end - start)}, []);
  });
  frame.root.addEventListener("pointerup", (event) => {
    const end = clamp(pointerX(frame, event));
    const wide = start !== null && Math.abs(end - start) > 6;
    if (wide) lossView.range = [start, end].map(x.invert).sort((a, b) => a - b);
    start = null;
    if (wide) redraw();
  });
  frame.root.addEventListener("pointerleave", () => {
    start = null;
    mark.setAttribute("width", 0);
  });
}

// Small marks under the curves: where something happened that the last section tells.
function drawEventMarks({frame, x}, runs) {
  for (const run of runs) {
    if (run.hidden || !run.events) continue;
    const steps = new Set(run.events.newest.map((event) => event.step));
    for (const step of [...steps].slice(-400)) {
      if (!within(lossView.range, step)) continue;
      const at = x.at(x.isLog ? Math.max(1, step) : step);
      frame.over.append(svg("path", {class: "event-mark", fill: run.style.colour,
                                     d: polygon(at, frame.box.bottom - 4, 4, 3, 0)}));
    }
  }
}

function drawLossNote(runs) {
  const notes = [];
  const reduced = runs.filter((run) => run.train && run.train.logged > run.train.steps.length);
  if (reduced.length > 0) {
    const {logged, steps} = reduced[0].train;
    const names = reduced.map((run) => run.name).join(", ");
    notes.push(`Each point${reduced.length < runs.length ? ` of ${names}` : ""} is the mean of ` +
               `about ${Math.ceil(logged / steps.length)} logged losses; the last one is ` +
               "as logged.");
  }
  for (const run of runs) {
    const count = run.train ? run.train.not_finite : 0;
    if (count > 0) notes.push(`${run.name}: ${plural(count, "logged loss")} not finite.`);
  }
  if (runs.some((run) => run.events && run.events.total > 0)) {
    notes.push("Triangles on the axis mark events.");
  }
  notes.push("Drag over the training loss to look at a stretch of steps.");
  byId("loss-note").textContent = notes.join(" ");
}

function drawLoss(runs) {
  const redraw = () => drawLoss(runs);
  const height = 330;
  const drawn = drawCurves(byId("loss-chart"), runs, {
    name: "train", label: "Training loss of each run over its steps", window: lossView.window,
    view: lossView, height});
  if (drawn) {
    drawEventMarks(drawn, runs);
    addZoom(drawn, redraw);
  }
  drawCurves(byId("valid-chart"), runs, {
    name: byId("valid-metric").value, label: "Validation of each run over its steps", window: 1,
    view: {...lossView, range: null}, markers: true, height});
  byId("loss-reset").hidden = lossView.range === null;
}

function startLoss(runs) {
  const longest = Math.max(0, ...runs.map((run) => curveOf(run, "train").steps.length));
  const wanted = longest / 60;
  lossView.window = WINDOWS.filter((window) => window <= Math.max(1, wanted)).pop();
  const select = byId("loss-window");
  select.append(...WINDOWS.map((window) => html(
      "option", {value: window, selected: window === lossView.window}, String(window))));
  const listen = (id, change) => byId(id).addEventListener("change", (event) => {
    change(event.target);
    drawLoss(runs);
  });
  listen("loss-window", (input) => { lossView.window = Number(input.value); });
  listen("loss-log-x", (input) => { lossView.logX = input.checked; });
  listen("loss-log-y", (input) => { lossView.logY = input.checked; });
  listen("valid-metric", () => {});
  byId("loss-reset").addEventListener("click", () => {
    lossView.range = null;
    drawLoss(runs);
  });
  for (const id of ["loss-chart", "valid-chart"]) {
    addSaveButton(byId(id), id.replace("-chart", ""), runs);
  }
  drawLossNote(runs);
  onChange("loss-chart", () => drawLoss(runs));
}
