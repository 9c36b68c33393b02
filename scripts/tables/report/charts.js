// One chart per table: bars with 95 % intervals, or lines over the number of frames where rows differ by it.

const MARKS = ["circle", "square", "diamond", "triangle"];
const DASHES = ["", "6 3", "2 3", "8 3 2 3"];

/** A figure with a choice of column (and of kind, where lines make sense), drawn anew when its width changes. */
function chart(table) {
  const column = { at: telling(table), kind: null };
  const place = node("div", { class: "plot" });
  const controls = node("div", { class: "choices" });
  const figure = node("figure", {}, controls, place);
  const redraw = () => {
    const lines = series(table, column.at);
    const kind = lines.length && column.kind !== "bars" ? "lines" : "bars";
    controls.replaceChildren(...choices(table, column, kind, lines.length > 0, redraw));
    const width = Math.max(300, Math.min(900, figure.clientWidth || 640));
    const drawn = kind === "lines" ? lineChart(table, column.at, lines, width) : [bars(table, column.at, width)];
    place.replaceChildren(...drawn);
  };
  redraw();
  let width = 0;
  new ResizeObserver(() => {
    if (Math.abs(figure.clientWidth - width) > 8) {
      width = figure.clientWidth;
      requestAnimationFrame(redraw); // within the observer it would observe itself
    }
  }).observe(figure);
  return figure;
}

/** The column to show first: the one with most numbers, and of those the one in which the rows differ most. */
function telling(table) {
  const worth = table.columns.map((_, at) => {
    const values = table.rows.map((row) => row.entries[at].value).filter((value) => value !== null);
    return values.length ? values.length + (Math.max(...values) - Math.min(...values)) / 1000 : 0;
  });
  return worth.indexOf(Math.max(...worth));
}

function choices(table, column, kind, both, redraw) {
  const found = [];
  if (table.columns.length > 1) {
    const columns = table.columns.map((one, at) => [String(at), columnName(one)]);
    found.push(select("Plot", columns, String(column.at), (value) => ((column.at = Number(value)), redraw())));
  }
  if (both) {
    const kinds = [["lines", "over the number of frames"], ["bars", "as bars"]];
    found.push(select("Show", kinds, kind, (value) => ((column.kind = value), redraw())));
  }
  return found;
}

const columnName = ({ over, label }) => (over ? `${over}: ${label}` : label);
const rowName = ({ section, label }) => (section ? `${section} / ${label}` : label);

/** A round upper end and step for an axis from 0. */
function axis(entries) {
  const most = Math.max(...entries.map((entry) => Math.max(entry.value, entry.high ?? 0)), 1e-9);
  const power = 10 ** Math.floor(Math.log10(most));
  const top = [1, 2, 2.5, 5, 10].map((one) => one * power).find((end) => end >= most * 0.999);
  const step = top / (top / power === 2.5 ? 5 : top / power === 2 ? 4 : 5);
  const ticks = Array.from({ length: Math.round(top / step) + 1 }, (_, i) => Number((i * step).toPrecision(6)));
  return { top, ticks };
}

function frameOf(width, height, label) {
  return draw(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label },
    draw("title", {}, label),
  );
}

const text = (x, y, content, attributes = {}) => draw("text", { x, y, ...attributes }, content);

const LETTER = 7; // width of an average one in a label, on the wide side

/** Bars from 0, one per row, its label above it; where it doesn't fit beside the number, its section stands there. */
function bars(table, at, width) {
  const rows = table.rows.filter((row) => row.entries[at].value !== null);
  const label = `${columnName(table.columns[at])} of each row, with 95 % intervals`;
  if (!rows.length) return node("p", { class: "empty" }, "This column has no numbers to plot.");
  const { top, ticks } = axis(rows.map((row) => row.entries[at]));
  const longest = Math.max(...rows.map((row) => rowName(row).length));
  const tight = longest * LETTER + 150 > width;
  const [left, right, step, above] = tight ? [4, 20, 58, 38] : [4, 20, 42, 22];
  const height = rows.length * step + 26;
  const x = (value) => left + (value / top) * (width - left - right);
  const svg = frameOf(width, height, label);
  for (const tick of ticks) {
    svg.append(draw("line", { class: "grid", x1: x(tick), x2: x(tick), y1: 4, y2: height - 20 }));
    svg.append(text(x(tick), height - 5, String(tick), { class: "tick", "text-anchor": tick ? "middle" : "start" }));
  }
  rows.forEach((row, index) => {
    const entry = row.entries[at];
    const y = index * step + above;
    const shown = `${entry.text}${entry.interval ? ` ${entry.interval}` : ""}`;
    svg.append(
      tight ? text(left, y - 22, row.section, { class: "tick" }) : "",
      text(left, y - 6, tight ? row.label : rowName(row), { class: "label" }),
      text(width - right, tight ? y - 22 : y - 6, shown, { class: "number", "text-anchor": "end" }),
      draw("rect", { class: "bar", x: x(0), y, width: Math.max(1, x(entry.value) - x(0)), height: 12 }),
    );
    if (entry.low !== undefined) {
      const path = `M${x(entry.low)} ${y + 2}v8M${x(entry.low)} ${y + 6}H${x(entry.high)}M${x(entry.high)} ${y + 2}v8`;
      svg.append(draw("path", { class: "whisker", d: path }));
    }
  });
  return svg;
}

/** Rows alike in all but the number of frames, in its order; empty when no line would have two points. */
function series(table, at) {
  const cells = load("report").cells;
  const lines = new Map();
  for (const row of table.rows) {
    const entry = row.entries[at];
    const cell = cells[entry.cell];
    if (entry.value === null || !cell || !cell.frames) continue;
    const kind = cell.sampler.replace(/_?\d+$/, "");
    const key = [cell.model, kind, cell.dataset, cell.resolution, cell.prompt, entry.judge];
    const line = lines.get(key.join("/")) || { key, points: [] };
    line.points.push({ frames: cell.frames, entry, label: rowName(row) });
    lines.set(key.join("/"), line);
  }
  const found = [...lines.values()];
  for (const line of found) line.points.sort((a, b) => a.frames - b.frames);
  const real = found.some((line) => new Set(line.points.map((point) => point.frames)).size > 1);
  const parts = [0, 1, 2, 3, 4, 5].filter((part) => part === 0 || new Set(found.map((line) => line.key[part])).size > 1);
  for (const line of found) line.name = parts.map((part) => line.key[part]).join(" · ");
  return real ? found : [];
}

/** Lines over the number of frames (a doubling is always as wide), with a key below. */
function lineChart(table, at, lines, width) {
  const points = lines.flatMap((line) => line.points);
  const label = `${columnName(table.columns[at])} over the number of frames, with 95 % intervals`;
  const { top, ticks } = axis(points.map((point) => point.entry));
  const [left, right, above, below, height] = [44, 14, 10, 42, 300];
  const frames = [...new Set(points.map((point) => point.frames))].sort((a, b) => a - b);
  const [low, high] = [Math.log2(frames[0]), Math.log2(frames[frames.length - 1])];
  const x = (n) => left + 12 + ((Math.log2(n) - low) / (high - low || 1)) * (width - left - right - 24);
  const y = (value) => height - below - (value / top) * (height - above - below);
  const svg = frameOf(width, height, label);
  for (const tick of ticks) {
    svg.append(draw("line", { class: "grid", x1: left, x2: width - right, y1: y(tick), y2: y(tick) }));
    svg.append(text(left - 6, y(tick) + 4, String(tick), { class: "tick", "text-anchor": "end" }));
  }
  const middle = { class: "tick", "text-anchor": "middle" };
  for (const n of frames) svg.append(text(x(n), height - below + 18, String(n), middle));
  svg.append(text(width / 2, height - 6, "frames per question (median)", middle));
  // Intervals at the same number of frames stand beside each other
  const aside = (index) => (index - (lines.length - 1) / 2) * Math.min(5, 20 / lines.length);
  lines.forEach((line, index) => svg.append(lineOf(line, index, (n) => x(n) + aside(index), y)));
  const key = lines.map((line, index) => node("li", {}, swatch(index), line.name));
  return [svg, node("ul", { class: "key" }, key)];
}

function lineOf(line, index, x, y) {
  const path = line.points.map((point, i) => `${i ? "L" : "M"}${x(point.frames)} ${y(point.entry.value)}`).join("");
  const group = draw("g", { class: `series s${index % 6}` });
  group.append(draw("path", { class: "line", d: path, "stroke-dasharray": DASHES[index % DASHES.length] }));
  for (const { frames, entry, label } of line.points) {
    const title = `${label}: ${entry.text} ${entry.interval}`;
    if (entry.low !== undefined) {
      group.append(draw("path", { class: "interval", d: `M${x(frames)} ${y(entry.low)}V${y(entry.high)}` }));
    }
    const point = { class: "point", d: markPath(index, x(frames), y(entry.value)) };
    group.append(draw("path", point, draw("title", {}, title)));
  }
  return group;
}

function swatch(index) {
  const svg = draw("svg", { viewBox: "0 0 34 12", width: 34, height: 12, "aria-hidden": "true" });
  const dash = DASHES[index % DASHES.length];
  const line = draw("path", { class: "line", d: "M0 6H34", "stroke-dasharray": dash });
  const point = draw("path", { class: "point", d: markPath(index, 17, 6) });
  svg.append(draw("g", { class: `series s${index % 6}` }, line, point));
  return svg;
}

function markPath(index, x, y) {
  const kind = MARKS[index % MARKS.length];
  if (kind === "circle") return `M${x - 4} ${y}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0`;
  if (kind === "square") return `M${x - 4} ${y - 4}h8v8h-8z`;
  if (kind === "diamond") return `M${x} ${y - 5}l5 5l-5 5l-5 -5z`;
  return `M${x} ${y - 5}l5 9h-10z`;
}
