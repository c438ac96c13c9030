// Tables that sort and filter. Rows are in the page; without this script they are all shown.
"use strict";
const PAGE = 100;
const FEW = 6;
const order = new Intl.Collator(undefined, { numeric: true });
for (const box of document.querySelectorAll(".table")) {
  const tools = box.querySelector(".tools");
  const input = box.querySelector("input");
  const output = box.querySelector("output");
  const all = box.querySelector(".all");
  const body = box.querySelector("tbody");
  const headings = [...box.querySelectorAll("thead th")];
  const names = headings.map((heading) => heading.textContent);
  let rows = [...body.rows].map((row, place) => ({ row, place, text: null }));
  let shown = rows;
  let limit = PAGE;

  const draw = () => {
    const part = shown.slice(0, limit);
    for (const { row } of part) {
      if (!row.dataset.done) {
        [...row.cells].forEach((cell, i) => (cell.dataset.name = names[i]));
        row.dataset.done = "1";
      }
    }
    body.replaceChildren(...part.map((entry) => entry.row));
    const total = rows.length === 1 ? "1 row" : `${rows.length} rows`;
    const found = shown.length < rows.length ? `${shown.length} of ${total}` : total;
    output.textContent = part.length < shown.length ? `${found}, the first ${part.length} shown` : found;
    all.hidden = part.length === shown.length;
    all.textContent = `Show all ${shown.length}`;
  };
  const filter = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    shown = rows.filter((entry) => {
      entry.text ??= [...entry.row.cells].map((cell) => cell.textContent).join(" ").toLowerCase();
      return words.every((word) => entry.text.includes(word));
    });
    draw();
  };
  const key = (row, column, number) => {
    const cell = row.cells[column];
    if (!number) return cell.textContent;
    return cell.dataset.v ? Number(cell.dataset.v) : NaN;
  };
  const sort = (column) => {
    const heading = headings[column];
    const now = heading.getAttribute("aria-sort");
    headings.forEach((other) => other.removeAttribute("aria-sort"));
    if (now === "descending") {
      rows.sort((a, b) => a.place - b.place);
    } else {
      const sign = now === "ascending" ? -1 : 1;
      const number = heading.classList.contains("n");
      heading.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
      const keys = new Map(rows.map((entry) => [entry, key(entry.row, column, number)]));
      rows.sort((a, b) => {
        const x = keys.get(a);
        const y = keys.get(b);
        if (!number) return sign * order.compare(x, y) || a.place - b.place;
        // What has no number stays at the end.
        if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y) || a.place - b.place;
        return sign * (x - y) || a.place - b.place;
      });
    }
    filter();
  };

  headings.forEach((heading, column) => heading.querySelector("button").addEventListener("click", () => sort(column)));
  input.addEventListener("input", () => {
    limit = PAGE;
    filter();
  });
  const showAll = () => {
    limit = Infinity;
    draw();
  };
  all.addEventListener("click", showAll);
  addEventListener("beforeprint", showAll);
  tools.hidden = rows.length < FEW;
  draw();
}
