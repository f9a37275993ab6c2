// One tensor's numbers by magnitude, a row for each run: where they lie in the format, what is
// beyond it, and how that changed since the first step.

const histogramView = {runs: [], logShare: false, opener: null};

function measured(tensor) {
  return histogramView.runs
      .filter((run) => !run.hidden && firstMeasurement(tensor, run))
      .map((run) => ({run, first: firstMeasurement(tensor, run),
                      now: measurementAt(tensor, run, tensorView.step)}));
}

function sharesOf(measurement) {
  const count = measurement.count || 0;
  return measurement.histogram.map((number) => count > 0 ? number / count : 0);
}

// Exponents that all rows cover, with the limits of their formats.
function exponentRange(rows) {
  const values = [];
  for (const {run, first, now} of rows) {
    for (const one of [first, now]) {
      one.histogram.forEach((count, i) => {
        if (count > 0) values.push(one.first + i, one.first + i + 1);
      });
    }
    const limits = limitsOf(run, now);
    if (limits) values.push(Math.log2(limits.max), Math.log2(limits.min_subnormal));
  }
  const [low, high] = extent(values) || [-8, 8];
  return [Math.floor(low) - 1, Math.ceil(high) + 1];
}

// The places of a row: exponents between two slots, for zero and for what is not finite.
function makeSlots(box, low, high) {
  const slot = 36, gap = 14;
  const x = makeScale(low, high, box.left + slot + gap, box.right - slot - gap, false);
  return {x, slot, special: [[box.left, "zero"], [box.right - slot, "nonfinite"]]};
}

function shareScale(rows, top, bottom) {
  const shares = rows.flatMap(({first, now}) => [first, now].flatMap(
      (one) => [...sharesOf(one), one.zero, one.nonfinite]));
  const most = (extent(shares) || [0, 1])[1] || 1;
  if (!histogramView.logShare) return makeScale(0, most * 1.08, bottom, top, false);
  const least = Math.min(...shares.filter((share) => share > 0), most / 10);
  return makeScale(least / 2, most * 1.5, bottom, top, true);
}

function drawBar(frame, left, width, share, y, attributes) {
  if (!(share > 0)) return;
  const top = Math.min(y.at(share), y.start - 0.6);
  frame.over.append(svg("rect", {class: "bar", x: left, width: Math.max(0.5, width), y: top,
                                 height: y.start - top, ...attributes}));
}

// An outline over the bars, so that both can be seen.
function outline(slots, measurement, y) {
  let path = "", previous = y.start;
  const shares = sharesOf(measurement);
  if (shares.length === 0) return path;
  const at = (share) => share > 0 ? Math.min(y.start, y.at(share)) : y.start;
  path = `M${slots.x.at(measurement.first)} ${previous}`;
  shares.forEach((share, i) => {
    path += `V${at(share).toFixed(1)}H${slots.x.at(measurement.first + i + 1).toFixed(1)}`;
  });
  return `${path}V${y.start}`;
}

function drawHistogramLimits(frame, slots, limits, top, bottom, isFirst) {
  if (!limits) return;
  const at = (key) => slots.x.at(Math.log2(limits[key]));
  const {x} = slots;
  const shade = (from, to, colour) => {
    if (to > from) {
      frame.under.append(svg("rect", {x: from, width: to - from, y: top, height: bottom - top,
                                      fill: colour, opacity: 0.08}));
    }
  };
  shade(x.start, at("min_subnormal"), LOSS_FILL);
  shade(at("min_subnormal"), at("min_normal"), SUBNORMAL_FILL);
  shade(at("max"), x.end, LOSS_FILL);
  for (const limit of LIMITS) {
    frame.under.append(svg("line", {x1: at(limit.key), x2: at(limit.key), y1: top, y2: bottom,
                                    stroke: "#777", "stroke-dasharray": limit.dash}));
    if (!isFirst) continue;
    frame.under.append(svg("text", {x: at(limit.key), y: top - 5, ...TEXT, "font-size": 10,
                                    "text-anchor": limit.anchor}, limit.label));
  }
}

function drawStart(frame, slots, first, y) {
  const style = {class: "start", fill: "none", stroke: "#222", "stroke-width": 1.2};
  frame.over.append(svg("path", {d: outline(slots, first, y), ...style}));
  for (const [left, key] of slots.special) {
    if (!(first[key] > 0)) continue;
    const line = `M${left + 2} ${y.at(first[key])}h${slots.slot - 4}`;
    frame.over.append(svg("path", {d: line, ...style}));
  }
}

function drawHistogramRow(frame, slots, row, y, isFirst) {
  const {run, first, now} = row, {slot} = slots, colour = run.style.colour;
  const top = y.end, bottom = y.start;
  drawHistogramLimits(frame, slots, limitsOf(run, now), top, bottom, isFirst);
  sharesOf(now).forEach((share, i) => {
    const left = slots.x.at(now.first + i);
    drawBar(frame, left + 0.5, slots.x.at(now.first + i + 1) - left - 1, share, y,
            {fill: colour, opacity: 0.6});
  });
  for (const [left, key] of slots.special) {
    frame.under.append(svg("rect", {x: left, y: top, width: slot, height: bottom - top,
                                    fill: "#f3f3f3"}));
    drawBar(frame, left + 4, slot - 8, now[key], y, {fill: colour, opacity: 0.6});
  }
  if (first !== now) drawStart(frame, slots, first, y);
  frame.over.append(svg("line", {x1: frame.box.left, x2: frame.box.right, y1: bottom, y2: bottom,
                                 stroke: "#888"}),
                    marker(run.style, slots.x.start + 9, top + 10, 4),
                    svg("text", {x: slots.x.start + 18, y: top + 14, "font-size": 11, fill: "#222",
                                 stroke: "#fff", "stroke-width": 3, "paint-order": "stroke"},
                        `${shortenMiddle(run.name, 34)} · ${now.format}`));
  const ticks = histogramView.logShare ? ticksOf(y, 3) : [y.to / 1.08];
  for (const tick of ticks) {
    frame.under.append(svg("text", {x: frame.box.left - 5, y: y.at(tick) + 4, "text-anchor": "end",
                                    ...TEXT, "font-size": 10}, percent(tick)));
  }
}

function drawHistogram(holder, tensor, rows) {
  const rowHeight = rows.length > 2 ? 76 : rows.length > 1 ? 104 : 190, gap = 10;
  const height = 20 + rows.length * (rowHeight + gap) - gap + 24;
  const frame = makeFrame(holder, height, {left: 44, right: 8, top: 20, bottom: 24},
                          `Histogram of ${tensor.name} by powers of two`);
  const [low, high] = exponentRange(rows), slots = makeSlots(frame.box, low, high);
  rows.forEach((row, i) => {
    const top = frame.box.top + i * (rowHeight + gap);
    drawHistogramRow(frame, slots, row, shareScale([row], top, top + rowHeight), i === 0);
  });
  const step = [1, 2, 4, 8, 16, 32].find(
      (size) => (slots.x.end - slots.x.start) / (high - low) * size >= 34) || 64;
  const base = frame.box.top + rows.length * (rowHeight + gap) - gap;
  const label = (x, ...text) => frame.under.append(svg(
      "text", {x, y: base + 16, "text-anchor": "middle", ...TEXT}, ...text));
  for (let k = Math.ceil((low + 1) / step) * step; k < high; k += step) {
    label(slots.x.at(k), powerLabel(k));
  }
  const names = {zero: "zero", nonfinite: "∞, NaN"};
  for (const [left, key] of slots.special) label(left + slots.slot / 2, names[key]);
}

const NUMBERS = [["mean", "mean", shortNumber], ["std", "std", shortNumber],
                 ["rms", "rms", shortNumber],
                 ["abs_min", "abs min", shortNumber], ["abs_max", "abs max", shortNumber],
                 ["lost", "lost", percent], ["zero", "zero", percent],
                 ["subnormal", "subnormal", percent], ["saturated", "saturated", percent],
                 ["nonfinite", "not finite", percent], ["count", "numbers", wholeNumber]];

function numbersTable(rows) {
  const steps = ({first, now}) => first === now ? wholeNumber(now.step)
      : `${wholeNumber(first.step)} → ${wholeNumber(now.step)}`;
  const heads = rows.map((row) => html("th", {scope: "col"}, runLabel(row.run), html(
      "div", {class: "first"}, `step ${steps(row)}`)));
  const lines = NUMBERS.map(([column, title, format]) => html(
      "tr", {}, html("th", {scope: "row"}, title),
      rows.map(({first, now}) => html("td", {class: "number"},
                                      fromTo({first, last: now}, column, format)))));
  return html("div", {class: "scrolls"},
              html("table", {class: "numbers"},
                   html("thead", {}, html("tr", {}, html("th", {}), heads)),
                   html("tbody", {}, lines)));
}

function panelHead(tensor) {
  const walk = (step) => {
    const tensors = wantedTensors(histogramView.runs);
    const now = tensors.findIndex((other) => other.key === tensor.key);
    const next = tensors[(now + step + tensors.length) % tensors.length];
    if (next) openHistogram(next.key);
  };
  const log = html("input", {type: "checkbox", checked: histogramView.logShare, onchange: () => {
    histogramView.logShare = log.checked;
    drawPanel();
  }});
  const button = (text, title, press) => html("button", {type: "button", title, "aria-label": title,
                                                         onclick: press}, text);
  return html("div", {class: "panel-head"},
              html("h2", {}, tensor.name, html("span", {}, roleName(tensor.role).long)),
              html("label", {}, log, "logarithmic share"),
              button("‹", "Previous tensor", () => walk(-1)),
              button("›", "Next tensor", () => walk(1)),
              button("×", "Close (Escape)", closeHistogram));
}

function drawPanel() {
  const panel = byId("histogram-panel");
  const tensor = tensorView.tensors.find((other) => other.key === tensorView.selected);
  panel.hidden = !tensor;
  document.body.classList.toggle("with-panel", Boolean(tensor));
  if (!tensor) return;
  const rows = measured(tensor), holder = html("div", {class: "chart"});
  const body = html("div", {class: "panel-body"}, holder, numbersTable(rows));
  panel.replaceChildren(panelHead(tensor), body);
  if (rows.length === 0) {
    emptyChart(body, "No run that is shown has measured this tensor.");
    return;
  }
  drawHistogram(holder, tensor, rows);
  const text = "Bars: share of the numbers in each power of two at the shown step; " +
      "black line: at the first measured step.";
  holder.append(html("p", {class: "note"}, text));
}

// Whoever came by keyboard is taken into the panel, and back when it closes.
function openHistogram(key, opener = null) {
  tensorView.selected = key;
  drawPanel();
  markSelectedRow();
  tensorView.showSelected();
  if (opener) {
    histogramView.opener = opener;
    byId("histogram-panel").querySelector("button").focus();
  }
}

function closeHistogram() {
  tensorView.selected = null;
  drawPanel();
  markSelectedRow();
  tensorView.showSelected();
  if (histogramView.opener) histogramView.opener.focus();
  histogramView.opener = null;
}

function startHistogram(runs) {
  histogramView.runs = runs;
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && tensorView.selected) closeHistogram();
  });
  onChange("histogram-panel", drawPanel);
}
