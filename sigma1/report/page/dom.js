// What every part of the page is made with. Names from a run's files are only ever put in as text
// nodes and attributes: they may hold anything.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(2).filter((child) => child !== null && child !== undefined));
  return node;
}

function html(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function svg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function byId(id) {
  return document.getElementById(id);
}

function isNumber(value) {
  return typeof value === "number" && Number.isFinite(value);
}

// Four digits tell two runs apart; more would only be harder to read.
function shortNumber(value, digits = 4) {
  if (!isNumber(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < 1e-3 || size >= 1e6) {
    return value.toExponential(Math.min(digits, 3) - 1).replace("e+", "e").replaceAll("-", "−");
  }
  return minus(Number(value.toPrecision(digits)));
}

// As many decimals for all, so that a column of them can be compared by eye.
function resultNumber(value) {
  return isNumber(value) && Math.abs(value) < 1e4 ? minus(value.toFixed(3)) : shortNumber(value);
}

function wholeNumber(value) {
  return isNumber(value) ? Math.round(value).toLocaleString("en") : "–";
}

function percent(share) {
  if (!isNumber(share)) return "–";
  if (share === 0) return "0";
  if (share < 1e-4) return "<0.01%";
  return Number((share * 100).toPrecision(share > 0.1 ? 3 : 2)) + "%";
}

function plural(count, word) {
  return `${wholeNumber(count)} ${word}${count === 1 ? "" : "s"}`;
}

// Powers of two are what scales and limits are read in.
function powerOfTwo(value) {
  const exponent = Math.log2(value);
  return Number.isInteger(exponent) ? html("span", {}, "2", html("sup", {}, minus(exponent)))
                                    : html("span", {}, wholeOrShort(value));
}

function wholeOrShort(value) {
  return Number.isInteger(value) && value < 1e6 ? wholeNumber(value) : shortNumber(value);
}

function minus(value) {
  return String(value).replace("-", "−");
}

// Okabe and Ito's colours, which colour-blind readers can tell apart; yellow, weak on white, last.
// Dashes and markers say the same once more for those who see or print no colour.
const COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000",
                 "#b8a800"];
const DASHES = ["", "7 3", "2 2.5", "9 3 2 3", "12 3", "5 2 1 2 1 2", "4 4"];
const MARKERS = ["circle", "square", "triangle", "diamond", "down", "plus", "cross", "star"];

function runStyle(index) {
  return {colour: COLOURS[index % COLOURS.length],
          dash: DASHES[index % DASHES.length],
          marker: MARKERS[(index + Math.floor(index / MARKERS.length)) % MARKERS.length]};
}

function polygon(x, y, radius, corners, turn) {
  const points = [];
  for (let i = 0; i < corners; ++i) {
    const angle = 2 * Math.PI * (i / corners + turn);
    points.push(`${(x + radius * Math.sin(angle)).toFixed(1)} ` +
                `${(y - radius * Math.cos(angle)).toFixed(1)}`);
  }
  return `M${points.join("L")}Z`;
}

function bars(x, y, r, lean) {
  const w = lean ? r * 0.7 : r;
  return lean ? `M${x - w} ${y - w}L${x + w} ${y + w}M${x - w} ${y + w}L${x + w} ${y - w}`
              : `M${x - w} ${y}H${x + w}M${x} ${y - w}V${y + w}`;
}

// A path of about the same area in every shape.
function markerPath(shape, x, y, r) {
  switch (shape) {
    case "square": return polygon(x, y, r * 1.25, 4, 0.125);
    case "triangle": return polygon(x, y, r * 1.45, 3, 0);
    case "diamond": return polygon(x, y, r * 1.4, 4, 0);
    case "down": return polygon(x, y, r * 1.45, 3, 0.5);
    case "plus": return bars(x, y, r * 1.2, false);
    case "cross": return bars(x, y, r * 1.3, true);
    case "star": return bars(x, y, r * 1.2, false) + bars(x, y, r * 1.2, true);
    default: return `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0Z`;
  }
}

function marker(style, x, y, r, attributes) {
  const open = ["plus", "cross", "star"].includes(style.marker);
  return svg("path", {d: markerPath(style.marker, x, y, r), fill: open ? "none" : style.colour,
                      stroke: open ? style.colour : "#fff", "stroke-width": open ? 1.6 : 0.6,
                      ...attributes});
}

// A run's line and marker, as its legend shows them.
function swatch(run) {
  const line = svg("line", {x1: 1, x2: 27, y1: 7, y2: 7, stroke: run.style.colour,
                            "stroke-width": 2, "stroke-dasharray": run.style.dash || null});
  return svg("svg", {class: "swatch", width: 28, height: 14, "aria-hidden": "true"}, line,
             marker(run.style, 14, 7, 4));
}

// Names of runs differ at their ends more often than in the middle.
function shortenMiddle(name, length) {
  if (name.length <= length) return name;
  const tail = Math.ceil(length * 0.6);
  return `${name.slice(0, length - tail - 1)}…${name.slice(-tail)}`;
}

function runLabel(run, length = 28) {
  return html("span", {class: "run-label", title: run.name}, swatch(run),
              shortenMiddle(run.name, length));
}

// Which runs a part of the page is missing for.
function missingNote(file, runs, missing) {
  if (missing.length === 0) return "";
  if (runs.length === 1) return `The run has no ${file}.`;
  if (runs.length === missing.length) return `No run has a ${file}.`;
  return `No ${file} in: ${missing.map((run) => run.name).join(", ")}.`;
}

// The box beside the pointer. It is shown within the window, wherever the pointer is.
function showTooltip(event, ...children) {
  const box = byId("tooltip");
  box.replaceChildren(...children);
  box.hidden = false;
  const space = 14, {width, height} = box.getBoundingClientRect();
  const fitsRight = event.clientX + space + width < document.documentElement.clientWidth;
  const left = fitsRight ? event.clientX + space : event.clientX - space - width;
  const top = Math.min(event.clientY + space, window.innerHeight - height - 4);
  box.style.left = `${Math.max(4, left)}px`;
  box.style.top = `${Math.max(4, top)}px`;
}

function hideTooltip() {
  byId("tooltip").hidden = true;
}
