// The case browser's list: what is shown follows from `state`, which is what the address after # says.

const ROW = 58;
const FUZZY = /rouge|anls|lcs/;
const POINTS = /^judge_score /; // from 0 to 5, everything else from 0 to 1
const THRESHOLDS = ["1", "0.9", "0.8", "0.5"];
const POINT_THRESHOLDS = ["5", "4", "3", "2", "1"];
const KINDS = ["all", "right", "wrong", "failed"];
const EMPTY = { cell: "", metric: "", threshold: "", filter: "all", group: "all", q: "", case: "" };
let state = { ...EMPTY };
let matches = [];
const haystacks = new Map();

/** The address of a state; what is as it is by default is left out. */
function hashOf(wanted) {
  const parts = Object.entries(wanted).filter(([name, value]) => value && value !== EMPTY[name]);
  return `#${new URLSearchParams(parts)}`;
}

/** The state of an address, made whole: an unknown cell or metric becomes the first there is. */
function stateOf(hash) {
  const found = { ...EMPTY };
  for (const [name, value] of new URLSearchParams(hash.replace(/^#/, ""))) if (name in found) found[name] = value;
  const { cells, tables } = load("report");
  if (!(found.cell in cells)) found.cell = firstCell(tables, cells);
  const cell = cells[found.cell];
  if (cell && !cell.metrics.includes(found.metric)) {
    found.metric = usualMetric(tables, found.cell) || cell.metrics[0] || "";
  }
  if (!(Number(found.threshold) > 0)) found.threshold = usualThreshold(found.metric);
  if (!KINDS.includes(found.filter)) found.filter = "all";
  return found;
}

const thresholdsOf = (metric) => (POINTS.test(metric) ? POINT_THRESHOLDS : THRESHOLDS);

function usualThreshold(metric) {
  if (POINTS.test(metric)) return "3";
  return FUZZY.test(metric) ? "0.9" : "1";
}

function entriesOf(tables) {
  return tables.flatMap((table) => table.rows.flatMap((row) => row.entries));
}

function firstCell(tables, cells) {
  const found = entriesOf(tables).find((entry) => entry.cell in cells);
  return found ? found.cell : Object.keys(cells)[0] || "";
}

function usualMetric(tables, cell) {
  const metrics = load("report").cells[cell].metrics;
  const found = entriesOf(tables).find((entry) => entry.cell === cell && metrics.includes(entry.metric));
  return found && found.metric;
}

const casesOf = (cell) => load(`cases:${cell}`);
const questionOf = (cell, at) => load(`questions:${load("report").cells[cell].dataset}`)[casesOf(cell).question[at]];

/** Why the chosen metric has no value: the model's failure or that of the metric's judge; empty where there is none. */
function failure(at) {
  const cases = casesOf(state.cell);
  if (!SCORED.has(cases.status[at])) return cases.status[at];
  const judgement = cases.judged[state.metric.split(" by ")[1]]?.[at];
  return judgement && judgement.status !== "ok" ? `not judged: ${judgement.status}` : "";
}

/** right, wrong, failed, or unscored where the metric says nothing about the case. */
function verdict(at) {
  const cases = casesOf(state.cell);
  if (failure(at)) return "failed";
  const value = cases.metrics[state.metric]?.[at];
  if (value === null || value === undefined) return "unscored";
  return value >= Number(state.threshold) - 1e-9 ? "right" : "wrong";
}

/** What a search looks through, in lower case. */
function haystack(at) {
  if (!haystacks.has(state.cell)) haystacks.set(state.cell, []);
  const known = haystacks.get(state.cell);
  if (known[at] === undefined) {
    const question = questionOf(state.cell, at);
    const cases = casesOf(state.cell);
    const asked = [question.key, question.question, ...question.answers, ...(question.options || [])];
    known[at] = [...asked, cases.answer[at], cases.raw[at] || ""].join("\n").toLowerCase();
  }
  return known[at];
}

/** How a subset is named as a group: as in the scores, told apart from a category of the same name. */
function subsetName(questions) {
  const categories = new Set(questions.map((question) => question.category));
  return (subset) => (categories.has(subset) ? `subset:${subset}` : subset);
}

/** Indices of the cell's cases in the chosen group that hold the searched text, whatever their verdict. */
function inReach() {
  const wanted = state.q.trim().toLowerCase();
  const all = casesOf(state.cell).question.map((_, at) => at);
  const shown = subsetName(load(`questions:${load("report").cells[state.cell].dataset}`));
  return all.filter((at) => {
    const { category, subsets = [] } = questionOf(state.cell, at);
    const member = ["all", category, ...subsets.map(shown)].includes(state.group);
    return member && (!wanted || haystack(at).includes(wanted));
  });
}

/** Recount, redraw the list from its top, and open the chosen case. */
function showCases() {
  const reach = state.cell ? inReach() : [];
  const tally = Object.fromEntries([...KINDS, "unscored"].map((kind) => [kind, 0]));
  const kept = [];
  for (const at of reach) {
    const kind = verdict(at);
    tally[kind] += 1;
    if (state.filter === "all" || state.filter === kind) kept.push(at);
  }
  matches = kept;
  showTally(tally);
  if (!state.case && matches.length) state.case = questionOf(state.cell, matches[0]).key;
  const chosen = matches.findIndex((at) => questionOf(state.cell, at).key === state.case);
  const list = document.getElementById("list");
  document.getElementById("rows").style.height = `${matches.length * ROW}px`;
  list.scrollTop = Math.max(0, (chosen - 1) * ROW);
  showRows();
  showDetail(matches[chosen]);
}

function showTally(tally) {
  const least = state.threshold === thresholdsOf(state.metric)[0] ? `= ${state.threshold}` : `≥ ${state.threshold}`;
  const rule = state.metric ? `right means ${state.metric} ${least}` : "this cell has no metric";
  const parts = ["right", "wrong", "failed"].map((kind) => `${tally[kind].toLocaleString("en")} ${kind}`);
  if (tally.unscored) parts.push(`${tally.unscored.toLocaleString("en")} without this metric`);
  const shown = count(matches.length, "case");
  document.getElementById("tally").textContent = `${shown} shown: ${parts.join(", ")} (${rule})`;
}

/** Only the rows that can be seen are in the page, and a few around them. */
function showRows() {
  const list = document.getElementById("list");
  const rows = document.getElementById("rows");
  if (!matches.length) {
    rows.replaceChildren(node("p", { class: "empty" }, "No cases match. Loosen the filter, the group or the search."));
    return;
  }
  const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 5);
  const last = Math.min(matches.length, Math.ceil((list.scrollTop + (list.clientHeight || 600)) / ROW) + 5);
  rows.replaceChildren(...Array.from({ length: last - first }, (_, i) => caseRow(first + i)));
  const open = rows.querySelector("[aria-selected=true]");
  if (open) list.setAttribute("aria-activedescendant", open.id);
  else list.removeAttribute("aria-activedescendant");
}

function caseRow(index) {
  const at = matches[index];
  const question = questionOf(state.cell, at);
  const cases = casesOf(state.cell);
  const kind = verdict(at);
  const said = kind === "failed" ? failure(at) : cases.answer[at] || "(empty)";
  const row = node(
    "div",
    {
      class: "case",
      role: "option",
      id: `row-${at}`,
      "aria-selected": String(question.key === state.case),
      "aria-setsize": matches.length,
      "aria-posinset": index + 1,
      "data-verdict": kind,
    },
    node("span", { class: `badge ${kind}` }, kind),
    node("span", { class: "asked" }, question.question),
    node("span", { class: "said" }, said),
  );
  row.style.top = `${index * ROW}px`;
  row.addEventListener("click", () => go({ case: question.key }));
  return row;
}

/** Open the next or previous match. */
function move(by) {
  if (!matches.length) return;
  const now = matches.findIndex((at) => questionOf(state.cell, at).key === state.case);
  const next = Math.min(matches.length - 1, Math.max(0, now + by));
  go({ case: questionOf(state.cell, matches[next]).key });
  const list = document.getElementById("list");
  if (next * ROW < list.scrollTop) list.scrollTop = next * ROW;
  if ((next + 1) * ROW > list.scrollTop + list.clientHeight) list.scrollTop = (next + 1) * ROW - list.clientHeight;
}
