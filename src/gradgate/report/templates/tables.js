"use strict";
for (const table of document.querySelectorAll("table.data")) {
  if (table.tBodies[0].rows.length >= 8) addFilter(table);
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const body = table.tBodies[0];
      body.append(...[...body.rows].sort(by(column, down ? -1 : 1)));
    });
  });
}

// Rows with every word that is typed stay.
function addFilter(table) {
  const input = document.createElement("input");
  input.type = "search";
  input.className = "filter";
  input.placeholder = "Filter rows";
  input.setAttribute("aria-label", `Filter rows of ${table.getAttribute("aria-label")}`);
  table.parentElement.before(input);
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/);
    for (const row of table.tBodies[0].rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
  });
}

// Missing values stay at the bottom whichever way the column is sorted.
function by(column, sign) {
  return (a, b) => {
    const x = a.cells[column].dataset.value;
    const y = b.cells[column].dataset.value;
    if (x === "" || y === "") return (x === "") - (y === "");
    const difference = Number(x) - Number(y);
    return sign * (Number.isNaN(difference) ? x.localeCompare(y, "en", { numeric: true }) : difference);
  };
}

// A link to a table opens what it is folded into.
function unfold() {
  document.getElementById(location.hash.slice(1))?.closest("details")?.setAttribute("open", "");
}
addEventListener("hashchange", unfold);
unfold();

addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details")) details.open = true;
});
