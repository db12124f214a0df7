// What the page says, section by section, in the order of the page.

function fillHead() {
  const { table: about, totals } = facts;
  byId("eyebrow").textContent =
    `Iceberg table, format ${about.formatVersion}` + (about.branch === null ? "" : `, branch ${about.branch}`);
  byId("table-name").append(value(about.name));
  byId("location").append(value(about.location));
  byId("made").textContent =
    `Made by ${about.madeBy} on ${about.madeAt}` + (about.snapshotId ? ` from snapshot ${about.snapshotId}.` : ".");
  const figures = [
    ["Data files", totals.data_files, short(totals.data_files)],
    ["Size", totals.bytes, bytes(totals.bytes)],
    ["Rows", totals.rows, short(totals.rows)],
    ["Partitions", totals.partitions, short(totals.partitions)],
    ["Specs in use", facts.specs.filter((spec) => spec.data_files).length],
    ["Delete files", totals.delete_files, short(totals.delete_files)],
    ["Snapshots", facts.snapshots.length + facts.snapshotsLeftOut],
  ];
  byId("figures").append(
    ...figures.map(([name, number, text]) =>
      el("div", { title: grouped(number), "data-figure": name, "data-number": number }, el("dt", {}, name), el("dd", {}, text ?? grouped(number))),
    ),
  );
}

function fillSteps() {
  if (!facts.steps.length) {
    const why = facts.table.snapshotId
      ? "Nothing: files have a good size, lie in the default spec, and no deletes wait to be applied."
      : "The table has no data yet. Append some, and look again.";
    byId("steps").append(el("li", {}, el("p", {}, why)));
    return;
  }
  byId("steps").append(...facts.steps.map((step) => el("li", { "data-step": step.kind }, el("p", {}, step.text), command(step.command))));
}

function command(text) {
  if (text === null) return null;
  const button = el("button", { type: "button", "aria-label": "Copy the command" }, "Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      // Browsers may refuse a page from a file: then the command is selected, to be copied by hand.
      getSelection().selectAllChildren(button.previousSibling);
      button.textContent = "Selected";
    }
  });
  return el("div", { class: "command" }, el("code", { tabindex: 0 }, text), button);
}

function fillMapLead() {
  const lead = byId("map-lead");
  if (!layouts.length) {
    lead.textContent = "There are no data files, and so no partitions.";
    for (const part of document.querySelectorAll(".controls, #legend, #partition-table")) part.hidden = true;
    return;
  }
  lead.textContent = "Each cell is a partition, in the order of its values. Point at one, or move with the arrow keys.";
}

function fillSpecs() {
  const { specs, totals, specsLeftOut } = facts;
  const current = specs.find((spec) => spec.is_default);
  const box = byId("specs");
  if (totals.data_files) {
    const share = (key, total) => percent(current[key], total);
    const settled = current.data_files === totals.data_files;
    add(
      box,
      el(
        "p",
        { class: "lead", id: "migration" },
        settled
          ? ["All data lies in the default spec ", el("strong", {}, String(current.spec_id)), "."]
          : [
              el("strong", {}, share("bytes", totals.bytes)),
              ` of the bytes, ${share("rows", totals.rows)} of the rows and ${share("data_files", totals.data_files)} of the files lie in `,
              `the default spec ${current.spec_id}; the rest lies in ${count(specs.filter((spec) => spec.data_files && !spec.is_default).length, "other spec")}.`,
            ],
      ),
    );
    const bar = el("div", { class: "share", role: "img", "aria-label": "Bytes by spec; the table below has the numbers" });
    for (const spec of specsInColour.filter((other) => other.bytes)) {
      const part = el("div");
      part.style.flexGrow = spec.bytes / totals.bytes;
      part.style.background = specColours.get(spec.spec_id);
      hover(part, `Spec ${spec.spec_id}`, [["Size", bytes(spec.bytes)], ["Share", percent(spec.bytes, totals.bytes)]]);
      bar.append(part);
    }
    add(box, bar);
  }
  const titles = ["Partitions", "Files", "Size", "Share", "Rows", "Small files", "With deletes"];
  add(
    box,
    table(
      "Partition specs",
      [{ title: "Spec" }, { title: "Partitioned by" }, ...titles.map((title) => ({ title, number: true }))],
      specs.map((spec) => [
        el("span", { class: "nowrap" }, dot(specColours.get(spec.spec_id)), String(spec.spec_id)),
        [el("bdi", {}, specTitle(spec)), spec.is_default ? [" ", el("span", { class: "badge" }, "default")] : null],
        grouped(spec.partitions),
        grouped(spec.data_files),
        bytes(spec.bytes),
        percent(spec.bytes, totals.bytes),
        grouped(spec.rows),
        grouped(spec.small_files),
        grouped(spec.files_with_deletes),
      ]),
    ),
  );
  if (specsLeftOut) add(box, leftOut(specsLeftOut, "older spec"));
}

function fillSizes() {
  const box = byId("sizes");
  const { sizes, specs, totals, fileSizes } = facts;
  if (!fileSizes.length) {
    add(box, el("p", { class: "lead" }, "There are no data files."));
    return;
  }
  const sum = (key) => specs.reduce((total, spec) => total + spec[key], 0);
  add(
    box,
    el(
      "p",
      { class: "lead" },
      el("strong", {}, grouped(sum("small_files"))),
      ` of ${count(totals.data_files, "file")} are smaller than ${binary(sizes.smallest)} and ${grouped(sum("large_files"))} larger than `,
      `${binary(sizes.largest)}: those a rewrite looks at. The shaded sizes are left alone.`,
    ),
    sizeChart(),
    specs.length > 1 ? el("div", { class: "keys" }, specs.filter((s) => s.data_files).map((s) => el("span", {}, dot(specColours.get(s.spec_id)), `Spec ${s.spec_id}`))) : null,
    el(
      "details",
      {},
      el("summary", {}, "File sizes as a table"),
      table(
        "Data files by size",
        [{ title: "From", number: true }, { title: "To", number: true }, { title: "Files", number: true }, { title: "Size", number: true }],
        fileSizes.filter((bucket) => bucket.files).map((b) => [binary(b.low), binary(b.high), grouped(b.files), bytes(b.bytes)]),
      ),
    ),
  );
}

function fillDeletes() {
  const box = byId("deletes");
  const { deletes, totals } = facts;
  if (!deletes.length) {
    add(box, el("p", { class: "lead" }, "There are no delete files: data files are read as they are."));
    return;
  }
  const opened = deletes.reduce((sum, cost) => sum + cost.opened, 0);
  add(
    box,
    el(
      "p",
      { class: "lead" },
      el("strong", {}, `${grouped(totals.files_with_deletes)} of ${count(totals.data_files, "data file")}`),
      ` have to be read together with delete files, and a full read applies one to a data file ${count(opened, "time")}. `,
      `${count(totals.deleted_rows, "row")} are known to be deleted; equality deletes, and position deletes of a whole partition, do not say how many.`,
    ),
    table(
      "Delete files by kind",
      [
        { title: "Kind" },
        ...["Files", "Size", "Entries", "Data files", "Rows in those", "Applied", "Unused files"].map((title) => ({ title, number: true })),
      ],
      deletes.map((cost) => [
        cost.kind,
        grouped(cost.files),
        bytes(cost.bytes),
        grouped(cost.entries),
        grouped(cost.data_files),
        grouped(cost.data_rows),
        grouped(cost.opened),
        grouped(cost.unused_files),
      ]),
    ),
  );
}

const OPERATION_COLOURS = { append: "#009e73", overwrite: "#e69f00", delete: "#d55e00", replace: "#2a7f9e" };
const FIRST_SNAPSHOTS = 10;

function fillSnapshots() {
  const box = byId("snapshots");
  const { snapshots, snapshotsLeftOut } = facts;
  if (!snapshots.length) {
    add(box, el("p", { class: "lead" }, "There are no snapshots yet."));
    return;
  }
  const newest = [...snapshots].reverse();
  const rows = newest.map((snapshot) => [
    el("span", { class: "nowrap" }, moment(snapshot.at)),
    el("span", { class: "nowrap" }, dot(OPERATION_COLOURS[snapshot.operation] ?? "#7d7d7d", true), snapshot.operation ?? "unknown"),
    [whatItDid(snapshot), moreOfSnapshot(snapshot)],
    snapshot.done.total_files === null ? "\u2013" : grouped(snapshot.done.total_files),
    snapshot.done.total_rows === null ? "\u2013" : grouped(snapshot.done.total_rows),
  ]);
  const columns = [
    { title: "Time (UTC)" },
    { title: "Operation" },
    { title: "What it did" },
    { title: "Files after", number: true },
    { title: "Rows after", number: true },
  ];
  add(
    box,
    el("p", { class: "lead" }, "Data files that each snapshot added, upwards, and removed, downwards; the oldest is on the left."),
    snapshotChart(snapshots),
    table("Newest snapshots", columns, rows.slice(0, FIRST_SNAPSHOTS)),
  );
  if (rows.length > FIRST_SNAPSHOTS) {
    const rest = rows.slice(FIRST_SNAPSHOTS);
    add(box, el("details", {}, el("summary", {}, count(rest.length, "older snapshot")), table("Older snapshots", columns, rest)));
  }
  if (snapshotsLeftOut) add(box, leftOut(snapshotsLeftOut, "older snapshot"));
}

function whatItDid({ done }) {
  const parts = [
    [done.added_files, "+", "file"],
    [done.added_rows, "+", "row"],
    [done.removed_files, "\u2212", "file"],
    [done.removed_rows, "\u2212", "row"],
    [done.added_delete_files, "+", "delete file"],
    [done.removed_delete_files, "\u2212", "delete file"],
  ].flatMap(([number, sign, what]) => (number ? [`${sign}${count(number, what)}`] : []));
  if (parts.length) return parts.join(", ");
  return Object.values(done).every((number) => number === null) ? "its summary does not say" : "changed no files";
}

function moreOfSnapshot(snapshot) {
  const notes = [
    ...snapshot.refs.map((ref) => [el("span", { class: "badge" }, el("bdi", {}, ref)), " "]),
    snapshot.inHistory ? null : "not in this branch's history \u00b7 ",
    `snapshot ${snapshot.id}`,
    ...snapshot.properties.map(([name, text]) => [" \u00b7 ", el("bdi", {}, name), "=", el("bdi", {}, text)]),
  ];
  return el("div", { class: "sub" }, notes);
}

/** Schemas and specs in one line of time; what never left a trace in a snapshot or live file comes last. */
function fillTimeline() {
  const events = [
    ...facts.schemas.map((schema) => ({
      at: schema.first_used_ms,
      kind: "schema",
      title: [`Schema ${schema.schema_id}`, schema.is_current ? [" ", el("span", { class: "badge" }, "current")] : null],
      lines: schema.changes.length
        ? [...schema.changes, ...(schema.changesLeftOut ? [`and ${count(schema.changesLeftOut, "more change")}`] : [])]
        : [count(schema.columns, "column")],
      first: "first written with",
    })),
    ...facts.specs.map((spec) => ({
      at: spec.oldest_file_ms,
      kind: "spec",
      title: [
        `Spec ${spec.spec_id}: `,
        el("bdi", {}, specTitle(spec)),
        spec.is_default ? [" ", el("span", { class: "badge" }, "default")] : null,
      ],
      lines: spec.data_files
        ? spec.newest_file_ms === null || spec.oldest_file_ms === spec.newest_file_ms ? [] : [`newest live file of ${moment(spec.newest_file_ms)}`]
        : ["no live files"],
      first: "oldest live file of",
    })),
  ].sort((a, b) => (a.at ?? Infinity) - (b.at ?? Infinity) || a.kind.localeCompare(b.kind));
  byId("timeline").append(
    ...events.map((event) =>
      el(
        "li",
        { class: event.kind },
        el("strong", {}, event.title),
        " ",
        el("time", {}, event.at === null ? "time not known" : `${event.first} ${moment(event.at)}`),
        event.lines.length ? el("ul", {}, event.lines.map((line) => el("li", {}, el("bdi", {}, line)))) : null,
      ),
    ),
  );
  if (facts.schemasLeftOut) byId("timeline").after(leftOut(facts.schemasLeftOut, "older schema"));
}

function fillColumnsAndProperties() {
  add(
    byId("columns"),
    table(
      "Columns",
      [{ title: "Id", number: true }, { title: "Column" }, { title: "Type" }, { title: "Required" }, { title: "Comment" }],
      facts.columns.map((c) => [c.field_id, value(c.name), el("code", {}, value(c.type)), c.required ? "yes" : "", c.doc ? value(c.doc) : ""]),
    ),
    facts.columnsLeftOut ? leftOut(facts.columnsLeftOut, "more column") : null,
  );
  add(
    byId("properties"),
    facts.properties.length
      ? table("Table properties", [{ title: "Property" }, { title: "Value" }], facts.properties.map((pair) => pair.map(value)))
      : el("p", { class: "note" }, "None are set."),
    facts.propertiesLeftOut ? leftOut(facts.propertiesLeftOut, "more property", "more properties") : null,
  );
}

function leftOut(number, one, many = undefined) {
  return el("p", { class: "note" }, `${count(number, one, many)} not shown; lakeshift report --json has them.`);
}
