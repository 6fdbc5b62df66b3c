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
      Object.assign(axis, { labelAlign: "left", labelPadding: -4, labelOffset: -12, ticks: false, domain: false, minExtent: 0 });
    }
    return specification;
  };
  const draw = async (figure) => {
    if (figure.dataset.begun) return;
    figure.dataset.begun = "true";
    const place = figure.querySelector(".drawing");
    const still = place.innerHTML;
    figure.still = still;
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
  };
  // What is folded has no width to fit: it is drawn when it is unfolded.
  const visible = (figure) => !figure.closest("details:not([open])");
  const figures = [...document.querySelectorAll("figure.chart")];
  const drawVisible = () => Promise.all(figures.filter(visible).map(draw));
  for (const each of document.querySelectorAll("details")) each.addEventListener("toggle", drawVisible);
  const unfold = (open) => document.querySelectorAll("details").forEach((each) => { each.open = open; });

  // A link to a folded section unfolds it.
  const follow = () => {
    const target = location.hash && document.getElementById(location.hash.slice(1));
    const fold = target && target.querySelector(":scope > details.fold");
    if (fold) fold.open = true;
  };
  addEventListener("hashchange", follow);
  for (const link of document.querySelectorAll("nav a")) link.addEventListener("click", () => setTimeout(follow));
  follow();

  // Filter: rows of tables that name every word; sections without one are hidden.
  const tools = document.querySelector(".tools");
  const found = document.getElementById("found");
  const filter = () => {
    const words = document.getElementById("filter").value.toLowerCase().split(/[\s,]+/).filter(Boolean);
    let shown = 0;
    for (const section of document.querySelectorAll(".experiment")) {
      let here = 0;
      const title = section.querySelector("h2").textContent.toLowerCase();
      for (const table of section.querySelectorAll("table")) {
        const caption = title + " " + (table.caption ? table.caption.textContent.toLowerCase() : "");
        let rows = 0;
        for (const body of table.tBodies) {
          for (const row of body.rows) {
            const text = caption + " " + row.textContent.toLowerCase();
            row.hidden = !words.every((word) => text.includes(word));
            rows += row.hidden ? 0 : 1;
          }
          if (body.family) body.family(words.length > 0 && [...body.rows].some((row) => !row.hidden));
        }
        table.closest(".scroll").hidden = rows === 0;
        here += rows;
      }
      section.hidden = here === 0;
      if (words.length) section.querySelectorAll("details").forEach((each) => { each.open = here > 0; });
      shown += here;
    }
    found.textContent = words.length ? `${shown} rows` : "";
  };
  if (tools) {
    tools.hidden = false;
    document.getElementById("filter").addEventListener("input", filter);
    document.getElementById("unfold").addEventListener("click", () => unfold(true));
  }

  // A family's members are folded under the row that stands for them.
  for (const body of document.querySelectorAll("tbody.fold")) {
    const head = body.rows[0].cells[0];
    const button = document.createElement("button");
    button.type = "button";
    button.className = "family";
    button.append(...head.childNodes);
    head.append(button);
    body.family = (open) => {
      body.classList.toggle("folded", !open);
      button.setAttribute("aria-expanded", String(open));
    };
    button.addEventListener("click", () => body.family(body.classList.contains("folded")));
    body.family(false);
  }

  // Sorting: by the first number of a cell, else by its words.
  const key = (row, column) => {
    const text = row.cells[column].textContent.trim();
    const number = parseFloat(text.replace(/,/g, ""));
    return Number.isNaN(number) ? text : number;
  };
  const less = (a, b) => typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? -1 : 1;
  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        for (const each of table.tHead.rows[0].cells) each.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        // Families by the row that stands for each, and the members of each under it.
        const sorted = (rows) => rows.sort((a, b) => less(key(a, column), key(b, column)) * (down ? -1 : 1));
        for (const body of table.tBodies) {
          const family = body.classList.contains("fold") ? [body.rows[0]] : [];
          body.append(...family, ...sorted([...body.rows].slice(family.length)));
        }
        if (table.tBodies.length > 1) {
          const first = sorted([...table.tBodies].map((body) => body.rows[0]));
          table.append(...first.map((row) => row.parentNode));
        }
      });
    });
  }

  drawVisible().then(() => {
    document.documentElement.dataset.drawnAfter = String(Math.round(performance.now() - began));
  });
  // Printed are the answers, the picture, the summary and what the reader has unfolded, each chart as the still drawing:
  // it shrinks to the paper's width.
  addEventListener("beforeprint", () => {
    for (const figure of figures) {
      if (figure.still) figure.querySelector(".drawing").innerHTML = figure.still;
    }
  });
})();
