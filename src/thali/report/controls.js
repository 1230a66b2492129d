// The controls of the table: pointer, wheel, keys and buttons move the view and mark components.
"use strict";

/** Let readers move a view; returns a function that shows a row of a mode, or none. */
function control(root, view, description) {
  const {state, nRows, nColumns, canvas} = view, {range, place} = state;
  const LARGEST_CELL = 48; // pixels of a cell at the strongest zoom

  // --- moving ------------------------------------------------------------------------------

  /** Keep the view within the table and its limits of zoom, and draw it. */
  function settle() {
    const least = (size, n) => Math.min(n, size / Math.max(LARGEST_CELL, (3 * size) / n));
    range.nx = Math.max(least(place.width, nColumns), Math.min(nColumns, range.nx));
    range.ny = Math.max(least(place.height, nRows), Math.min(nRows, range.ny));
    range.x = Math.max(0, Math.min(nColumns - range.nx, range.x));
    range.y = Math.max(0, Math.min(nRows - range.ny, range.y));
    view.redraw();
  }

  /** Zoom about a point of the plot, given as shares of its width and height. */
  function zoom(factor, u = 0.5, v = 0.5) {
    const x = range.x + u * range.nx, y = range.y + v * range.ny;
    range.nx /= factor;
    range.ny /= factor;
    settle();
    range.x = x - u * range.nx;
    range.y = y - v * range.ny;
    settle();
  }

  function zoomAtCursor(factor) {
    const {cursor} = state;
    if (!cursor) return zoom(factor);
    const inside = (share) => Math.max(0, Math.min(1, share));
    zoom(factor, inside((cursor.column + 0.5 - range.x) / range.nx),
      inside((cursor.row + 0.5 - range.y) / range.ny));
  }

  function fit() {
    Object.assign(range, {x: 0, y: 0, nx: nColumns, ny: nRows});
    settle();
  }

  /** Move the cursor by one cell, or by a tenth of the view. */
  function step([down, right], isFar) {
    const by = (span) => (isFar ? Math.max(1, Math.round(span / 10)) : 1);
    const {cursor} = state;
    if (!cursor) {
      state.cursor = {row: Math.floor(range.y), column: Math.floor(range.x)};
    } else {
      cursor.row = Math.max(0, Math.min(nRows - 1, cursor.row + down * by(range.ny)));
      cursor.column = Math.max(0, Math.min(nColumns - 1, cursor.column + right * by(range.nx)));
    }
    const {row, column} = state.cursor;
    range.y = Math.max(row + 1 - range.ny, Math.min(row, range.y));
    range.x = Math.max(column + 1 - range.nx, Math.min(column, range.x));
    settle();
    description.show();
  }

  // --- pointer, wheel and keys -------------------------------------------------------------

  /** The position of an event: as shares of the plot, and as a cell. */
  function locate(event) {
    const box = canvas.getBoundingClientRect();
    const u = (event.clientX - box.left - place.left) / place.width;
    const v = (event.clientY - box.top - place.top) / place.height;
    const column = Math.floor(range.x + u * range.nx), row = Math.floor(range.y + v * range.ny);
    const isInside = u >= 0 && v >= 0 && row < nRows && column < nColumns;
    return {u, v, row, column, isInside};
  }

  function point(event) {
    const {row, column, isInside} = locate(event);
    if (!isInside) return;
    state.cursor = {row, column};
    view.redrawCursor();
    const box = canvas.getBoundingClientRect();
    description.show({x: event.clientX - box.left, y: event.clientY - box.top});
  }

  const pointers = new Map();
  canvas.addEventListener("pointerdown", (event) => {
    canvas.focus({preventScroll: true});
    pointers.set(event.pointerId, event);
    if (!view.isWhole() || pointers.size > 1) canvas.setPointerCapture(event.pointerId);
    point(event);
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    if (!before) return point(event);
    description.hide(); // it would stay behind
    if (pointers.size === 1) {
      range.x -= ((event.clientX - before.clientX) / place.width) * range.nx;
      range.y -= ((event.clientY - before.clientY) / place.height) * range.ny;
      settle();
    } else if (pointers.size === 2) {
      const other = [...pointers.values()].find((p) => p.pointerId !== event.pointerId);
      const apart = (p) => Math.hypot(p.clientX - other.clientX, p.clientY - other.clientY);
      const {u, v} = locate(other);
      zoom(Math.max(apart(event), 1) / Math.max(apart(before), 1), u, v);
    }
    pointers.set(event.pointerId, event);
  });
  for (const name of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(name, (event) => pointers.delete(event.pointerId));
  }
  canvas.addEventListener("pointerleave", (event) => {
    pointers.delete(event.pointerId);
    if (event.pointerType !== "mouse") return;
    description.hide();
    if (document.activeElement === canvas) return;
    state.cursor = null;
    view.redrawCursor();
  });
  canvas.addEventListener("blur", description.hide);

  // The wheel zooms only once the table has the focus; otherwise readers could not scroll past it.
  canvas.addEventListener("wheel", (event) => {
    if (document.activeElement !== canvas && !event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const {u, v} = locate(event);
    const pixels = event.deltaMode ? event.deltaY * 20 : event.deltaY;
    zoom(Math.exp(-Math.max(-240, Math.min(240, pixels)) / 300), u, v);
  }, {passive: false});

  canvas.addEventListener("keydown", (event) => {
    const moves = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0]};
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in moves) step(moves[event.key], event.shiftKey);
    else if (event.key === "+" || event.key === "=") zoomAtCursor(1.5);
    else if (event.key === "-") zoomAtCursor(1 / 1.5);
    else if (event.key === "0" || event.key === "Home") fit();
    else if (event.key === "Escape") description.hide();
    else return;
    if (state.cursor && event.key !== "Escape") description.show(); // its cell may have moved
    event.preventDefault();
  });

  // --- buttons and settings ----------------------------------------------------------------

  const actions = {in: () => zoom(1.5), out: () => zoom(1 / 1.5), fit};
  for (const button of root.querySelectorAll("button[data-act]")) {
    button.addEventListener("click", () => { description.hide(); actions[button.dataset.act](); });
  }
  for (const input of view.layerInputs) {
    input.addEventListener("change", () => {
      root.dataset.layer = input.value;
      view.redraw();
      description.hide();
    });
  }
  view.grouped.addEventListener("change", () => {
    state.cursor = null;
    description.hide();
    find(state.found);
  });
  const markButtons = [...document.querySelectorAll("button[data-component]")];
  for (const button of markButtons) {
    button.addEventListener("click", () => {
      const isOn = button.getAttribute("aria-pressed") === "true";
      for (const other of markButtons) other.setAttribute("aria-pressed", "false");
      button.setAttribute("aria-pressed", String(!isOn));
      state.marked = isOn ? -1 : Number(button.dataset.component);
      if (!isOn) root.scrollIntoView({block: "nearest"});
      view.redraw();
    });
  }
  const onResize = () => { if (view.layOut()) settle(); }; // also called when observing starts
  new ResizeObserver(onResize).observe(root.querySelector(".frame"));
  onResize(); // what follows needs to know how large the table is
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", view.redraw);
  const folded = [...document.querySelectorAll("main > section > details")];
  for (const [name, isPrint] of [["beforeprint", true], ["afterprint", false]]) {
    window.addEventListener(name, () => {
      view.drawForPrint(isPrint);
      for (const part of folded) part.open = isPrint;
    });
  }

  root.dataset.layer = view.layerInputs.find((input) => input.checked).value;

  /** Mark what was looked for, {mode, row} or null; returns whether it is in the picture. */
  function find(found) {
    state.found = found;
    const isThere = view.reveal();
    settle();
    return isThere;
  }

  return {find};
}
