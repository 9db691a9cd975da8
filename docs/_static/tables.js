// On a phone a row of a table with many columns becomes a list, each cell with the name of its column (site.css).
document.addEventListener("DOMContentLoaded", () => {
  for (const table of document.querySelectorAll("table")) {
    const names = [...table.querySelectorAll("thead th")].map(head => head.textContent);
    if (names.length < 4) continue;
    table.classList.add("many-columns");
    for (const row of table.querySelectorAll("tbody tr"))
      [...row.cells].forEach((cell, column) => { cell.dataset.column = names[column]; });
  }
});
