"use strict";
// Makes each drawing one that fits the window and answers to the mouse. Where that fails the SVG stays, which says the same.
(() => {
  const began = performance.now();
  document.documentElement.classList.add("scripted");
  const narrow = matchMedia("(max-width: 40rem)").matches;
  // On a phone the names of rows stand above their marks: beside them they would leave no room.
  const fitted = (figure, specification) => {
    const step = (specification.signals || []).find((signal) => signal.name === "y_step");
    if (!narrow || !step || figure.classList.contains("wide")) return specification;
    step.value = Math.max(step.value, 36);
    for (const axis of specification.axes || []) {
      if (axis.orient !== "left" || axis.labels === false) continue;
      Object.assign(axis, { labelAlign: "left", labelPadding: -4, labelOffset: -12, ticks: false, domain: false });
    }
    return specification;
  };
  const drawings = [...document.querySelectorAll("figure.chart")].map(async (figure) => {
    const place = figure.querySelector(".drawing");
    const still = place.innerHTML;
    try {
      const specification = fitted(figure, JSON.parse(figure.querySelector("script").textContent));
      // A child of its own: Vega gives the element it draws into a name, and the place has a better one.
      const inner = document.createElement("div");
      inner.className = "inner";
      place.replaceChildren(inner);
      await vegaEmbed(inner, specification, { mode: "vega", renderer: "svg", actions: false });
      place.dataset.drawn = "true";
    } catch (error) {
      place.innerHTML = still;
      place.dataset.drawn = "false";
      console.error(error);
    }
  });
  Promise.all(drawings).then(() => {
    document.documentElement.dataset.drawnAfter = String(Math.round(performance.now() - began));
  });
  // Tables are printed open.
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((each) => { each.open = true; }));
})();
