// Elements and numbers. Text of the table only ever becomes text: no markup is parsed anywhere in these scripts.

const facts = JSON.parse(document.getElementById("facts").textContent);
const byId = (id) => document.getElementById(id);

/** An element with attributes and children; strings and numbers become text, null is left out. */
function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same for drawings. */
function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

/** Adds children as el() does. */
function add(node, ...children) {
  fill(node, {}, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined).map(asNode));
  return node;
}

function asNode(child) {
  return child instanceof Node ? child : document.createTextNode(String(child));
}

/** A text of the table, kept apart from the text around it whatever its direction; null is told from "null". */
function value(text) {
  return text === null ? el("span", { class: "null" }, "null") : el("bdi", {}, text);
}

/** Rows as a table. Columns: {title, number: true} for right-aligned ones. */
function table(caption, columns, rows) {
  const kind = (column) => (column.number ? "number" : null);
  return el(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    el(
      "table",
      {},
      el("caption", { class: "sr" }, caption),
      el("thead", {}, el("tr", {}, columns.map((c) => el("th", { scope: "col", class: kind(c) }, c.title)))),
      el(
        "tbody",
        {},
        rows.map((row) => el("tr", {}, row.map((cell, place) => el("td", { class: kind(columns[place]) }, cell)))),
      ),
    ),
  );
}

/** Buttons of which one is chosen; arrow keys move the choice. Calls chosen(key) when it changes. */
function choice(box, options, first, chosen) {
  const buttons = options.map(([key, label]) =>
    el("button", { type: "button", role: "radio", "data-key": key, "aria-checked": "false", tabindex: -1 }, label),
  );
  const pick = (button) => {
    for (const other of buttons) {
      other.setAttribute("aria-checked", String(other === button));
      other.tabIndex = other === button ? 0 : -1;
    }
    chosen(button.dataset.key);
  };
  buttons.forEach((button, place) => {
    button.addEventListener("click", () => pick(button));
    button.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const next = buttons[(place + step + buttons.length) % buttons.length];
      next.focus();
      pick(next);
    });
  });
  box.append(...buttons);
  pick(buttons.find((button) => button.dataset.key === first));
}

const grouped = (number) => number.toLocaleString("en-US");
const count = (number, one, many = `${one}s`) => `${grouped(number)} ${number === 1 ? one : many}`;

function bytes(size) {
  let amount = size;
  for (const unit of ["bytes", "kB", "MB", "GB", "TB"]) {
    if (amount < 999.95 || unit === "TB") return unit === "bytes" ? `${Math.round(amount)} ${unit}` : `${amount.toFixed(1)} ${unit}`;
    amount /= 1000;
  }
  return String(size);
}

/** Large numbers for a headline: 12.3 M. The whole number is shown on hovering and in tables. */
function short(number) {
  for (const [unit, size] of [["T", 1e12], ["B", 1e9], ["M", 1e6]]) {
    if (number >= size) return `${(number / size).toFixed(number / size < 100 ? 1 : 0)} ${unit}`;
  }
  return grouped(number);
}

function percent(part, whole) {
  if (!whole) return "\u2013";
  const share = (100 * part) / whole;
  if (part && share < 0.1) return "< 0.1 %";
  return part < whole && share > 99.9 ? "> 99.9 %" : `${share.toFixed(share === 0 || share === 100 ? 0 : 1)} %`;
}

const moment = (ms) => new Date(ms).toISOString().slice(0, 16).replace("T", " ");

/** Colours that also people with colour-blindness tell apart; the default spec has the first one. */
const SPEC_COLOURS = ["#2a7f9e", "#e69f00", "#cc79a7", "#009e73", "#d55e00", "#8a7fd0", "#b8a600", "#7d7d7d"];
const specsInColour = [...facts.specs].sort((a, b) => b.is_default - a.is_default || b.spec_id - a.spec_id);
const specColours = new Map(specsInColour.map((spec, place) => [spec.spec_id, SPEC_COLOURS[Math.min(place, 7)]]));

function dot(colour, round = false) {
  const mark = el("span", { class: round ? "dot round" : "dot", "aria-hidden": "true" });
  mark.style.background = colour;
  return mark;
}

const specTitle = (spec) => (spec.fields.length ? spec.fields.join(", ") : "unpartitioned");
const isDark = () => {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
};
