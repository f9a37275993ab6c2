// What ran, on what, and how it ended.

function settingText(value) {
  if (value === "" || value === undefined || value === null) return "–";
  if (typeof value === "number") return minus(value);
  return typeof value === "string" ? value : JSON.stringify(value);
}

// Keys of all runs' objects in the order in which they are met: [equal in all, different].
function splitKeys(objects) {
  const keys = [...new Set(objects.flatMap((object) => Object.keys(object)))];
  const isSame = (key) => objects.every(
      (object) => JSON.stringify(object[key]) === JSON.stringify(objects[0][key]));
  return [keys.filter(isSame), keys.filter((key) => !isSame(key))];
}

function pairs(object, keys, className) {
  return html("dl", {class: className}, keys.map((key) => html(
      "div", {}, html("dt", {}, key), html("dd", {}, settingText(object[key])))));
}

function differenceTable(caption, runs, objects, keys) {
  const heads = runs.map((run) => html("th", {scope: "col"}, runLabel(run)));
  const rows = keys.map((key) => html(
      "tr", {}, html("th", {scope: "row"}, key),
      objects.map((object) => html("td", {}, settingText(object[key])))));
  return html("div", {class: "scrolls"},
              html("table", {class: "differences"}, html("caption", {}, caption),
                   html("thead", {}, html("tr", {}, html("th", {}), heads)),
                   html("tbody", {}, rows)));
}

function drawSettings(runs) {
  const configs = runs.map((run) => run.config || {});
  const [same, different] = splitKeys(configs);
  const parts = [];
  if (different.length > 0) {
    parts.push(differenceTable("What differs between the runs", runs, configs, different));
  } else if (runs.length > 1) {
    parts.push(html("p", {class: "note"}, "All runs have the same settings."));
  }
  const summary = runs.length > 1 ? `${plural(same.length, "setting")} that all runs share`
                                  : `All ${plural(same.length, "setting")}`;
  parts.push(html("details", {}, html("summary", {}, summary), pairs(configs[0], same, "pairs")));
  byId("settings").replaceChildren(...parts);
}

function drawMachine(runs) {
  const known = runs.filter((run) => run.machine);
  const parts = [html("h3", {}, "Machine")];
  if (known.length > 0) {
    const machines = known.map((run) => run.machine);
    const [same, different] = splitKeys(machines);
    parts.push(pairs(machines[0], same, "inline-pairs"));
    if (different.length > 0) {
      parts.push(differenceTable("What differs between the machines", known, machines, different));
    }
  }
  const note = missingNote("machine.json", runs, runs.filter((run) => !run.machine));
  if (note) parts.push(html("p", {class: "note"}, note));
  byId("machine").replaceChildren(...parts);
}

// One line under the title: the model and its size, as far as the runs agree on them.
function drawSubtitle(runs) {
  const config = runs[0].config || {};
  const agreed = (key) => runs.every((run) => (run.config || {})[key] === config[key]);
  const parts = [];
  const add = (key, text) => {
    const value = config[key];
    if (value !== undefined && value !== "" && agreed(key)) parts.push(text(value));
  };
  add("model", (value) => `${value}`);
  add("context", (value) => `${value}`);
  add("depth", (value) => plural(value, "layer"));
  add("width", (value) => `width ${value}`);
  add("method", (value) => `method ${value}`);
  add("precision", (value) => `${value}`);
  add("steps", (value) => `${wholeNumber(value)} steps`);
  add("train", (value) => String(value).split("/").filter(Boolean).pop() || "");
  byId("subtitle").textContent = parts.join("  ·  ");
}

function eventCount(run) {
  return run.events ? run.events.total : null;
}

function resultColumns(runs) {
  const config = (run, key) => settingText((run.config || {})[key]);
  const result = (run, key) => (run.results || {})[key];
  const best = Math.min(...runs.map((run) => result(run, "best_bpc")).filter(isNumber));
  const number = (title, help, key, format) => ({
    title, help, numeric: true, value: (run) => result(run, key),
    cell: (run) => format(result(run, key)),
  });
  const steps = (run) => {
    const done = result(run, "steps"), asked = (run.config || {}).steps;
    return done === asked || !isNumber(asked) ? wholeNumber(done)
                                              : `${wholeNumber(done)} of ${wholeNumber(asked)}`;
  };
  const bestCell = (run) => {
    const value = result(run, "best_bpc"), text = resultNumber(value);
    return runs.length > 1 && value === best ? html("strong", {title: "lowest"}, text) : text;
  };
  return [
    {title: "run", value: (run) => run.name, cell: (run) => runLabel(run, 60)},
    {title: "method", value: (run) => config(run, "method"), cell: (run) => config(run, "method")},
    {title: "precision", value: (run) => config(run, "precision"),
     cell: (run) => config(run, "precision")},
    {...number("steps", "Steps done", "steps"), cell: steps},
    number("training loss", "The last logged one, in nats", "final_loss", resultNumber),
    {...number("best BPC", "Lowest validated bits per character", "best_bpc"), cell: bestCell},
    number("last BPC", "Bits per character of the last validation", "last_bpc", resultNumber),
    number("tokens/s", "Median over all logged steps", "tokens_per_s", wholeNumber),
    {title: "events", numeric: true, value: eventCount,
     cell: (run) => wholeNumber(eventCount(run))},
  ];
}

function drawResults(runs) {
  const columns = resultColumns(runs);
  const table = new SortedTable(byId("results"), columns, {caption: "Results of the runs"});
  table.show(runs);
}
