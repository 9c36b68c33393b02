// Making elements and reading the blocks of JSON. All text goes in as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";
const SCORED = new Set(["ok", "unanswerable"]);
const blocks = new Map();

/** The value of a block of JSON, parsed when first asked for; null where the page has no such block. */
function load(id) {
  if (!blocks.has(id)) {
    const element = document.getElementById(id);
    blocks.set(id, element ? JSON.parse(element.textContent) : null);
  }
  return blocks.get(id);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) element.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** An HTML element; children are elements or strings. */
function node(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** An SVG element. */
function draw(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** A labelled select; `options` are [value, label] or {label, options}. */
function select(label, options, value, changed) {
  const make = ([optionValue, text]) => node("option", { value: optionValue }, text);
  const list = options.map((one) =>
    Array.isArray(one) ? make(one) : node("optgroup", { label: one.label }, one.options.map(make)),
  );
  const element = node("select", {}, list);
  element.value = value;
  element.addEventListener("change", () => changed(element.value));
  return node("label", {}, node("span", {}, label), element);
}

const seconds = (t) => `${t.toFixed(2)} s`;
const count = (n, one, many = `${one}s`) => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
