// What is shown beside the pointer, or beside the cell that the keyboard is on.

const tooltip = byId("tooltip");

/** Shows a title, rows of [name, number] and a note near a place of the window. */
function showTooltip(x, y, title, rows, note = null) {
  tooltip.replaceChildren(
    el("strong", {}, title),
    el("dl", {}, rows.map(([name, text]) => [el("dt", {}, name), el("dd", {}, text)])),
    ...(note ? [el("p", {}, note)] : []),
  );
  tooltip.hidden = false;
  const { width, height } = tooltip.getBoundingClientRect();
  const left = x + 16 + width > innerWidth - 8 ? x - 16 - width : x + 16;
  const top = y + 16 + height > innerHeight - 8 ? y - 16 - height : y + 16;
  tooltip.style.left = `${Math.max(8, left)}px`;
  tooltip.style.top = `${Math.max(8, top)}px`;
}

function hideTooltip() {
  tooltip.hidden = true;
}

addEventListener("scroll", hideTooltip, { passive: true });
addEventListener("keydown", (event) => event.key === "Escape" && hideTooltip());
