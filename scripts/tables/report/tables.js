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
        node("ul", { class: "footnotes" }, table.footnotes.map((note) => node("li", {}, note))),
        chart(table),
      ),
    );
  });
}

function tableElement(table) {
  const body = node("tbody", {}, table.rows.map(tableRow));
  const heads = [{ label: "Row" }, ...table.columns].map(({ label }, at) => {
    const button = node("button", { type: "button", title: "Sort" }, label);
    const head = node("th", { scope: "col", "aria-sort": "none" }, button);
    button.addEventListener("click", () => sortBy(head, body, at));
    return head;
  });
  foldSections(body);
  return node("table", {}, node("thead", {}, sharedHeads(table.columns), node("tr", {}, heads)), body);
}

/** The headings that neighbouring columns share, each once over all of them; null where there are none. */
function sharedHeads(columns) {
  const spans = [];
  for (const { over } of columns) {
    if (spans.length && spans[spans.length - 1].over === over) spans[spans.length - 1].width += 1;
    else spans.push({ over, width: 1 });
  }
  if (!columns.some(({ over }) => over)) return null;
  const shared = spans.map(({ over, width }) =>
    over ? node("th", { scope: "colgroup", colspan: width }, node("span", {}, over)) : node("td", { colspan: width }),
  );
  return node("tr", { class: "shared" }, node("td"), shared);
}

/** Show a section where it begins only; the other rows keep it for whoever listens to the page. */
function foldSections(body) {
  const section = (row) => row?.querySelector("th small")?.textContent;
  for (const row of body.children) {
    row.classList.toggle("again", Boolean(section(row)) && section(row) === section(row.previousElementSibling));
  }
}

function tableRow(row) {
  const section = row.section ? node("small", {}, row.section) : null;
  return node("tr", {}, node("th", { scope: "row" }, section, row.label), row.entries.map(number));
}

/** One number of a table with its interval and how many it rests on; best is bold, second underlined. */
function number(entry) {
  const beside = (text) => (text ? node("small", {}, text) : null);
  if (!(entry.cell in load("report").cells)) return node("td", { "data-value": "" }, entry.text, beside(entry.used));
  const rank = { 1: "strong", 2: "u" }[entry.rank] || "span";
  const href = hashOf({ cell: entry.cell, metric: entry.metric, group: entry.group });
  const [first, ...pair] = entry.text.split(" / "); // rank and interval are those of the first
  const value = [node(rank, { class: "value" }, first), pair.map((text) => ` / ${text}`)];
  const link = node("a", { href, title: `Show the cases of ${entry.cell}` }, ...value);
  return node("td", { "data-value": entry.value ?? "" }, link, beside(entry.interval), beside(entry.used));
}

/** Sort by a column: numbers from the best down at first, labels from A; a second click turns it round. */
function sortBy(head, body, at) {
  const numeric = at > 0;
  const before = head.getAttribute("aria-sort");
  const first = numeric ? "descending" : "ascending";
  const now = before === "none" ? first : before === "ascending" ? "descending" : "ascending";
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
  foldSections(body);
}
