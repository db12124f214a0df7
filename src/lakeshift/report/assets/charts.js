// The drawings beside the map: file sizes, and what snapshots did. Every number in them also stands in a table.

const CHART_WIDTH = 1080;

/** Files by size, stacked by spec, on a logarithmic axis, with the sizes that a rewrite leaves alone. */
function sizeChart() {
  const { fileSizes: buckets, sizes } = facts;
  const height = 190;
  const [left, top, bottom] = [52, 26, 26];
  const first = Math.log2(Math.max(1, buckets[0].low || 1));
  const last = Math.max(Math.log2(buckets[buckets.length - 1].high), Math.ceil(Math.log2(sizes.largest)) + 0.5);
  const x = (size) => left + ((Math.log2(Math.max(1, size)) - first) / (last - first)) * (CHART_WIDTH - left);
  const most = Math.max(...buckets.map((bucket) => bucket.files));
  const y = (files) => top + height - (files / most) * height;
  const parts = [];
  const bandStart = Math.max(left, x(sizes.smallest));
  if (x(sizes.largest) > left) {
    parts.push(svg("rect", { class: "band", x: bandStart, y: top, width: x(sizes.largest) - bandStart, height }));
  }
  for (const tick of ticks(most)) {
    parts.push(
      svg("line", { class: "rule", x1: left, x2: CHART_WIDTH, y1: y(tick), y2: y(tick) }),
      svg("text", { x: left - 10, y: y(tick) + 4, "text-anchor": "end" }, grouped(tick)),
    );
  }
  for (const bucket of buckets) {
    const from = x(bucket.low || 1) + 1;
    const width = Math.max(1, x(bucket.high) - from - 1);
    let below = 0;
    for (const spec of facts.specs) {
      const files = bucket.by_spec[spec.spec_id] ?? 0;
      if (!files) continue;
      const bar = svg("rect", {
        x: from,
        width,
        y: y(below + files),
        height: Math.max(y(below) - y(below + files), 1),
        fill: specColours.get(spec.spec_id),
      });
      parts.push(bar);
      below += files;
    }
    const hit = svg("rect", { class: "hit", x: from, width, y: top, height });
    hover(hit, `${bytes(bucket.low)} to ${bytes(bucket.high)}`, [
      ["Data files", grouped(bucket.files)],
      ["Size", bytes(bucket.bytes)],
      ...Object.entries(bucket.by_spec).map(([spec, files]) => [`Spec ${spec}`, grouped(files)]),
    ]);
    parts.push(hit);
  }
  parts.push(svg("line", { class: "axis", x1: left, x2: CHART_WIDTH, y1: top + height, y2: top + height }));
  const labelled = Math.ceil((last - first) / 10 / 0.9);
  for (let power = Math.ceil(first); power <= last; power += Math.max(2, labelled)) {
    parts.push(svg("text", { x: x(2 ** power), y: top + height + 18, "text-anchor": "middle" }, binary(2 ** power)));
  }
  if (x(sizes.target) >= left) {
    const end = x(sizes.target) > CHART_WIDTH - 120;
    parts.push(
      svg("line", { class: "target", x1: x(sizes.target), x2: x(sizes.target), y1: top - 6, y2: top + height }),
      svg(
        "text",
        { class: "target-text", x: x(sizes.target) + (end ? 4 : 0), y: top - 12, "text-anchor": end ? "end" : "middle" },
        `target ${binary(sizes.target)}`,
      ),
    );
  }
  const label = `${count(facts.totals.data_files, "data file")} by size; the target is ${binary(sizes.target)}.`;
  return svg("svg", { viewBox: `0 0 ${CHART_WIDTH} ${top + height + bottom}`, role: "img", "aria-label": label }, parts);
}

/** Sizes that are powers of two, as table properties have them. */
function binary(size) {
  let amount = size;
  for (const unit of ["B", "KiB", "MiB", "GiB", "TiB"]) {
    if (amount < 1024 || unit === "TiB") return `${+amount.toFixed(1)} ${unit}`;
    amount /= 1024;
  }
  return String(size);
}

/** Data files that each snapshot added, upwards, and removed, downwards. */
function snapshotChart(snapshots) {
  const most = Math.max(1, ...snapshots.flatMap(({ done }) => [done.added_files ?? 0, done.removed_files ?? 0]));
  const removes = snapshots.some(({ done }) => done.removed_files);
  const [left, top, up] = [52, 8, 96];
  const down = removes ? 64 : 4;
  const zero = top + up;
  const slot = Math.min(34, (CHART_WIDTH - left) / snapshots.length);
  const gap = slot > 6 ? Math.min(6, slot * 0.25) : 0.5;
  const length = (files, room) => (files ? Math.max(2, (files / most) * room) : 0);
  const parts = [];
  for (const tick of ticks(most)) {
    const y = zero - (tick / most) * up;
    parts.push(
      svg("line", { class: "rule", x1: left, x2: CHART_WIDTH, y1: y, y2: y }),
      svg("text", { x: left - 10, y: y + 4, "text-anchor": "end" }, grouped(tick)),
    );
  }
  parts.push(svg("line", { class: "axis", x1: left, x2: CHART_WIDTH, y1: zero, y2: zero }));
  snapshots.forEach((snapshot, place) => {
    const x = left + place * slot;
    const width = slot - gap;
    const added = length(snapshot.done.added_files, up);
    const removed = length(snapshot.done.removed_files, down);
    if (added) parts.push(svg("rect", { class: "added", x, width, y: zero - added, height: added }));
    if (removed) parts.push(svg("rect", { class: "removed", x, width, y: zero + 1, height: removed }));
    if (!added && !removed) parts.push(svg("rect", { class: "axis", x: x + width / 2 - 1, width: 2, y: zero - 2, height: 4 }));
    const hit = svg("rect", { class: "hit", x: x - gap / 2, width: slot, y: top, height: up + down });
    hover(hit, `${snapshot.operation ?? "snapshot"} at ${moment(snapshot.at)} UTC`, doneRows(snapshot), `Snapshot ${snapshot.id}`);
    parts.push(hit);
  });
  const label = `Data files added and removed by ${count(snapshots.length, "snapshot")}, the oldest on the left.`;
  return svg("svg", { viewBox: `0 0 ${CHART_WIDTH} ${zero + down + 6}`, role: "img", "aria-label": label }, parts);
}

function doneRows({ done }) {
  const names = {
    added_files: "Files added",
    removed_files: "Files removed",
    added_rows: "Rows added",
    removed_rows: "Rows removed",
    added_delete_files: "Delete files added",
    removed_delete_files: "Delete files removed",
    total_files: "Files after it",
    total_rows: "Rows after it",
  };
  return Object.entries(names)
    .filter(([key]) => done[key] !== null && (done[key] !== 0 || key.startsWith("total")))
    .map(([key, name]) => [name, grouped(done[key])]);
}

/** Two or three round numbers up to the most. */
function ticks(most) {
  if (most < 1) return [];
  const step = 10 ** Math.floor(Math.log10(most));
  const wanted = most / step >= 5 ? 2 * step : most / step >= 2 ? step : Math.max(1, step / 2);
  return Array.from({ length: Math.floor(most / wanted) }, (_, place) => (place + 1) * wanted);
}

function hover(node, title, rows, note = null) {
  node.addEventListener("pointermove", (event) => showTooltip(event.clientX, event.clientY, title, rows, note));
  node.addEventListener("pointerleave", hideTooltip);
}
