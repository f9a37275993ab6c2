// The numbers behind the plot, for those that are looked for by name or by what they lose.

const MOST_ROWS = 300;

function tableNumber(value) {
  return shortNumber(value, Math.abs(value) < 1e-3 ? 2 : 3);
}

// From the first measured step to the last; once when both read the same.
function fromTo(row, column, format) {
  const first = format(row.first[column]), last = format(row.last[column]);
  if (first === last) return last;
  return [html("span", {class: "first"}, `${first} → `), last];
}

function tensorRows(runs) {
  const rows = [];
  for (const tensor of wantedTensors(runs)) {
    for (const run of runs.filter((shown) => !shown.hidden)) {
      const first = firstMeasurement(tensor, run), last = lastMeasurement(tensor, run);
      if (first) rows.push({tensor, run, first, last});
    }
  }
  return rows;
}

function tensorColumns(runs) {
  const number = (title, column, help, format) => ({
    title, help, numeric: true, largestFirst: true, value: (row) => row.last[column],
    cell: (row) => fromTo(row, column, format),
  });
  const run = {title: "run", value: (row) => row.run.name, cell: (row) => runLabel(row.run)};
  return [
    {title: "tensor", className: "name", value: (row) => row.tensor.name,
     cell: (row) => html("span", {title: row.tensor.name}, row.tensor.name)},
    {title: "role", value: (row) => row.tensor.role,
     cell: (row) => roleName(row.tensor.role).short},
    ...(runs.length > 1 ? [run] : []),
    {title: "format", help: "Narrowest format it is cast to", value: (row) => row.last.format,
     cell: (row) => row.last.format},
    number("std", "std", "Standard deviation", tableNumber),
    number("rms", "rms", "Root mean square", tableNumber),
    number("abs max", "abs_max", "Largest magnitude", tableNumber),
    number("lost", "lost", "Of the numbers that are not zero: become zero or too large", percent),
    number("zero", "zero", "Share that is zero", percent),
    number("subnormal", "subnormal", "Share that keeps fewer digits", percent),
    number("saturated", "saturated", "Share that is too large", percent),
  ];
}

function makeRowOpen(row, line) {
  const open = (byKey) => openHistogram(row.tensor.key, byKey ? line : null);
  fill(line, {tabindex: 0, "data-key": row.tensor.key, "aria-label":
              `${row.tensor.name}, ${row.tensor.role}, ${row.run.name}: open histogram`,
              onclick: () => open(false),
              onkeydown: (event) => { if (event.key === "Enter") open(true); }}, []);
  if (row.tensor.key === tensorView.selected) line.classList.add("selected");
}

function startTensorTable(runs) {
  const columns = tensorColumns(runs);
  const lost = columns.findIndex((column) => column.title === "lost");
  const note = (shown, all) => {
    const more = all.length - shown.length;
    byId("tensor-note").textContent = `${plural(all.length, "row")}; each number from the first ` +
        "measured step → the last. " +
        (more > 0 ? `${wholeNumber(more)} more are not shown: search for them, or sort. ` : "") +
        "A press on a row, or Enter, opens its histogram.";
  };
  const table = new SortedTable(byId("tensor-table"), columns, {
    caption: "Tensors at the first and the last measured step", limit: MOST_ROWS,
    sort: {column: lost, descending: true}, row: makeRowOpen, drawn: note});
  onChange("tensor-table", () => table.show(tensorRows(runs)));
}

function markSelectedRow() {
  for (const line of byId("tensor-table").querySelectorAll("tbody tr")) {
    line.classList.toggle("selected", line.getAttribute("data-key") === tensorView.selected);
  }
}
