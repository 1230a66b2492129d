// Files that the page offers: itself, and the factors as tables that are safe in a spreadsheet.
"use strict";
const downloads = (() => {
  // A spreadsheet program computes what begins like this; the last four are wide forms.
  const FORMULA = /^[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]/;

  /** Offer text as a file. */
  function offer(parts, name, type) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob(parts, {type}));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000); // the browser may still be reading
  }

  /** A field of a table: an apostrophe keeps it from being computed, quotes hold it together. */
  function field(text) {
    const lines = text.replace(/\r\n?/g, "\n"); // some readers end a line at a carriage return
    const safe = FORMULA.test(lines) ? `'${lines}` : lines;
    return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  }

  /** Write a factor as a table, one line per row and one column per component. */
  function table(mode, nameOfComponent) {
    const all = Array.from({length: mode.nComponents}, (_, c) => c);
    const titles = all.map((c) => nameOfComponent(c + 1) || `component_${c + 1}`);
    const lines = [[mode.heading, ...titles].map(field).join(",") + "\n"];
    for (let row = 0; row < mode.size; row++) {
      const has = all.map((c) => (mode.has(row, c) ? 1 : 0));
      lines.push([field(mode.nameOf(row)), ...has].join(",") + "\n");
    }
    return lines;
  }

  /** Offer the factor of each mode where the page has a button for it. */
  function open(modes, naming) {
    for (const button of document.querySelectorAll("button[data-csv]")) {
      const mode = modes[Number(button.dataset.csv)];
      button.disabled = !mode;
      button.addEventListener("click", () => {
        offer(table(mode, naming.nameOf), mode.file, "text/csv;charset=utf-8");
      });
    }
  }

  return {offer, open};
})();
