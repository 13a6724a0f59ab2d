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
    root.toggleAttribute("data-searching", words.length > 0);
    found.textContent = words.length ? `${hits.toLocaleString("en")} ${hits === 1 ? "row" : "rows"}` : "";
  }

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
