// Every tensor's scale in the order of execution, with the limits of the format it is cast to: the
// picture that shows at a glance whether a format fits.

const SCALE_HEIGHT = 430;

function statisticOf(measurement) {
  const value = measurement ? measurement[tensorView.statistic] : null;
  return isNumber(value) ? value : null;
}

function log2Of(measurement) {
  const value = statisticOf(measurement);
  return value > 0 ? Math.log2(value) : null;
}

// All that is drawn of one run of one tensor.
function pointsOf(tensors, runs) {
  const points = [];
  tensors.forEach((tensor, column) => {
    for (const run of runs.filter((shown) => !shown.hidden)) {
      const measurement = measurementAt(tensor, run, tensorView.step);
      if (!measurement) continue;
      points.push({tensor, column, run, measurement, now: log2Of(measurement),
                   start: log2Of(firstMeasurement(tensor, run)),
                   isZero: statisticOf(measurement) === 0});
    }
  });
  return points;
}

function scaleRange(points, limits) {
  const values = points.flatMap((point) => [point.now, point.start]);
  for (const one of limits.filter(Boolean)) {
    values.push(Math.log2(one.max), Math.log2(one.min_subnormal));
  }
  const [low, high] = extent(values) || [-1, 1];
  return [Math.floor(low - 1.5), Math.ceil(high + 1.5)];
}

// Bands of equal roles, with air between them.
function placeColumns(tensors, box) {
  const gap = 14, bands = [];
  tensors.forEach((tensor, column) => {
    const band = bands[bands.length - 1];
    if (band && band.role === tensor.role) band.end = column + 1;
    else bands.push({role: tensor.role, begin: column, end: column + 1});
  });
  const room = box.right - box.left - gap * (bands.length - 1);
  const width = room / Math.max(1, tensors.length);
  bands.forEach((band, i) => {
    band.left = box.left + band.begin * width + i * gap;
    band.right = band.left + (band.end - band.begin) * width;
  });
  const bandOf = (column) => bands.find((band) => column < band.end);
  const at = (column) => bandOf(column).left + (column - bandOf(column).begin + 0.5) * width;
  return {bands, width, at};
}

function drawBands(frame, columns) {
  const {box} = frame;
  for (const band of columns.bands) {
    const room = band.right - band.left, names = roleName(band.role);
    const text = [names.long, names.short].find((name) => name.length * 6.6 < room);
    frame.over.append(svg("rect", {x: band.left, y: box.top, width: room,
                                   height: box.bottom - box.top, fill: "none", stroke: "#bbb"}));
    if (!text) continue;
    frame.over.append(svg("text", {x: (band.left + band.right) / 2, y: box.top - 8,
                                   "text-anchor": "middle", "font-size": 12,
                                   "font-weight": 600, fill: "#333"}, text));
  }
}

function shorten(name, length) {
  return name.length > length ? `…${name.slice(1 - length)}` : name;
}

// Whole names when there is room for them, otherwise the parts of the model they begin with.
function labelColumns(frame, columns, tensors) {
  const {box} = frame;
  if (columns.width >= 15) {
    tensors.forEach((tensor, c) => {
      const x = columns.at(c) + 3, y = box.bottom + 12;
      frame.under.append(svg("text", {x, y, "text-anchor": "end", ...TEXT, "font-size": 10.5,
                                      transform: `rotate(-40 ${x} ${y})`},
                             shorten(tensor.name, 29)));
    });
    return;
  }
  const partOf = (tensor) => tensor.name.split("/")[0];
  for (const band of columns.bands) {
    for (let c = band.begin; c < band.end;) {
      let end = c + 1;
      while (end < band.end && partOf(tensors[end]) === partOf(tensors[c])) ++end;
      const left = columns.at(c) - columns.width / 2, room = (end - c) * columns.width;
      if (room > 8) {
        frame.under.append(svg("line", {x1: left, x2: left, y1: box.top, y2: box.bottom + 5,
                                        stroke: "#ddd"}));
      }
      const part = partOf(tensors[c]), digits = part.replace(/^\D+/, "");
      const text = [part, digits].find((name) => name && name.length * 5.8 + 3 < room);
      if (text) {
        frame.under.append(svg("text", {x: left + room / 2, y: box.bottom + 15, ...TEXT,
                                        "text-anchor": "middle", "font-size": 10}, text));
      }
      c = end;
    }
  }
}

// Runs stand side by side within a column as far as it has room.
function drawPoints(frame, columns, y, points, runs) {
  const shown = runs.filter((run) => !run.hidden), {box} = frame;
  const spread = Math.min(14, columns.width / (shown.length + 1));
  const size = columns.width * 1.4 < 5.5 ? Math.max(2, columns.width * 0.7) : 3.8;
  const drift = svg("g", {opacity: 0.55}), marks = svg("g", {});
  for (const point of points) {
    const offset = (shown.indexOf(point.run) - (shown.length - 1) / 2) * spread;
    const x = columns.at(point.column) + offset, {style} = point.run;
    const place = point.now !== null ? y.at(point.now) : point.isZero ? box.bottom : null;
    if (place === null) continue;
    if (point.start !== null && point.now !== null) {
      drift.append(svg("line", {x1: x, x2: x, y1: y.at(point.start), y2: place,
                                stroke: style.colour, "stroke-width": 1.1}),
                   svg("line", {x1: x - 2.5, x2: x + 2.5, y1: y.at(point.start),
                                y2: y.at(point.start), stroke: style.colour}));
    }
    // What is pressed is a circle, whatever the marker: the same target everywhere.
    marks.append(marker(style, x, place, size, {opacity: point.isZero ? 0.4 : 0.9}),
                 svg("circle", {class: "tensor", cx: x, cy: place, r: size + 1.5,
                                fill: "transparent", "data-key": point.tensor.key,
                                "data-run": point.run.name}));
  }
  frame.plot.append(drift);
  frame.over.append(marks);
}

function scaleTooltip(event, tensor, runs) {
  const rows = runs.filter((run) => !run.hidden && firstMeasurement(tensor, run)).map((run) => {
    const start = firstMeasurement(tensor, run);
    const now = measurementAt(tensor, run, tensorView.step);
    return html("tr", {}, html("td", {}, runLabel(run)),
                html("td", {class: "number"}, shortNumber(statisticOf(start))), html("td", {}, "→"),
                html("td", {class: "number"}, shortNumber(statisticOf(now))),
                html("td", {}, now.format), html("td", {}, `lost ${percent(now.lost)}`));
  });
  showTooltip(event, html("b", {}, tensor.name), html("div", {}, roleName(tensor.role).long),
              html("table", {}, rows));
}

// The pointer picks the column it is over, and the arrow keys do the same for those without one.
function addColumnPicker(frame, columns, tensors, runs) {
  const {box} = frame;
  const strip = svg("rect", {y: box.top, height: box.bottom - box.top, width: 0, fill: "#0072b2",
                             opacity: 0.1, "pointer-events": "none"});
  frame.under.append(strip);
  const place = (column) => fill(strip, {x: columns.at(column) - Math.max(columns.width, 5) / 2,
                                         width: Math.max(columns.width, 5)}, []);
  const selected = () => tensors.findIndex((tensor) => tensor.key === tensorView.selected);
  const rest = () => selected() < 0 ? strip.setAttribute("width", 0) : place(selected());
  const nearest = (event) => {
    const x = pointerX(frame, event);
    const away = (column) => Math.abs(columns.at(column) - x);
    return tensors.reduce((best, _, column) => away(column) < away(best) ? column : best, 0);
  };
  frame.root.addEventListener("pointermove", (event) => {
    place(nearest(event));
    scaleTooltip(event, tensors[nearest(event)], runs);
  });
  frame.root.addEventListener("pointerleave", () => {
    hideTooltip();
    rest();
  });
  frame.root.addEventListener("click", (event) => {
    openHistogram(event.target.getAttribute("data-key") || tensors[nearest(event)].key);
  });
  tensorView.showSelected = rest;
  rest();
}

// On the holder, which stays when the plot is drawn anew.
function addArrowKeys(runs) {
  const holder = byId("scale-plot");
  fill(holder, {tabindex: 0, role: "group",
                "aria-label": "Scales; the arrow keys go from tensor to tensor"}, []);
  holder.addEventListener("keydown", (event) => {
    const step = {ArrowLeft: -1, ArrowRight: 1}[event.key];
    const tensors = wantedTensors(runs);
    if (!step || tensors.length === 0) return;
    event.preventDefault();
    const now = tensors.findIndex((tensor) => tensor.key === tensorView.selected);
    const next = now < 0 ? 0 : (now + step + tensors.length) % tensors.length;
    openHistogram(tensors[next].key);
  });
}

function drawScalePlot(runs) {
  const holder = byId("scale-plot"), tensors = wantedTensors(runs);
  if (tensors.length === 0) {
    emptyChart(holder, "No tensor fits the search.");
    return;
  }
  const hasRoom = (holder.clientWidth - 100) / tensors.length >= 15;
  const margin = {left: 52, right: 10, top: 26, bottom: hasRoom ? 118 : 26};
  const frame = makeFrame(holder, SCALE_HEIGHT + (hasRoom ? 60 : 0), margin,
                          "Scale of every tensor in the order of execution, as a power of two");
  dropNativeTitle(frame);
  const limits = tensors.map((tensor) => narrowestLimits(tensor, runs));
  const statistic = byId("scale-statistic").selectedOptions[0].textContent;
  byId("scale-caption").textContent = statistic[0].toUpperCase() + statistic.slice(1);
  const points = pointsOf(tensors, runs), [low, high] = scaleRange(points, limits);
  const y = makeScale(low, high, frame.box.bottom, frame.box.top, false);
  const step = [1, 2, 4, 8, 16, 32].find((size) => (high - low) / size <= 12) || 64;
  const ticks = [];
  for (let k = Math.ceil(low / step) * step; k <= high; k += step) ticks.push(k);
  const columns = placeColumns(tensors, frame.box);
  drawYAxis(frame, y, ticks, powerLabel);
  labelColumns(frame, columns, tensors);
  for (const band of columns.bands) {
    for (const limit of LIMITS) drawLimit(frame, columns, y, band, limits, limit);
  }
  drawBands(frame, columns);
  for (const band of columns.bands) labelLimits(frame, columns, y, band, limits);
  drawPoints(frame, columns, y, points, runs);
  addColumnPicker(frame, columns, tensors, runs);
}

// What the shades and lines mean, with the limits in numbers.
function drawScaleNote(runs) {
  const formats = Object.assign({}, ...runs.map((run) => run.formats || {}));
  const parts = ["Markers: the shown step, on the lower edge when zero; a thin line leads from " +
                 "the first measured step to it. " +
                 "Shaded: beyond what the tensor's format holds, and, lighter, where it is " +
                 "subnormal. "];
  for (const [name, limits] of Object.entries(formats)) {
    if (!isNarrow(limits)) continue;
    parts.push(html("span", {class: "format"}, html("b", {}, name), " max ",
                    wholeOrShort(limits.max), ", min normal ", powerOfTwo(limits.min_normal),
                    ", min subnormal ", powerOfTwo(limits.min_subnormal), ". "));
  }
  const reduced = runs.filter((run) => run.scales && run.scales.measured > run.scales.steps.length);
  for (const run of reduced) {
    parts.push(`${run.name}: ${run.scales.steps.length} of ${run.scales.measured} measured steps ` +
               "are on this page. ");
  }
  parts.push(missingNote("scales.jsonl", runs, runs.filter((run) => !run.scales)));
  byId("scale-note").replaceChildren(...parts);
}

function startScalePlot(runs) {
  byId("scale-statistic").addEventListener("change", (event) => {
    tensorView.statistic = event.target.value;
    changed();
  });
  addSaveButton(byId("scale-plot"), "scales", runs);
  addArrowKeys(runs);
  drawScaleNote(runs);
  onChange("scale-plot", () => drawScalePlot(runs));
}
