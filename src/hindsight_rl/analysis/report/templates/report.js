"use strict";

// A click on a header, or Enter or Space on it, sorts its table; what has no value stays last either way.
const compareTexts = new Intl.Collator("en", { numeric: true }).compare;

function sortBy(table, column, header) {
  const descending = header.getAttribute("aria-sort") === "ascending";
  const sign = descending ? -1 : 1;
  const keyOf = (row) => row.cells[column].dataset.key;
  const compare = header.classList.contains("number") ? (a, b) => a - b : compareTexts;
  const rows = Array.from(table.tBodies[0].rows);
  rows.sort((first, second) => {
    const [a, b] = [keyOf(first), keyOf(second)];
    if (a === undefined || b === undefined) return (a === undefined) - (b === undefined);
    return sign * compare(a, b);
  });
  for (const other of table.tHead.rows[0].cells) other.setAttribute("aria-sort", "none");
  header.setAttribute("aria-sort", descending ? "descending" : "ascending");
  table.tBodies[0].append(...rows);
}

for (const table of document.querySelectorAll("table.sortable")) {
  Array.from(table.tHead.rows[0].cells).forEach((header, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...header.childNodes);
    button.addEventListener("click", () => sortBy(table, column, header));
    header.append(button);
    header.setAttribute("aria-sort", "none");
  });
}

// A folded table opens when a link leads into it.
function unfold() {
  const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const fold = target && target.querySelector("details");
  if (fold) fold.open = true;
}
window.addEventListener("hashchange", unfold);
unfold();

// Nothing that was found on screen should be folded on paper.
window.addEventListener("beforeprint", () => {
  for (const fold of document.querySelectorAll("details")) fold.open = true;
});
