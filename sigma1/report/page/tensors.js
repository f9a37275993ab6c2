// The tensors of all runs as one list, and what of it is looked at: the plot, the table and the
// histogram show the same tensors at the same step.

const ROLES = {
  activation: {short: "activation", long: "Activations"},
  weight: {short: "weight", long: "Weights"},
  gradx: {short: "gradx", long: "Gradients of activations"},
  gradw: {short: "gradw", long: "Gradients of weights"},
};
const tensorView = {tensors: [], roles: [], steps: [], hiddenRoles: new Set(), words: [],
                    statistic: "std", step: 0, selected: null, showSelected: () => {}};

function roleName(role) {
  return ROLES[role] || {short: role, long: role};
}

function tensorKey(role, name) {
  return `${role}\n${name}`;
}

// In the first run's order; what only later runs have comes after the tensor it follows there.
function mergeTensors(runs) {
  const found = new Map(), order = [];
  runs.forEach((run, index) => {
    let previous = -1;
    for (const tensor of (run.scales || {}).tensors || []) {
      const key = tensorKey(tensor.role, tensor.name);
      if (!found.has(key)) {
        const entry = {key, role: tensor.role, name: tensor.name, byRun: []};
        found.set(key, entry);
        order.splice(previous + 1, 0, entry);
        ++previous;
      } else if (index > 0) {
        previous = order.indexOf(found.get(key));
      } else {
        ++previous;
      }
      found.get(key).byRun[index] = tensor.measurements.map(
          (measurement, i) => readMeasurement(measurement, run.scales, i));
    }
  });
  const known = Object.keys(ROLES);
  const rank = (role) => known.includes(role) ? known.indexOf(role) : known.length;
  return order.sort((a, b) => rank(a.role) - rank(b.role) || a.role.localeCompare(b.role));
}

function readMeasurement(measurement, scales, index) {
  if (!measurement) return null;
  const numbers = {};
  scales.columns.forEach((column, i) => { numbers[column] = measurement.values[i]; });
  return {...numbers, step: scales.steps[index], format: measurement.format,
          first: measurement.first, histogram: measurement.histogram || []};
}

// The newest measurement of a tensor up to a step; its first one when all came later.
function measurementAt(tensor, run, step) {
  const all = (tensor.byRun[run.index] || []).filter(Boolean);
  return all.filter((measurement) => measurement.step <= step).pop() || all[0] || null;
}

function firstMeasurement(tensor, run) {
  return (tensor.byRun[run.index] || []).find(Boolean) || null;
}

function lastMeasurement(tensor, run) {
  return measurementAt(tensor, run, Infinity);
}

function isWanted(tensor, runs) {
  const name = tensor.name.toLowerCase();
  return !tensorView.hiddenRoles.has(tensor.role) &&
      tensorView.words.every((word) => name.includes(word)) &&
      runs.some((run) => !run.hidden && firstMeasurement(tensor, run));
}

function wantedTensors(runs) {
  return tensorView.tensors.filter((tensor) => isWanted(tensor, runs));
}

// Wider formats have limits that no tensor comes near.
function isNarrow(limits) {
  return limits && Math.log2(limits.max / limits.min_subnormal) < 64;
}

function limitsOf(run, measurement) {
  const limits = measurement && (run.formats || {})[measurement.format];
  return isNarrow(limits) ? {...limits, name: measurement.format} : null;
}

// The format that holds least, of those that shown runs cast a tensor to.
function narrowestLimits(tensor, runs) {
  const all = runs.filter((run) => !run.hidden)
                  .map((run) => limitsOf(run, measurementAt(tensor, run, tensorView.step)))
                  .filter(Boolean);
  const range = (limits) => limits.max / limits.min_subnormal;
  return all.sort((a, b) => range(a) - range(b))[0] || null;
}

function makeRoleBoxes() {
  byId("role-boxes").append(...tensorView.roles.map((role) => {
    const box = html("input", {type: "checkbox", checked: true, value: role, onchange: () => {
      if (box.checked) tensorView.hiddenRoles.delete(role);
      else tensorView.hiddenRoles.add(role);
      changed();
    }});
    return html("label", {title: roleName(role).long}, box, roleName(role).short);
  }));
}

function makeStepSlider() {
  const {steps} = tensorView, slider = byId("scale-step");
  byId("step-control").hidden = steps.length <= 2;
  slider.max = Math.max(0, steps.length - 1);
  slider.value = slider.max;
  const show = () => {
    tensorView.step = steps[slider.value];
    byId("scale-step-value").textContent = wholeNumber(tensorView.step);
  };
  slider.addEventListener("input", () => {
    show();
    changed();
  });
  show();
}

function makeTensorSearch() {
  const search = byId("tensor-search");
  search.addEventListener("input", () => {
    tensorView.words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    changed();
  });
}

function startTensors(runs) {
  tensorView.tensors = mergeTensors(runs);
  tensorView.roles = [...new Set(tensorView.tensors.map((tensor) => tensor.role))];
  const steps = new Set(runs.flatMap((run) => (run.scales || {}).steps || []));
  tensorView.steps = [...steps].sort((a, b) => a - b);
    if (tensorView.tensors.length === 0) {
    byId("scale-section").replaceChildren(html(
        "p", {class: "note"}, "No tensors were measured. ",
        missingNote("scales.jsonl", runs, runs.filter((run) => !run.scales))));
    return;
  }
  makeRoleBoxes();
  makeStepSlider();
  makeTensorSearch();
  startScalePlot(runs);
  startTensorTable(runs);
  startHistogram(runs);
}
