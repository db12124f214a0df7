// The map on its canvases: drawing, pointing, moving by keys, finding.

const PITCHES = [16, 14, 12, 10, 8, 7, 6, 5, 4, 3];
const MOST_HEIGHT = 560;
const mapState = { scale: null, found: null, pitch: PITCHES[0], views: [] };

/** Builds a canvas for each spec with data; the largest cells with which all of them stay in sight are taken. */
function buildMaps() {
  const box = byId("maps");
  mapState.views = layouts.map((spec, place) => new SpecMap(spec, place, box));
  addEventListener("resize", () => requestAnimationFrame(layMapsOut));
  layMapsOut();
}

function layMapsOut() {
  const width = byId("maps").clientWidth;
  mapState.pitch =
    PITCHES.find((pitch) => mapState.views.reduce((sum, view) => sum + view.arranged(width, pitch).height, 0) <= MOST_HEIGHT) ??
    PITCHES[PITCHES.length - 1];
  for (const view of mapState.views) view.layOut(width, mapState.pitch);
}

function drawMaps() {
  const colours = scaleColours(mapState.scale);
  for (const view of mapState.views) view.draw(colours);
  drawLegend(colours);
}

function colourBy(key) {
  mapState.scale = classify(key);
  drawMaps();
  fillPartitionTable();
}

function drawLegend(colours) {
  const { scale } = mapState;
  const numbers = new Array(colours.length).fill(0);
  scale.classes.forEach((classes, place) => classes.forEach((c, cell) => (numbers[c] += layouts[place].span[cell])));
  byId("legend").replaceChildren(
    ...numbers.flatMap((number, place) => {
      if (!number) return [];
      const swatch = el("i", { "aria-hidden": "true" });
      swatch.style.background = colours[place];
      return [el("span", { role: "listitem" }, swatch, el("b", {}, className(scale, place)), count(number, "partition"))];
    }),
  );
}

class SpecMap {
  constructor(spec, place, box) {
    this.spec = spec;
    this.place = place;
    this.cell = -1;
    const about = facts.specs.find((other) => other.spec_id === spec.specId);
    const combined = spec.cells < spec.partitions;
    this.canvas = el("canvas", {
      tabindex: 0,
      role: "application",
      "aria-roledescription": "partition map",
      "aria-label": `${count(spec.partitions, "partition")} of spec ${spec.specId}. Arrow keys move from one to the next.`,
      "data-spec": spec.specId,
    });
    this.cursor = el("div", { class: "cursor", hidden: true });
    this.box = el("div", { class: "canvas-box" }, this.canvas, this.cursor);
    box.append(
      el(
        "div",
        { class: "spec-map" },
        el(
          "header",
          {},
          dot(specColours.get(spec.specId)),
          el("h3", {}, `Spec ${spec.specId} \u00b7 `, el("bdi", {}, specTitle(about))),
          about.is_default ? el("span", { class: "badge" }, "default") : null,
          el(
            "span",
            {},
            `${count(spec.partitions, "partition")}, ${count(about.data_files, "file")}, ${bytes(about.bytes)}`,
            combined ? `; a cell stands for up to ${spec.span.reduce((most, span) => Math.max(most, span), 1)} neighbours` : "",
          ),
        ),
        this.box,
      ),
    );
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("pointerleave", () => this.leave());
    this.canvas.addEventListener("keydown", (event) => this.move(event));
    this.canvas.addEventListener("blur", () => this.leave());
  }

  /** The width of a label in the drawing. */
  measure(label) {
    const context = this.canvas.getContext("2d");
    context.font = LABEL_FONT;
    return Math.ceil(context.measureText(shortLabel(label)).width);
  }

  arranged(width, pitch) {
    return arrange(this.spec, width, pitch, (label) => this.measure(label));
  }

  layOut(width, pitch) {
    this.pitch = pitch;
    this.places = this.arranged(width, pitch);
    const ratio = devicePixelRatio || 1;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(this.places.height * ratio);
    this.canvas.style.height = `${this.places.height}px`;
    this.canvas.dataset.pitch = pitch;
    this.leave();
    if (mapState.scale) this.draw(scaleColours(mapState.scale));
  }

  draw(colours) {
    const context = this.canvas.getContext("2d");
    const ratio = devicePixelRatio || 1;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    const size = this.pitch - (this.pitch >= 10 ? 2 : this.pitch >= 4 ? 1 : 0);
    const classes = mapState.scale.classes[this.place];
    const found = mapState.found?.[this.place];
    // One path for each colour: changing the colour for each of 100,000 cells would take far longer.
    const paths = colours.map(() => ({ seen: new Path2D(), faint: new Path2D() }));
    const { x, y, labels } = this.places;
    for (let cell = 0; cell < x.length; cell++) {
      const path = paths[classes[cell]][found && !found[cell] ? "faint" : "seen"];
      if (size >= 8) path.roundRect(x[cell], y[cell], size, size, 2);
      else path.rect(x[cell], y[cell], size, size);
    }
    paths.forEach(({ seen, faint }, place) => {
      context.fillStyle = colours[place];
      context.fill(seen);
      context.globalAlpha = 0.16;
      context.fill(faint);
      context.globalAlpha = 1;
    });
    context.fillStyle = getComputedStyle(this.box).color;
    context.globalAlpha = 0.65;
    context.font = LABEL_FONT;
    context.textBaseline = "middle";
    for (const label of labels) {
      context.textAlign = label.align;
      context.fillText(shortLabel(label.text), label.x, label.y);
    }
    context.globalAlpha = 1;
  }

  point(event) {
    const cell = cellAt(this.places, this.pitch, event.offsetX, event.offsetY);
    if (cell < 0) this.leave();
    else this.show(cell, event.clientX, event.clientY);
  }

  show(cell, x, y) {
    this.cell = cell;
    const size = Math.max(this.pitch, 7);
    Object.assign(this.cursor.style, {
      left: `${this.places.x[cell] - 2}px`,
      top: `${this.places.y[cell] - 2}px`,
      width: `${size + 2}px`,
      height: `${size + 2}px`,
    });
    this.cursor.hidden = false;
    showTooltip(x, y, cellTitle(this.spec, cell), cellRows(this.spec, cell), `Spec ${this.spec.specId}`);
  }

  leave() {
    this.cursor.hidden = true;
    hideTooltip();
  }

  move(event) {
    const last = this.spec.cells - 1;
    const next = {
      ArrowRight: () => this.cell + 1,
      ArrowLeft: () => this.cell - 1,
      ArrowDown: () => (this.cell < 0 ? 0 : cellInNextLine(this.places, this.cell, 1)),
      ArrowUp: () => (this.cell < 0 ? 0 : cellInNextLine(this.places, this.cell, -1)),
      Home: () => 0,
      End: () => last,
    }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    const cell = Math.min(last, Math.max(0, next()));
    const frame = this.canvas.getBoundingClientRect();
    this.show(cell, frame.left + this.places.x[cell] + this.pitch, frame.top + this.places.y[cell] + this.pitch);
    const numbers = cellRows(this.spec, cell).map(([name, number]) => `${name} ${number}`);
    byId("map-live").textContent = `${partitionText(this.spec, cell)}: ${numbers.join(", ")}`;
  }
}

const LABEL_FONT = '11.5px system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';
const shortLabel = (label) => (label.length > 18 ? `${label.slice(0, 17)}\u2026` : label);

function find(text) {
  mapState.found = findCells(text);
  const number = mapState.found?.reduce(
    (sum, found, place) => sum + found.reduce((inner, hit, cell) => inner + (hit ? layouts[place].span[cell] : 0), 0),
    0,
  );
  byId("found").textContent = mapState.found ? `${count(number, "partition")} found` : "";
  drawMaps();
  fillPartitionTable();
}

const PAGE = 50;
let partitionPage = 0;

/** The partitions as a table: those that have most of what the map shows come first. Filled only while it is open. */
function fillPartitionTable(page = 0) {
  const details = byId("partition-table");
  if (!details.open || !mapState.scale) return;
  const { scale, found } = mapState;
  const order = [];
  layouts.forEach((spec, place) => {
    for (let cell = 0; cell < spec.cells; cell++) if (!found || found[place][cell]) order.push([place, cell]);
  });
  order.sort((a, b) => scale.numbers[b[0]][b[1]] - scale.numbers[a[0]][a[1]]);
  const last = Math.max(0, Math.ceil(order.length / PAGE) - 1);
  partitionPage = Math.min(Math.max(page, 0), last);
  const rows = order.slice(partitionPage * PAGE, (partitionPage + 1) * PAGE).map(([place, cell]) => {
    const spec = layouts[place];
    const numbers = [spec.files, spec.rows, spec.deletes_to_apply, spec.deleted_rows].map((column) => grouped(column[cell]));
    return [el("span", {}, cellTitle(spec, cell)), spec.specId, numbers[0], bytes(spec.bytes[cell]), ...numbers.slice(1)];
  });
  const step = (label, by, off) => {
    const button = el("button", { type: "button", disabled: off }, label);
    button.addEventListener("click", () => fillPartitionTable(partitionPage + by));
    return button;
  };
  const titles = ["Spec", "Files", "Size", "Rows", "Deletes to apply", "Rows known deleted"];
  details.querySelector(".later").replaceChildren(
    table(
      `Partitions, by ${scale.measure.label.toLowerCase()}`,
      [{ title: "Partition" }, ...titles.map((title) => ({ title, number: true }))],
      rows,
    ),
    el(
      "div",
      { class: "pager" },
      step("Previous", -1, partitionPage === 0),
      step("Next", 1, partitionPage === last),
      `Page ${grouped(partitionPage + 1)} of ${grouped(last + 1)}, most ${scale.measure.label.toLowerCase()} first`,
    ),
  );
}
