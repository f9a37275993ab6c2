// Tables that are sorted by a press on a heading: results and tensors.

// What is missing goes last, in either direction.
function compareBy(value, descending) {
  return (a, b) => {
    const x = value(a), y = value(b);
    const lacksX = x === null || x === undefined || Number.isNaN(x);
    const lacksY = y === null || y === undefined || Number.isNaN(y);
    if (lacksX || lacksY) return lacksX - lacksY;
    const order = typeof x === "string" ? x.localeCompare(y, "en", {numeric: true}) : x - y;
    return descending ? -order : order;
  };
}

// columns: {title, help, value(row), cell(row), numeric}. `options`: caption, sort {column,
// descending}, limit, row(row, tr), and drawn(shown, all), called after each drawing.
class SortedTable {
  constructor(holder, columns, options) {
    Object.assign(this, {columns, options, rows: [], sort: options.sort});
    this.heads = columns.map((column, index) => this.makeHead(column, index));
    this.body = html("tbody", {});
    const caption = html("caption", {class: "hidden-text"}, options.caption);
    holder.replaceChildren(html("table", {}, caption,
                                html("thead", {}, html("tr", {}, this.heads)), this.body));
  }

  makeHead(column, index) {
    const button = html("button", {type: "button", title: `${column.help || column.title}; sort`,
                                   onclick: () => this.sortBy(index)}, column.title);
    return html("th", {scope: "col", class: column.numeric ? "number" : null}, button);
  }

  sortBy(index) {
    const again = this.sort && this.sort.column === index;
    const descending = again ? !this.sort.descending : Boolean(this.columns[index].largestFirst);
    this.sort = {column: index, descending};
    this.draw();
  }

  show(rows) {
    this.rows = rows;
    this.draw();
  }

  draw() {
    const {column, descending} = this.sort || {};
    let rows = this.rows;
    if (this.sort) rows = [...rows].sort(compareBy(this.columns[column].value, descending));
    this.heads.forEach((head, index) => {
      const order = index !== column ? "none" : descending ? "descending" : "ascending";
      head.setAttribute("aria-sort", order);
    });
    const shown = rows.slice(0, this.options.limit || rows.length);
    this.body.replaceChildren(...shown.map((row) => this.makeRow(row)));
    if (this.options.drawn) this.options.drawn(shown, rows);
  }

  makeRow(row) {
    const cells = this.columns.map((column) => html(
        "td", {class: column.numeric ? "number" : column.className || null}, column.cell(row)));
    const line = html("tr", {}, cells);
    if (this.options.row) this.options.row(row, line);
    return line;
  }
}
