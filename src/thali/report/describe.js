// What is at an entry, in words: beside the pointer, and for screen readers below the table.
"use strict";

/** Prepare the description of entries of a view; `numbered` names components by their numbers. */
function describing(view, numbered) {
  const {payload, state, canvas, readout} = view, {range, place} = state;
  const tooltip = document.getElementById("tooltip");
  const MARGIN = 14; // pixels between the pointer and the tooltip

  function ofEntry(table, row, column) {
    const at = row * table.stride;
    const isUnknown = table.unknown && bits.bit(table.unknown, at, column);
    const value = isUnknown ? "unknown" : `observed ${bits.bit(table.ones, at, column)}`;
    const by = [];
    for (let c = 0; c < table.nComponents; c++) {
      const hasRow = bits.bit(table.users, c * table.rowStride, row);
      if (hasRow && bits.bit(table.codes, c * table.stride, column)) by.push(numbered(c + 1));
    }
    const covered = bits.bit(table.covered, at, column);
    const label = by.length > 1 ? "components" : "component";
    const rate = covered ? 1 - payload.dropped : payload.spurious;
    const cause = by.length ? ` by ${label} ${by.join(", ")}` : "";
    return `${value}, reconstructed as ${covered}${cause} ` +
      `(probability of observing a one here: ${rate.toFixed(3)})`;
  }

  function ofBlock(table, row, column) {
    const at = row * view.nColumns + column;
    const share = (name) => `${Math.round((table[name][at] / 255) * 100)}%`;
    const unknown = table.unknown ? `, ${share("unknown")} unknown` : "";
    return `${share("ones")} ones, ${share("covered")} reconstructed, ` +
      `${share("spurious")} spurious, ${share("dropped")} dropped${unknown}`;
  }

  /** Describe the entry below the cursor: at a place of the canvas, or else at its cell. */
  function show(pointer = null) {
    if (!state.cursor) return hide();
    const table = view.current(), {row, column} = state.cursor;
    const names = [row, column].map((at, mode) => {
      const bold = document.createElement("b");
      bold.textContent = table.axes[mode].nameOf(at);
      return [table.axes[mode].hasNames ? "" : `${payload.modes[mode]} `, bold];
    });
    const tell = payload.kind === "bits" ? ofEntry : ofBlock;
    readout.replaceChildren(...names[0], " × ", ...names[1], ": ", tell(table, row, column));
    tooltip.replaceChildren(...readout.cloneNode(true).childNodes);
    tooltip.hidden = false;
    put(pointer ?? {
      x: place.left + ((column + 0.5 - range.x) / range.nx) * place.width,
      y: place.top + ((row + 0.5 - range.y) / range.ny) * place.height,
    });
  }

  /** Put the tooltip beside a point, on the side with more room, and within the canvas. */
  function put({x, y}) {
    const {clientWidth: width, clientHeight: height} = canvas;
    const isLeft = x > width / 2, isAbove = y > height / 2;
    const left = isLeft ? x - MARGIN - tooltip.offsetWidth : x + MARGIN;
    tooltip.style.left = `${Math.max(0, Math.min(left, width - tooltip.offsetWidth))}px`;
    tooltip.style.top = `${isAbove ? y - MARGIN - tooltip.offsetHeight : y + MARGIN}px`;
  }

  function hide() {
    tooltip.hidden = true;
  }

  return {show, hide};
}
