// Axes and frames of all charts. A chart is drawn anew at the size it has, so that text keeps its
// size; its style is in attributes, so that a saved figure looks as on the page.

const TEXT = {"font-size": 11.5, fill: "#444"};

// {at, from, to}: a value's place, and the ends of both.
function makeScale(from, to, start, end, isLog) {
  const map = isLog ? Math.log10 : (value) => value;
  const low = map(from), span = map(to) - low || 1;
  const at = (value) => start + (map(value) - low) / span * (end - start);
  const invert = (place) => {
    const value = low + (place - start) / (end - start) * span;
    return isLog ? 10 ** value : value;
  };
  return {at, invert, from, to, start, end, isLog};
}

function niceStep(span, count) {
  const raw = span / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(raw));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= raw * 0.999) || power;
}

function linearTicks(from, to, count) {
  const step = niceStep(to - from, count), ticks = [];
  for (let i = Math.ceil(from / step - 1e-9); i * step <= to + step * 1e-9; ++i) {
    ticks.push(Number((i * step).toPrecision(12)));
  }
  return ticks;
}

// Powers of ten, and 2 and 5 between them when there are few.
function logTicks(from, to, count) {
  const decades = Math.log10(to / from);
  if (decades < 0.7) return linearTicks(from, to, count).filter((tick) => tick > 0);
  const factors = decades < 3 ? [1, 2, 5] : [1], ticks = [];
  const stride = Math.max(1, Math.ceil(decades / count));
  for (let k = Math.floor(Math.log10(from)); k <= Math.log10(to); k += stride) {
    for (const factor of factors) {
      const tick = Number((factor * 10 ** k).toPrecision(6));
      if (tick >= from * 0.999 && tick <= to * 1.001) ticks.push(tick);
    }
  }
  return ticks;
}

function ticksOf(scale, count) {
  return (scale.isLog ? logTicks : linearTicks)(scale.from, scale.to, count);
}

let clipCount = 0;

// An empty chart: its svg, the box of the plot, and a group that is cut off at that box.
function makeFrame(holder, height, margin, label) {
  const width = Math.max(260, holder.clientWidth);
  const box = {left: margin.left, right: width - margin.right, top: margin.top,
               bottom: height - margin.bottom};
  const clip = `clip${++clipCount}`;
  const area = {x: box.left, y: box.top, width: Math.max(1, box.right - box.left),
                height: Math.max(1, box.bottom - box.top)};
  const root = svg("svg", {viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label,
                           "font-family": "system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif"},
                   svg("title", {}, label),
                   svg("clipPath", {id: clip}, svg("rect", area)));
  const under = svg("g", {}), plot = svg("g", {"clip-path": `url(#${clip})`}), over = svg("g", {});
  root.append(under, plot, over);
  holder.replaceChildren(root);
  return {root, under, plot, over, box, width, height};
}

// The browser's own tooltip of a chart's title would cover ours.
function dropNativeTitle(frame) {
  frame.root.querySelector("title").remove();
}

function drawXAxis(frame, scale, ticks, label, format = wholeOrShort) {
  const {under, box} = frame;
  for (const tick of ticks) {
    const x = scale.at(tick);
    under.append(svg("line", {x1: x, x2: x, y1: box.top, y2: box.bottom, stroke: "#eee"}),
                 svg("text", {x, y: box.bottom + 16, "text-anchor": "middle", ...TEXT},
                     format(tick)));
  }
  under.append(svg("line", {x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom,
                            stroke: "#888"}),
               svg("text", {x: (box.left + box.right) / 2, y: box.bottom + 33,
                            "text-anchor": "middle", ...TEXT}, label));
}

function drawYAxis(frame, scale, ticks, format) {
  const {under, box} = frame;
  for (const tick of ticks) {
    const y = scale.at(tick);
    under.append(svg("line", {x1: box.left, x2: box.right, y1: y, y2: y, stroke: "#eee"}),
                 svg("text", {x: box.left - 7, y: y + 4, "text-anchor": "end", ...TEXT},
                     format(tick)));
  }
  under.append(svg("line", {x1: box.left, x2: box.left, y1: box.top, y2: box.bottom,
                            stroke: "#888"}));
}

// 2 with a raised exponent; Unicode's superscripts are missing from many fonts.
function powerLabel(exponent) {
  return [svg("tspan", {}, "2"),
          svg("tspan", {dy: -4, "font-size": "9"}, minus(exponent))];
}

// A line through what is there; nothing where a value is missing, and a dot where it stands alone.
function linePath(xs, ys) {
  let path = "", drawing = false;
  for (let i = 0; i < xs.length; ++i) {
    const is = isNumber(xs[i]) && isNumber(ys[i]);
    if (is) {
      path += `${drawing ? "L" : "M"}${xs[i].toFixed(1)} ${ys[i].toFixed(1)}`;
      const alone = !drawing && !(i + 1 < xs.length && isNumber(ys[i + 1]));
      if (alone) path += "h0.01";
    }
    drawing = is;
  }
  return path;
}

function emptyChart(holder, text) {
  holder.replaceChildren(html("p", {class: "note"}, text));
}

// The legend in one line, which the page has elsewhere.
function figureLegend(runs) {
  let x = 12;
  return svg("g", {}, runs.filter((run) => !run.hidden).map((run) => {
    const {colour, dash} = run.style, at = x;
    x += 52 + run.name.length * 7;
    return [svg("line", {x1: at, x2: at + 26, y1: 0, y2: 0, stroke: colour, "stroke-width": 2,
                         "stroke-dasharray": dash || null}),
            marker(run.style, at + 13, 0, 4),
            svg("text", {x: at + 32, y: 4, "font-size": 12, fill: "#222"}, run.name)];
  }));
}

// A chart as a file of its own, for a paper or a slide.
function saveFigure(holder, name, runs) {
  const drawn = holder.querySelector("svg");
  if (!drawn) return;
  const copy = drawn.cloneNode(true), above = 28;
  const [, , width, height] = copy.getAttribute("viewBox").split(" ").map(Number);
  fill(copy, {xmlns: SVG, width, height: height + above,
              viewBox: `0 ${-above} ${width} ${height + above}`}, []);
  const legend = figureLegend(runs);
  legend.setAttribute("transform", `translate(0 ${14 - above})`);
  copy.append(legend);
  const link = html("a", {
    download: `${name}.svg`,
    href: "data:image/svg+xml;charset=utf-8," +
        encodeURIComponent(new XMLSerializer().serializeToString(copy)),
  });
  link.click();
}

function addSaveButton(holder, name, runs) {
  holder.parentNode.append(html(
      "button", {type: "button", class: "save", title: "Save this figure as SVG",
                 onclick: () => saveFigure(holder, name, runs)}, "SVG"));
}
