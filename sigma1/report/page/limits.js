// Where a format ends, drawn alike over the columns of the scale plot and in histograms.

const LOSS_FILL = "#d55e00", SUBNORMAL_FILL = "#e69f00";
const LIMITS = [
  {key: "max", label: "max", anchor: "middle", dash: "6 3", side: "above", fill: LOSS_FILL},
  {key: "min_normal", label: "min normal", anchor: "start", dash: "4 4", fill: SUBNORMAL_FILL,
   until: "min_subnormal"},
  {key: "min_subnormal", label: "min subnormal", anchor: "end", dash: "1.5 3", side: "below",
   fill: LOSS_FILL},
];

// A line that follows a limit from column to column, and the area beyond it.
function drawLimit(frame, columns, y, band, limits, {key, dash, side, fill: colour, until}) {
  const {box} = frame;
  const clamp = (value) => Math.min(box.bottom, Math.max(box.top, value));
  let line = "", beyond = "";
  for (let c = band.begin; c < band.end; ++c) {
    if (!limits[c]) continue;
    const left = columns.at(c) - columns.width / 2, right = left + columns.width;
    const place = clamp(y.at(Math.log2(limits[c][key])));
    const joined = c > band.begin && limits[c - 1];
    line += `${joined ? "L" : "M"}${left.toFixed(1)} ${place.toFixed(1)}H${right.toFixed(1)}`;
    const other = until ? clamp(y.at(Math.log2(limits[c][until]))) : side === "above" ? box.top
                                                                                     : box.bottom;
    beyond += `M${left} ${place}H${right + 0.3}V${other}H${left}Z`;
  }
  frame.under.append(svg("path", {d: beyond, fill: colour, "fill-rule": "nonzero", opacity: 0.08}));
  frame.plot.append(svg("path", {class: "limit", d: line, fill: "none", stroke: "#777",
                                 "stroke-width": 1, "stroke-dasharray": dash}));
}

// Each format once in a band, where its columns have room for the words.
function labelLimits(frame, columns, y, band, limits) {
  const told = new Set();
  for (let c = band.begin; c < band.end; ++c) {
    if (!limits[c] || told.has(limits[c].name)) continue;
    let end = c;
    while (end < band.end && limits[end] && limits[end].name === limits[c].name) ++end;
    const left = columns.at(c) - columns.width / 2, room = (end - c) * columns.width;
    for (const limit of LIMITS) {
      const text = `${limits[c].name} ${limit.label}`;
      if (room < text.length * 5.6 + 6) continue;
      frame.plot.append(svg("text", {x: left + 4, y: y.at(Math.log2(limits[c][limit.key])) - 3.5,
                                     "font-size": 10, fill: "#666", stroke: "#fff",
                                     "stroke-width": 3, "paint-order": "stroke",
                                     "pointer-events": "none"}, text));
      told.add(limits[c].name);
    }
  }
}
