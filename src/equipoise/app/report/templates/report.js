"use strict";
(function () {
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent);
  const percent = (value) => (value === null ? "–" : (100 * value).toFixed(1) + "%");
  const whole = (value) => value.toLocaleString("en-US");

  function theme() {
    const button = byId("theme");
    const root = document.documentElement;
    const dark = window.matchMedia("(prefers-color-scheme: dark)");
    const now = () => root.dataset.theme || (dark.matches ? "dark" : "light");
    const label = () => { button.textContent = now() === "dark" ? "Light theme" : "Dark theme"; };
    let kept = null;
    try { kept = window.localStorage.getItem("equipoise-theme"); } catch (error) { kept = null; }
    if (kept === "dark" || kept === "light") root.dataset.theme = kept;
    button.addEventListener("click", () => {
      root.dataset.theme = now() === "dark" ? "light" : "dark";
      try { window.localStorage.setItem("equipoise-theme", root.dataset.theme); } catch (error) { /* a page from disk may not keep it */ }
      label();
    });
    dark.addEventListener("change", label);
    button.hidden = false;
    label();
  }

  function value(row, column, kind) {
    const cell = row.cells[column];
    if (cell.dataset.v !== undefined) return Number(cell.dataset.v);
    const text = cell.textContent.trim();
    if (kind === "text") return text;
    return text === "–" || text === "" ? NaN : Number(text.replace(/[,%+]/g, "").replace("−", "-"));
  }

  function sort(table, head) {
    const column = head.cellIndex;
    const kind = head.dataset.kind;
    const first = kind === "text" ? "ascending" : "descending";
    const before = head.getAttribute("aria-sort");
    const way = before === null ? first : before === "ascending" ? "descending" : "ascending";
    const sign = way === "ascending" ? 1 : -1;
    const body = table.tBodies[0];
    const rows = Array.from(body.rows, (row) => [value(row, column, kind), row]);
    rows.sort(([a], [b]) => {
      if (typeof a === "string") return sign * a.localeCompare(b, "en", { numeric: true });
      if (Number.isNaN(a) || Number.isNaN(b)) return Number.isNaN(a) - Number.isNaN(b); // unknown ones come last
      return sign * (a - b);
    });
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", way);
    body.append(...rows.map(([, row]) => row));
  }

  function tables() {
    for (const table of document.querySelectorAll("table.sortable")) {
      for (const head of table.tHead.rows[0].cells) {
        head.querySelector("button").addEventListener("click", () => sort(table, head));
      }
    }
    const find = byId("find");
    if (!find) return;
    const rows = Array.from(byId("classes").tBodies[0].rows);
    find.addEventListener("input", () => {
      const wanted = find.value.trim().toLowerCase();
      let left = 0;
      for (const row of rows) {
        row.hidden = !row.cells[0].textContent.toLowerCase().includes(wanted);
        left += !row.hidden;
      }
      byId("found").textContent = wanted ? whole(left) + " of " + whole(rows.length) : "";
    });
  }

  function confusion() {
    const table = byId("confusion");
    if (!table) return;
    const { heads, counts, blocks } = data.confusion;
    const total = counts.map((row) => row.reduce((sum, count) => sum + count, 0));
    const cells = Array.from(table.tBodies[0].rows, (row) => Array.from(row.cells).slice(1));
    const say = (r, c) => {
      const share = total[r] ? " (" + percent(counts[r][c] / total[r]) + " of " + whole(total[r]) + ")" : "";
      const what = r === c && !blocks ? "found rightly" : "predicted as " + heads[c];
      byId("cell").textContent = "True " + heads[r] + ", " + what + ": " + whole(counts[r][c]) + share;
    };
    let at = [0, 0];
    const move = (r, c) => {
      cells[at[0]][at[1]].tabIndex = -1;
      at = [r, c];
      cells[r][c].tabIndex = 0;
    };
    const place = (cell) => [cell.parentElement.sectionRowIndex, cell.cellIndex - 1];
    const inside = (event) => event.target.closest("tbody td");
    for (const row of cells) for (const cell of row) cell.tabIndex = -1;
    move(0, 0);
    table.addEventListener("mouseover", (event) => { if (inside(event)) say(...place(inside(event))); });
    table.addEventListener("focusin", (event) => {
      if (!inside(event)) return;
      move(...place(inside(event)));
      say(...at);
    });
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    table.addEventListener("keydown", (event) => {
      const last = cells.length - 1;
      const clamp = (number) => Math.min(Math.max(number, 0), last);
      let next = null;
      if (steps[event.key]) next = [clamp(at[0] + steps[event.key][0]), clamp(at[1] + steps[event.key][1])];
      if (event.key === "Home") next = [at[0], 0];
      if (event.key === "End") next = [at[0], last];
      if (!next) return;
      event.preventDefault();
      move(...next);
      cells[next[0]][next[1]].focus();
    });
  }

  function slider() {
    const input = byId("share");
    if (!input) return;
    const mark = byId("coverage-mark");
    const draw = (name, attributes) => {
      const element = document.createElementNS("http://www.w3.org/2000/svg", name);
      for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
      mark.append(element);
      return element;
    };
    const line = draw("line", { stroke: "var(--ink)", "stroke-width": 1 });
    const dots = ["var(--accent)", "var(--rare)"].map((fill) => draw("circle", { r: 5, fill, stroke: "var(--paper)", "stroke-width": 1.5 }));
    const of = (part, all) => whole(part) + " of " + whole(all) + (all ? " (" + percent(part / all) + ")" : "");
    const show = () => {
      const step = data.steps[Number(input.value)];
      const [x, first, second, bottom, top] = data.places[Number(input.value)];
      line.setAttribute("x1", x); line.setAttribute("x2", x); line.setAttribute("y1", bottom); line.setAttribute("y2", top);
      [first, second].forEach((y, place) => { dots[place].setAttribute("cx", x); dots[place].setAttribute("cy", y); });
      byId("share-now").textContent = input.value + "%";
      input.setAttribute("aria-valuetext", input.value + "%, accuracy on the rest " + percent(step.accuracy));
      byId("now-sent").textContent = of(step.sent, step.samples);
      byId("now-accuracy").textContent = percent(step.accuracy);
      const left = step.left < step.tested ? ", " + whole(step.left) + " of " + whole(step.tested) + " left" : "";
      byId("now-balanced").textContent = percent(step.balanced_accuracy) + left;
      byId("now-rare").textContent = of(step.rare_sent, step.rare);
      byId("now-wrong").textContent = of(step.wrong_sent, step.wrong);
    };
    input.addEventListener("input", show);
    show();
  }

  function hints() {
    for (const box of document.querySelectorAll(".scroll")) {
      const hint = document.createElement("p");
      hint.className = "more screen";
      hint.textContent = "More columns: scroll sideways \u2192";
      box.before(hint);
      const show = () => { hint.hidden = box.scrollWidth <= box.clientWidth + 1; };
      new ResizeObserver(show).observe(box);
      show();
    }
  }

  theme();
  tables();
  hints();
  confusion();
  slider();
})();
