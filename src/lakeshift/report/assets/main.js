// Puts the page together.

fillHead();
fillSteps();
fillMapLead();
buildMaps();
if (layouts.length) {
  choice(byId("colour"), Object.entries(MEASURES).map(([key, measure]) => [key, measure.label]), "files", colourBy);
}
fillSpecs();
fillSizes();
fillDeletes();
fillSnapshots();
fillTimeline();
fillColumnsAndProperties();

byId("partition-table").addEventListener("toggle", () => fillPartitionTable());

let finding = 0;
byId("find").addEventListener("input", (event) => {
  cancelAnimationFrame(finding);
  finding = requestAnimationFrame(() => find(event.target.value));
});

const redraw = () => layouts.length && drawMaps();
choice(byId("theme"), [["auto", "Auto"], ["light", "Light"], ["dark", "Dark"]], "auto", (theme) => {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  redraw();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
