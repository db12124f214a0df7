// The partitions as cells: what a cell says, which colour it has, where it lies. Nothing is drawn here.

const COUNTS = ["files", "bytes", "rows", "files_with_deletes", "deletes_to_apply", "deleted_rows"];

/** A column of numbers that may have come as the one number that all cells share. */
const expand = (column, length) => (typeof column === "number" ? new Array(length).fill(column) : column);

const layouts = facts.layout.map((spec) => ({
  ...spec,
  ...Object.fromEntries(["span", ...COUNTS].map((name) => [name, expand(spec[name], spec.cells)])),
  fields: spec.fields.map((field) => ({
    ...field,
    first: expand(field.first, spec.cells),
    last: field.last === null ? null : expand(field.last, spec.cells),
  })),
}));

/** What cells can be coloured by: a number for each cell, how to write it, and whether zero is a class of its own. */
const MEASURES = {
  files: { label: "Files", of: (s, c) => s.files[c], write: (n) => grouped(n), whole: true },
  bytes: { label: "Bytes", of: (s, c) => s.bytes[c], write: bytes },
  deletes: {
    label: "Deletes per file",
    of: (s, c) => s.deletes_to_apply[c] / s.files[c],
    write: (n) => (Number.isInteger(n) ? grouped(n) : n.toFixed(n < 1 ? 2 : 1)),
    cost: true,
  },
  deleted: {
    label: "Rows deleted",
    of: (s, c) => (s.rows[c] > 0 ? s.deleted_rows[c] / s.rows[c] : 0),
    write: (n) => `${+(100 * n).toPrecision(3)} %`,
    cost: true,
    limits: [0.01, 0.05, 0.1, 0.3],
  },
};

// From few to many, for paper and for the dark; the cost of deletes has colours of its own, and none is grey.
const RAMPS = {
  light: {
    amount: ["#dceaec", "#b3d5da", "#7fb9c5", "#4a98ac", "#22718e", "#0d4767"],
    cost: ["#e9e7e1", "#fbdcae", "#f5b76b", "#e58a35", "#c45a1c", "#86310f"],
  },
  dark: {
    amount: ["#20383f", "#215260", "#2b7485", "#429aa2", "#7cc3b6", "#cdecd3"],
    cost: ["#2a2d31", "#563a1d", "#8a531c", "#bf701f", "#e89a42", "#fdd391"],
  },
};

/** Numbers that people like as limits, such as 1, 2, 5, 10: those between the least and the most, five at most. */
function niceLimits(least, most, whole) {
  const found = [];
  const first = Math.floor(Math.log10(Math.max(least, whole ? 1 : 1e-3)));
  for (let power = first; power <= Math.ceil(Math.log10(Math.max(most, 1))); power++) {
    for (const digit of [1, 2, 5]) {
      const limit = Number((digit * 10 ** power).toPrecision(2));
      if (limit > least && limit <= most) found.push(limit);
    }
  }
  if (found.length <= 5) return found;
  return Array.from({ length: 5 }, (_, place) => found[Math.round(((place + 0.5) * found.length) / 5 - 0.5)]);
}

/** The classes of a measure over the whole table: limits, colours, and the class of each cell of each spec. */
function classify(key) {
  const measure = MEASURES[key];
  const numbers = layouts.map((spec) => Float64Array.from({ length: spec.cells }, (_, cell) => measure.of(spec, cell)));
  let least = Infinity;
  let most = 0;
  for (const column of numbers) {
    for (const number of column) {
      if (number < least && !(measure.cost && number === 0)) least = number;
      if (number > most) most = number;
    }
  }
  const limits = (measure.limits ?? niceLimits(least, most, measure.whole)).slice(0, measure.cost ? 4 : 5);
  const classOf = (number) => {
    if (measure.cost && number === 0) return 0;
    let place = 0;
    while (place < limits.length && number >= limits[place]) place++;
    return place + (measure.cost ? 1 : 0);
  };
  return { measure, limits, least, most, numbers, classes: numbers.map((column) => Uint8Array.from(column, classOf)) };
}

/** The colours of a scale's classes, spread over the whole ramp if there are few. */
function scaleColours(scale) {
  const ramp = RAMPS[isDark() ? "dark" : "light"][scale.measure.cost ? "cost" : "amount"];
  if (scale.measure.cost) return ramp;
  const classes = scale.limits.length + 1;
  if (classes === 1) return [ramp[3]];
  return Array.from({ length: classes }, (_, place) => ramp[Math.round((place * (ramp.length - 1)) / (classes - 1))]);
}

/** What the cells of a class have, in words. */
function className({ limits, least, most, measure }, place) {
  const write = (number) => measure.write(number).replace(".0 ", " ");
  if (measure.cost && place === 0) return "none";
  const low = limits[place - (measure.cost ? 2 : 1)];
  const high = limits[place - (measure.cost ? 1 : 0)];
  if (low === undefined && high === undefined) return least >= most ? write(most) : `${write(least)} \u2013 ${write(most)}`;
  if (high === undefined) return `${write(low)} and more`;
  // Of whole numbers both ends are in the class.
  if (measure.whole) return high - (low ?? 1) === 1 ? write(low ?? 1) : `${write(low ?? 1)} \u2013 ${write(high - 1)}`;
  return low === undefined ? `under ${write(high)}` : `${write(low)} \u2013 ${write(high)}`;
}

/** The values of a cell as [field, text] pairs; a cell of several partitions has those of its first or last. */
function cellValues(spec, cell, which = "first") {
  return spec.fields.map((field) => [field.name, field.texts[(field[which] ?? field.first)[cell]]]);
}

function partitionText(spec, cell, which = "first") {
  const parts = cellValues(spec, cell, which).map(([name, text]) => `${name}=${text === null ? "null" : text}`);
  return parts.length ? parts.join("/") : "unpartitioned";
}

function cellTitle(spec, cell) {
  const first = cellValues(spec, cell);
  if (!first.length) return ["unpartitioned"];
  const written = (pairs) => pairs.map(([name, text], place) => [place ? " / " : "", el("bdi", {}, name), "=", value(text)]);
  if (spec.span[cell] === 1) return written(first);
  return [count(spec.span[cell], "partition"), ": ", written(first), " to ", written(cellValues(spec, cell, "last"))];
}

function cellRows(spec, cell) {
  return [
    ["Data files", grouped(spec.files[cell])],
    ["Size", bytes(spec.bytes[cell])],
    ["Average file", bytes(spec.bytes[cell] / spec.files[cell])],
    ["Rows", grouped(spec.rows[cell])],
    ["Files with deletes", grouped(spec.files_with_deletes[cell])],
    ["Deletes to apply", grouped(spec.deletes_to_apply[cell])],
    ["Rows known deleted", grouped(spec.deleted_rows[cell])],
  ];
}

/** Which cells have a value that contains the text, by spec; null if there is no text. */
function findCells(text) {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return null;
  return layouts.map((spec) => {
    const found = new Uint8Array(spec.cells);
    for (const field of spec.fields) {
      const hits = field.texts.map((t) => `${field.name}=${t === null ? "null" : t}`.toLowerCase().includes(wanted));
      for (const numbers of [field.first, field.last ?? []]) {
        numbers.forEach((number, cell) => hits[number] && (found[cell] = 1));
      }
    }
    return found;
  });
}

const LABEL_HEIGHT = 15;
const MOST_LINES = 24;

/** Where cells lie, and their labels: as a grid of two fields where that fits, else line after line. */
function arrange(spec, width, pitch, measure) {
  spec.grid ??= gridOf(spec) ?? "none";
  return spec.grid === "none" ? inLines(spec, width, pitch, measure) : inGrid(spec, width, pitch, measure);
}

/** Blocks of lines, one for each run, in as many columns as the width has room for. */
function inLines(spec, width, pitch, measure) {
  const runs = spec.runs.length ? spec.runs : [[null, spec.cells]];
  const gutter = spec.runs.length ? Math.max(...runs.map(([label]) => measure(label))) + 12 : 0;
  const longest = Math.max(...runs.map(([, cells]) => cells));
  const perLine = Math.max(1, Math.min(longest, Math.floor((width - gutter) / pitch)));
  const blockWidth = gutter + perLine * pitch + 28;
  const columns = Math.max(1, Math.floor((width + 28) / blockWidth));
  const least = spec.runs.length ? LABEL_HEIGHT : 0;
  const heightOf = (cells) => Math.max(Math.ceil(cells / perLine) * pitch, least) + (cells > perLine && least ? 6 : 0);
  const total = runs.reduce((sum, [, cells]) => sum + heightOf(cells), 0);
  const places = newPlaces(spec.cells);
  let [column, top, cell] = [0, 0, 0];
  for (const [label, cells] of runs) {
    if (top > 0 && column < columns - 1 && top + heightOf(cells) / 2 > total / columns) [column, top] = [column + 1, 0];
    const left = column * blockWidth + gutter;
    if (label !== null) places.labels.push({ text: label, x: left - 9, y: top + Math.max(pitch - 2, 11) / 2 + 0.5, align: "right" });
    for (let place = 0; place < cells; place++, cell++) {
      places.x[cell] = left + (place % perLine) * pitch;
      places.y[cell] = top + Math.floor(place / perLine) * pitch;
    }
    top += heightOf(cells);
    places.height = Math.max(places.height, top);
  }
  return places;
}

/** Columns by the first fields and lines by the last one; runs stand side by side under their labels, in bands. */
function inGrid(spec, width, pitch, measure) {
  const { columns, lines, lineTexts } = spec.grid;
  const labelLines = pitch >= 9;
  const gutter = labelLines ? Math.max(...lineTexts.map((text) => measure(text ?? "null"))) + 12 : 0;
  const places = newPlaces(spec.cells);
  const bandHeight = lineTexts.length * pitch + LABEL_HEIGHT + 10;
  const ends = [];
  spec.runs.forEach(([, cells], run) => ends.push((ends[run - 1] ?? 0) + cells));
  let [left, top, run, labelEnd] = [gutter, 0, -1, 0];
  const newBand = (first) => {
    if (!first) top += bandHeight;
    left = gutter;
    labelEnd = 0;
    if (labelLines) {
      lineTexts.forEach((text, line) =>
        places.labels.push({ text: text ?? "null", x: gutter - 9, y: top + LABEL_HEIGHT + line * pitch + (pitch - 2) / 2 + 0.5, align: "right" }),
      );
    }
  };
  newBand(true);
  for (let cell = 0; cell < spec.cells; cell++) {
    const newRun = spec.runs.length > 0 && (run < 0 || cell >= ends[run]);
    if (newRun) {
      run += 1;
      const wide = (columns[ends[run] - 1] - columns[cell] + 1) * pitch;
      const gap = left > gutter ? Math.max(8, pitch / 2) : 0;
      if (left > gutter && left + gap + wide > width && wide <= width - gutter) newBand(false);
      else left += gap;
    } else if (cell > 0 && columns[cell] !== columns[cell - 1]) left += pitch;
    if (left + pitch > width + 2) newBand(false);
    if (newRun && left >= labelEnd) {
      places.labels.push({ text: spec.runs[run][0], x: left, y: top + LABEL_HEIGHT / 2 - 1, align: "left" });
      labelEnd = left + measure(spec.runs[run][0]) + 10;
    }
    places.x[cell] = left;
    places.y[cell] = top + LABEL_HEIGHT + lines[cell] * pitch;
    // The next run begins after this column.
    if (spec.runs.length && cell + 1 === ends[run]) left += pitch;
  }
  places.height = top + bandHeight - 10;
  return places;
}

/** The columns and lines of a grid, if the last field has few values and most places would be taken; else null. */
function gridOf(spec) {
  const last = spec.fields[spec.fields.length - 1];
  if (spec.fields.length < 2 || spec.cells < spec.partitions || last.texts.length < 2 || last.texts.length > MOST_LINES) return null;
  const before = spec.fields.slice(0, -1);
  const columns = new Uint32Array(spec.cells);
  for (let cell = 1; cell < spec.cells; cell++) {
    columns[cell] = columns[cell - 1] + (before.some((field) => field.first[cell] !== field.first[cell - 1]) ? 1 : 0);
  }
  if (spec.cells < 0.3 * (columns[spec.cells - 1] + 1) * last.texts.length) return null;
  const order = last.texts.map((_, place) => place).sort((a, b) => byValue(last.texts[a], last.texts[b]));
  const lineOf = new Uint8Array(order.length);
  order.forEach((place, line) => (lineOf[place] = line));
  return { columns, lines: last.first.map((number) => lineOf[number]), lineTexts: order.map((place) => last.texts[place]) };
}

function byValue(a, b) {
  if (a === null || b === null) return (a === null) - (b === null);
  return a.localeCompare(b, "en", { numeric: true });
}

const newPlaces = (cells) => ({ x: new Float32Array(cells), y: new Float32Array(cells), labels: [], height: 0 });

/** The cell at a place of the drawing, or -1. Looking at all of 100,000 takes a fraction of a millisecond. */
function cellAt(places, pitch, x, y) {
  for (let cell = 0; cell < places.x.length; cell++) {
    const [right, below] = [x - places.x[cell], y - places.y[cell]];
    if (right >= 0 && right < pitch && below >= 0 && below < pitch) return cell;
  }
  return -1;
}

/** The next cell above (-1) or below (1): in the same column, else the nearest of the next line, else the same cell. */
function cellInNextLine(places, cell, direction) {
  const nearest = (mayLieAside) => {
    let [best, lineAway, aside] = [-1, Infinity, Infinity];
    for (let other = 0; other < places.x.length; other++) {
      const away = (places.y[other] - places.y[cell]) * direction;
      const distance = Math.abs(places.x[other] - places.x[cell]);
      if (away <= 0 || (distance > 0 && !mayLieAside)) continue;
      if (away < lineAway || (away === lineAway && distance < aside)) [best, lineAway, aside] = [other, away, distance];
    }
    return best;
  };
  const inColumn = nearest(false);
  if (inColumn >= 0) return inColumn;
  const inLine = nearest(true);
  return inLine >= 0 ? inLine : cell;
}
