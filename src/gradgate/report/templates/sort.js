"use strict";
for (const table of document.querySelectorAll("table.data")) {
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
