"use strict";
(() => {
  const root = document.documentElement;
  const input = document.getElementById("search");
  const found = document.getElementById("found");

  // Search: every word has to stand in a row; a number also counts as found in a folded range such as [0-7].
  const parts = [...document.querySelectorAll("table.find")].map((table) => ({
    table,
    details: ancestors(table),
    units: table.classList.contains("matrix") ? [...table.tBodies] : table.tBodies.length ? [...table.tBodies[0].rows] : [],
  }));
  let texts = null;
  let opened = [];
  let timer = 0;

  function ancestors(node) {
    const list = [];
    for (let up = node.parentElement; up; up = up.parentElement) if (up.tagName === "DETAILS") list.push(up);
    return list;
  }

  function contains(text, word) {
    if (text.includes(word)) return true;
    if (!/^\d{1,9}$/.test(word)) return false;
    for (const range of text.matchAll(/(\d{1,9})-[a-z_]*(\d{1,9})/g)) if (+range[1] <= +word && +word <= +range[2]) return true;
    return false;
  }

  function search() {
    const words = input.value.toLowerCase().split(/[\s[\].]+/).filter(Boolean);
    texts = texts || parts.map((part) => part.units.map((unit) => unit.textContent.toLowerCase()));
    for (const details of opened) details.open = false;
    opened = [];
    let hits = 0;
    parts.forEach((part, i) => {
      let here = 0;
      part.units.forEach((unit, j) => {
        const hit = words.every((word) => contains(texts[i][j], word));
        unit.hidden = !hit;
        here += hit;
      });
      hits += here;
      part.table.hidden = here === 0;
      if (words.length && here) for (const details of part.details) if (!details.open) { details.open = true; opened.push(details); }
    });
    // What holds no hit steps aside: sections, and folds of a collector, a file, a run or a suspect.
    for (const block of document.querySelectorAll("section, details[class]")) {
      block.hidden = words.length > 0 && !block.querySelector("table.find:not([hidden])");
    }
    root.toggleAttribute("data-searching", words.length > 0);
    found.textContent = words.length ? `${hits.toLocaleString("en")} ${hits === 1 ? "row" : "rows"}` : "";
  }

  input.parentElement.hidden = false;
  input.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(search, 100); });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !event.ctrlKey && !event.metaKey && !event.altKey && !/^(INPUT|TEXTAREA)$/.test(event.target.tagName)) {
      event.preventDefault();
      input.focus();
      input.select();
    } else if (event.key === "Escape" && event.target === input) {
      input.value = "";
      search();
    }
  });

  // Theme: as the system has it, until somebody chooses.
  const theme = document.getElementById("theme");
  const names = ["system", "light", "dark"];
  let chosen = 0;
  theme.hidden = false;
  theme.addEventListener("click", () => {
    chosen = (chosen + 1) % names.length;
    if (chosen) root.dataset.theme = names[chosen]; else delete root.dataset.theme;
    theme.textContent = `Theme: ${names[chosen]}`;
  });

  // A moment: a line through all charts, and beside their names what the figures were then.
  const moment = document.getElementById("moment");
  if (moment) {
    const section = document.getElementById("timelines");
    const views = moment.dataset.views.split(" ").map(Number);
    const told = moment.parentElement.querySelector("output");
    const lines = new WeakMap();
    let planned = 0;
    moment.parentElement.hidden = false;

    // The paths are in seconds and in the figure's own unit.
    function points(path) {
      if (lines.has(path)) return lines.get(path);
      const list = [];
      let x = 0, y = 0;
      for (const [, step, rest] of path.getAttribute("d").matchAll(/([Mhl])([^Mhl]*)/g)) {
        const by = (rest.match(/-?[0-9.]+/g) || []).map(Number);
        if (step === "M") [x, y] = by;
        else { x += by[0]; y += step === "l" ? by[1] : 0; }
        list.push([x, y, step === "M"]);
      }
      lines.set(path, list);
      return list;
    }

    function at(list, x, near) {
      let low = 0, high = list.length - 1;
      if (high < 0) return null;
      while (high - low > 1) {
        const middle = (low + high) >> 1;
        if (list[middle][0] <= x) low = middle; else high = middle;
      }
      const best = Math.abs(list[low][0] - x) <= Math.abs(list[high][0] - x) ? low : high;
      const within = list[low][0] <= x && x <= list[high][0] && !list[high][2];
      return within || Math.abs(list[best][0] - x) <= near ? list[best][1] : null;
    }

    function tell() {
      planned = 0;
      const view = section.querySelector("#view-1:checked") ? 1 : 0;
      const start = views[2 * view], wide = views[2 * view + 1] - start;
      const seconds = start + wide * moment.value / 1000;
      told.textContent = `${seconds.toFixed(1).replace("-", "\u2212")} s`;
      moment.setAttribute("aria-valuetext", told.textContent);
      for (const figure of section.querySelectorAll("figure")) {
        const picture = figure.querySelector(`.view-${view} > svg`);
        if (!picture.checkVisibility()) continue;
        let cursor = picture.querySelector(".cursor");
        if (!cursor) {
          cursor = document.createElementNS("http://www.w3.org/2000/svg", "path");
          cursor.setAttribute("class", "cursor");
          picture.firstElementChild.append(cursor);
        }
        cursor.setAttribute("d", `M${moment.value} 0V${picture.dataset.height || 64}`);
        const sides = {a: [], b: []};
        for (const path of picture.querySelectorAll(".trace")) {
          const value = at(points(path), seconds, wide / 100);
          if (value !== null) sides[path.classList.contains("a") ? "a" : "b"].unshift(+value.toFixed(3));
        }
        const caption = figure.querySelector("figcaption");
        caption.dataset.name = caption.dataset.name || caption.textContent;
        caption.textContent = caption.dataset.name;
        for (const side of ["a", "b"]) {
          if (!sides[side].length) continue;
          const value = document.createElement("span");
          value.className = `value-at ${side}`;
          value.textContent = `${side.toUpperCase()} ${sides[side].join(", ")}`;
          caption.append(value);
        }
      }
    }

    const plan = () => { planned = planned || requestAnimationFrame(tell); };
    moment.addEventListener("input", plan);
    section.addEventListener("change", plan);
    section.addEventListener("pointermove", (event) => {
      const picture = event.target.closest("figure .view > svg");
      if (!picture) return;
      const box = picture.getBoundingClientRect();
      moment.value = Math.round(1000 * (event.clientX - box.left) / box.width);
      plan();
    });
  }

  // Print: suspects and files with all that they hold.
  let printed = [];
  addEventListener("beforeprint", () => {
    printed = [...document.querySelectorAll("details.suspect:not([open]), details.run:not([open])")];
    for (const details of printed) details.open = true;
  });
  addEventListener("afterprint", () => { for (const details of printed) details.open = false; });

  // A link to what is folded opens it.
  function reveal() {
    const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target) for (const details of ancestors(target)) details.open = true;
  }
  addEventListener("hashchange", reveal);
  reveal();
})();
