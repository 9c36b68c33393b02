// Start: head and foot of the page, the controls of the case browser, the address and the keyboard.

let written = "";

/** Change the state, and with it the address; the list stays where it is when only the open case changes. */
function go(change) {
  const before = state;
  state = stateOf(hashOf({ ...state, ...change }));
  written = hashOf(state);
  location.replace(written);
  if (Object.keys(EMPTY).some((name) => name !== "case" && state[name] !== before[name])) showAll();
  else showChosen();
}

function showAll() {
  showControls();
  showCases();
}

function showChosen() {
  showRows();
  showDetail(matches.find((at) => questionOf(state.cell, at).key === state.case));
}

/** Follow an address that was typed, linked to or gone back to. */
function follow() {
  if (location.hash === written || ["#tables", "#cases", "#origin"].includes(location.hash)) return;
  written = location.hash;
  state = stateOf(location.hash);
  showAll();
  if (location.hash.length > 1) document.getElementById("cases").scrollIntoView();
}

function showControls() {
  const form = document.getElementById("controls");
  const typing = form.contains(document.activeElement) && document.activeElement.type === "search";
  if (!state.cell || typing) return;
  const focused = [...form.querySelectorAll("select")].indexOf(document.activeElement);
  form.replaceChildren(...controls(load("report").cells[state.cell]), search());
  if (focused >= 0) form.querySelectorAll("select")[focused].focus();
}

function controls(cell) {
  const usual = thresholdsOf(state.metric);
  const thresholds = usual.includes(state.threshold) ? usual : [state.threshold, ...usual];
  const least = thresholds.map((one) => [one, one === usual[0] ? `exactly ${one}` : `at least ${one}`]);
  const names = (list) => list.map((name) => [name, name]);
  const other = { metric: "", threshold: "", group: "all", case: "" };
  return [
    select("Cell", cellOptions(), state.cell, (chosen) => go({ ...other, cell: chosen })),
    select("Metric", names(cell.metrics), state.metric, (metric) => go({ metric, threshold: "" })),
    select("Right if", least, state.threshold, (threshold) => go({ threshold })),
    select("Show", names(KINDS), state.filter, (filter) => go({ filter, case: "" })),
    select("Group", groupOptions(), state.group, (group) => go({ group, case: "" })),
  ];
}

/** Cells under the tables that show them; one that several tables show is listed once. */
function cellOptions() {
  const { tables, cells } = load("report");
  const seen = new Set();
  const groups = tables.map((table) => {
    const all = new Set(entriesOf([table]).map((entry) => entry.cell));
    const fresh = [...all].filter((name) => name in cells && !seen.has(name));
    fresh.forEach((name) => seen.add(name));
    const options = fresh.map((name) => [name, `${name.replaceAll("/", " · ")} (${cells[name].n})`]);
    return { label: table.title, options };
  });
  return groups.filter((group) => group.options.length);
}

function groupOptions() {
  const questions = load(`questions:${load("report").cells[state.cell].dataset}`);
  const of = (names) => [...new Set(names)].sort().map((name) => [name, name]);
  const found = [["all", "all"]];
  const categories = of(questions.map((question) => question.category));
  const subsets = of(questions.flatMap((question) => question.subsets || []).map(subsetName(questions)));
  if (categories.length) found.push({ label: "Categories", options: categories });
  if (subsets.length) found.push({ label: "Subsets", options: subsets });
  return found;
}

function search() {
  const input = node("input", { type: "search", value: state.q, placeholder: "question, truth or answer" });
  let waiting = 0;
  input.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => go({ q: input.value, case: "" }), 150);
  });
  return node("label", {}, node("span", {}, "Search"), input);
}

function keys(event) {
  const typing = event.target.closest("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey;
  const inList = event.target.id === "list";
  const by = { j: 1, k: -1, ...(inList ? { ArrowDown: 1, ArrowUp: -1, ArrowRight: 1, ArrowLeft: -1 } : {}) }[event.key];
  if (!by || typing) return;
  event.preventDefault();
  move(by);
}

function showHead(report) {
  const cells = Object.values(report.cells);
  const datasets = new Set(cells.map((cell) => cell.dataset));
  const parts = [count(report.tables.length, "table"), count(cells.length, "cell"), count(datasets.size, "data set")];
  document.getElementById("lead").textContent =
    `Every number of the tables with the cases behind it: ${parts.join(", ")}. A cell is one model answering ` +
    `one data set's questions on one sampler's frames, at one resolution, with one prompt.`;
  const problems = Object.entries(report.problems).map(([video, why]) => `No pictures of ${video}: ${why}`);
  const notices = [...report.notes, ...problems.slice(0, 5)];
  if (problems.length > 5) notices.push(`No pictures of ${problems.length - 5} further videos; their cases say why.`);
  document.getElementById("notices").append(...notices.map((note) => node("p", { class: "notice" }, note)));
}

/** What made the numbers: the commit, and the engine, model and prompt of each cell. */
function showOrigin(report) {
  const place = document.getElementById("origin");
  const made = [
    report.commit && `commit ${report.commit}`,
    report.date,
    ...Object.entries(report.versions).map(([name, version]) => `${name} ${version}`),
  ];
  place.append(node("p", {}, `This page: ${made.filter(Boolean).join(", ")}.`));
  const names = ["Cell", "Engine", "Model revision", "Prompt hash", "Image"];
  const heads = names.map((head) => node("th", { scope: "col" }, head));
  const rows = Object.entries(report.cells).map(([name, { origin }]) => {
    const keys = ["engine", "model_revision", "prompt_hash", "image_digest"];
    const values = keys.map((key) => origin[key].join(", ") || "–");
    return node("tr", {}, node("th", { scope: "row" }, name), values.map((value) => node("td", {}, value)));
  });
  const table = node("table", {}, node("thead", {}, node("tr", {}, heads)), node("tbody", {}, rows));
  const region = { class: "scroll", tabindex: "0", role: "region", "aria-label": "Origin of each cell" };
  place.append(node("div", region, table));
}

function start() {
  const report = load("report");
  showHead(report);
  showTables(report.tables);
  showOrigin(report);
  state = stateOf(location.hash);
  showAll();
  if (location.hash.length > 1 && location.hash.includes("=")) document.getElementById("cases").scrollIntoView();
  document.getElementById("list").addEventListener("scroll", showRows, { passive: true });
  document.getElementById("controls").addEventListener("submit", (event) => event.preventDefault());
  document.addEventListener("keydown", keys);
  window.addEventListener("hashchange", follow);
}

start();
