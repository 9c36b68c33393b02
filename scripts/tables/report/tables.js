// The tables, as make_table worked them out: sortable, and each number opens the cases behind it.

/** All tables of the report, each with its chart. */
function showTables(tables) {
  const place = document.getElementById("tables");
  tables.forEach((table, index) => {
    const id = `table-${index}`;
    place.append(
      node(
        "section",
        { class: "table", "aria-labelledby": id },
        node("h2", { id }, table.title),
        table.caption ? node("p", { class: "caption" }, table.caption) : null,
        node("div", { class: "scroll", tabindex: "0", role: "region", "aria-labelledby": id }, tableElement(table)),
        footnotes(table),
        chart(table),
      ),
    );
  });
}

function tableElement(table) {
  const body = node("tbody", {}, table.rows.map((row) => tableRow(table, row)));
  const heads = ["", ...table.columns.map((column) => column.label)].map((label, at) => {
    const button = node("button", { type: "button", title: "Sort" }, label || "Row");
    const head = node("th", { scope: "col", "aria-sort": "none" }, button);
    button.addEventListener("click", () => sortBy(head, body, at));
    return head;
  });
  return node("table", {}, node("thead", {}, node("tr", {}, heads)), body);
}

function tableRow(table, row) {
  return node("tr", {}, node("th", { scope: "row" }, row.label), row.entries.map(number));
}

/** One number of a table with its interval, failures and rank. */
function number(entry) {
  if (entry.value === null) return node("td", { "data-value": "" }, "–", mark(entry));
  const rank = { 1: "strong", 2: "u" }[entry.rank] || "span";
  const link = node("a", { href: hashOf({ cell: entry.cell, metric: entry.metric, group: entry.group }) });
  link.append(node(rank, { class: "value" }, entry.text));
  link.setAttribute("title", `Show the cases of ${entry.cell}`);
  return node(
    "td",
    { "data-value": entry.value },
    link,
    mark(entry),
    entry.interval ? node("small", { class: "interval" }, entry.interval) : null,
    node("small", { class: "used" }, entry.used),
  );
}

function mark(entry) {
  return entry.marks ? node("sup", {}, entry.marks) : null;
}

function footnotes(table) {
  return node(
    "ul",
    { class: "footnotes" },
    table.footnotes.map(([sign, text]) => node("li", {}, sign ? node("sup", {}, sign) : null, sign ? " " : "", text)),
  );
}

/** Sort by a column: numbers from the best down at first, labels from A; a second click turns it round. */
function sortBy(head, body, at) {
  const numeric = at > 0;
  const before = head.getAttribute("aria-sort");
  const now = before === "none" ? (numeric ? "descending" : "ascending") : before === "ascending" ? "descending" : "ascending";
  for (const other of head.parentNode.children) other.setAttribute("aria-sort", "none");
  head.setAttribute("aria-sort", now);
  const turn = now === "ascending" ? 1 : -1;
  const value = (row) => (numeric ? row.children[at].dataset.value : row.children[at].textContent);
  const rows = [...body.children].sort((a, b) => {
    if (!numeric) return turn * value(a).localeCompare(value(b));
    if (value(a) === "" || value(b) === "") return (value(a) === "") - (value(b) === "");
    return turn * (value(a) - value(b));
  });
  body.append(...rows);
}
