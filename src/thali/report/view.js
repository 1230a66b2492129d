// The table on a canvas: draws the part in view, exact at every zoom.
"use strict";

/**
 * Read the table of the page and prepare its canvas.
 * Returns the state of the view, which controls change, and the functions that show it; null if
 * the browser cannot read the table.
 */
async function openView(root, payload, modes) {
  const LABEL = 11, GAP = 12; // pixels: font size of names, and least distance between two names
  const canvas = root.querySelector("canvas");
  const context = canvas.getContext("2d");
  const readout = document.getElementById("readout");
  const layerInputs = [...root.querySelectorAll("input[name=layer]")];
  const grouped = document.getElementById("grouped");
  const [nRows, nColumns] = payload.shape;
  const isBits = payload.kind === "bits";

  let tables;
  try {
    tables = await bits.load(payload, modes);
  } catch (error) {
    const reason = error.message;
    readout.classList.remove("unseen");
    readout.textContent = `This browser cannot show the table (${reason}); use a newer one.`;
    root.dataset.state = "failed";
    return null;
  }

  const range = {x: 0, y: 0, nx: nColumns, ny: nRows}; // cells in view: the first, and how many
  const place = {left: 0, top: 0, width: 0, height: 0, whole: 0, ratio: 1}; // pixels on the canvas
  // cursor: {row, column} or null; found: {mode, row} or null, a row of a mode that was looked for
  const state = {range, place, cursor: null, marked: -1, found: null};
  let image = null, colours = {}, isPrinted = false, isWaiting = false;

  const isWhole = () => range.nx >= nColumns && range.ny >= nRows;
  const current = () => tables[grouped.checked ? "grouped" : "given"]();

  // Searching for the places of a found row takes time, and pictures are drawn often.
  let places = {found: null, table: null, axes: [[], []]};
  function foundIn(table) {
    if (places.found !== state.found || places.table !== table) {
      const {found} = state;
      const axes = table.axes.map((axis) => (found ? axis.placesOf(found.mode, found.row) : []));
      places = {found, table, axes};
    }
    return places.axes;
  }

  // --- layout and colours ------------------------------------------------------------------

  function widest(table, mode, most) {
    context.font = `${LABEL}px system-ui, sans-serif`;
    const axis = table.axes[mode], n = mode ? nColumns : nRows;
    const sample = axis.hasNames
      ? Array.from({length: Math.min(n, 400)}, (_, at) => axis.nameOf(at)) : [String(n)];
    const need = sample.reduce((n, name) => Math.max(n, context.measureText(name).width), 0);
    return Math.min(most, Math.ceil(need)) + 8;
  }

  /** Fit the canvas to the width of the page; returns whether anything changed. */
  function layOut() {
    const width = root.querySelector(".frame").clientWidth;
    if (width < 100 || width === place.whole) return false;
    place.whole = width;
    place.ratio = Math.min(window.devicePixelRatio || 1, 2);
    place.left = widest(tables.grouped(), 0, Math.min(150, width * 0.26));
    place.top = widest(tables.grouped(), 1, 100);
    place.width = width - place.left;
    const wanted = Math.max(nRows * 12.5, (place.width * nRows) / nColumns);
    const most = nRows * 12.5 < 900 ? 900 : Math.min(window.innerHeight * 0.72, 720);
    place.height = Math.round(Math.max(200, Math.min(wanted, most)));
    canvas.style.height = `${place.height + place.top}px`;
    canvas.width = Math.round(width * place.ratio);
    canvas.height = Math.round((place.height + place.top) * place.ratio);
    return true;
  }

  function readColours() {
    const style = getComputedStyle(isPrinted ? root.querySelector(".light") : root);
    const rgb = (name) => {
      const hex = style.getPropertyValue(name).trim();
      return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
    };
    for (const name of ["paper", "ink", "spurious", "dropped", "unknown", "mark", "marked", "tint",
      "text", "muted", "grid"]) {
      colours[name] = rgb(`--cell-${name}`);
    }
  }

  const css = (name) => `rgb(${colours[name].join(",")})`;

  /** The planes that the chosen layer shows, each with its colour outside and inside a mark. */
  function planesOf(table) {
    const layer = layerInputs.find((input) => input.checked).value;
    const {ink, marked, spurious, dropped, tint} = colours;
    const between = colours.unknown.map((part, c) => (part + tint[c]) / 2);
    const unknown = table.unknown ? [[table.unknown, colours.unknown, between]] : [];
    if (layer === "data") return [[table.ones, ink, marked], ...unknown];
    if (layer === "reconstruction") return [[table.covered, ink, marked]];
    return [[table.spurious, spurious, spurious], [table.dropped, dropped, dropped], ...unknown];
  }

  // --- drawing -----------------------------------------------------------------------------

  function draw() {
    const table = current();
    readColours();
    const {ratio} = place;
    const width = canvas.width - Math.round(place.left * ratio);
    const height = canvas.height - Math.round(place.top * ratio);
    image = context.createImageData(width, height);
    paint.fill(new Uint32Array(image.data.buffer), table, range, width, height, planesOf(table),
      colours, isBits ? state.marked : -1, Math.round(ratio));
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, canvas.width, canvas.height);
    drawLabels(table);
    drawCursor();
    const inView = [range.x, range.y, range.nx, range.ny].map((v) => +v.toFixed(4));
    canvas.dataset.view = inView.join(" ");
    canvas.dataset.plot = [place.left, place.top, place.width, place.height].join(" ");
    canvas.style.touchAction = isWhole() ? "pan-y" : "none";
    root.dataset.state = "ready";
  }

  /** Draw with the next frame, once for all changes until then. */
  function redraw() {
    if (isWaiting) return;
    isWaiting = true;
    requestAnimationFrame(() => { isWaiting = false; draw(); });
  }

  /** Draw with the light colours while the page is printed, and with its own ones afterwards. */
  function drawForPrint(isPrint) {
    isPrinted = isPrint;
    if (image) draw();
  }

  function drawLabels(table) {
    context.setTransform(place.ratio, 0, 0, place.ratio, 0, 0);
    context.font = `${LABEL}px system-ui, sans-serif`;
    context.fillStyle = css("muted");
    context.textBaseline = "middle";
    const [rows, columns] = table.axes, [foundRows, foundColumns] = foundIn(table);
    const row = (at, y) => {
      context.textAlign = "right";
      context.fillText(clip(rows.nameOf(at), place.left - 8), place.left - 5, place.top + y);
    };
    const column = (at, x) => {
      context.save();
      context.translate(place.left + x, place.top - 5);
      context.rotate(-Math.PI / 2);
      context.textAlign = "left";
      context.fillText(clip(columns.nameOf(at), place.top - 8), 0, 0);
      context.restore();
    };
    eachLabelled(range.y, range.ny, nRows, place.height, rows.hasNames, foundRows, row);
    eachLabelled(range.x, range.nx, nColumns, place.width, columns.hasNames, foundColumns, column);
  }

  /**
   * Call `act` for each labelled cell: for all cells, or for every k-th if labels would touch.
   * A single found cell is always labelled, in bold, and others make room for it.
   */
  function eachLabelled(start, span, n, size, hasNames, found, act) {
    const cell = size / span;
    let step = Math.max(1, Math.ceil(GAP / cell));
    if (!hasNames && step > 1) { // numbers: steps of 1, 2 or 5 times a power of ten
      const ten = 10 ** Math.floor(Math.log10(step));
      step = [1, 2, 5, 10].map((f) => f * ten).find((s) => s >= step);
    }
    const middle = (i) => (i + 0.5 - start) * cell;
    const isInside = (i) => i >= 0 && middle(i) >= 0 && middle(i) <= size;
    const bold = found.length === 1 && isInside(found[0]) ? found[0] : null;
    for (let i = Math.ceil(start / step - 0.5) * step; i < Math.min(n, start + span); i += step) {
      const isFree = bold === null || Math.abs(i - bold) * cell >= GAP;
      if (isInside(i) && isFree) act(i, middle(i));
    }
    if (bold === null) return;
    context.save();
    context.font = `bold ${LABEL}px system-ui, sans-serif`;
    context.fillStyle = css("text");
    act(bold, middle(bold));
    context.restore();
  }

  /** Shorten a name to a width in pixels. */
  function clip(name, width) {
    if (context.measureText(name).width <= width) return name;
    let letters = [...name];
    const isLong = () => context.measureText(`${letters.join("")}…`).width > width;
    while (letters.length > 1 && isLong()) letters.pop();
    return `${letters.join("")}…`;
  }

  function drawCursor() {
    const {ratio} = place, {cursor} = state;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.putImageData(image, Math.round(place.left * ratio), Math.round(place.top * ratio));
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.save();
    context.beginPath();
    context.rect(place.left, place.top, place.width, place.height);
    context.clip();
    drawFound();
    if (cursor) drawCell(cursor);
    context.restore();
  }

  /** Draw a frame around every line that was looked for. */
  function drawFound() {
    const [rows, columns] = foundIn(current());
    const w = place.width / range.nx, h = place.height / range.ny;
    context.strokeStyle = css("mark");
    context.lineWidth = 2;
    for (const at of rows) {
      const y = place.top + (at - range.y) * h;
      context.strokeRect(place.left + 1, y, place.width - 2, Math.max(h, 2));
    }
    for (const at of columns) {
      const x = place.left + (at - range.x) * w;
      context.strokeRect(x, place.top + 1, Math.max(w, 2), place.height - 2);
    }
  }

  /** Draw the cell below the cursor, and shade its row and column. */
  function drawCell(cursor) {
    const w = place.width / range.nx, h = place.height / range.ny;
    const x = place.left + (cursor.column - range.x) * w;
    const y = place.top + (cursor.row - range.y) * h;
    context.fillStyle = css("text");
    context.globalAlpha = 0.1;
    context.fillRect(place.left, y, place.width, Math.max(h, 1));
    context.fillRect(x, place.top, Math.max(w, 1), place.height);
    context.globalAlpha = 1;
    context.strokeStyle = css("mark");
    context.lineWidth = 2;
    context.strokeRect(x - 1, y - 1, Math.max(w, 4) + 1, Math.max(h, 4) + 1);
  }

  /** Draw a cursor that moved, unless everything is about to be drawn. */
  function redrawCursor() {
    if (!isWaiting) drawCursor();
  }

  /** Bring the first place of what was looked for into view; returns whether there is one. */
  function reveal() {
    const [rows, columns] = foundIn(current());
    const isIn = (at, start, span) => at >= start && at + 1 <= start + span;
    const into = (at, start, span) => (isIn(at, start, span) ? start : at - span / 2);
    if (rows.length) range.y = into(rows[0], range.y, range.ny);
    if (columns.length) range.x = into(columns[0], range.x, range.nx);
    return rows.length + columns.length > 0;
  }

  return {payload, state, nRows, nColumns, canvas, readout, layerInputs, grouped, current, isWhole,
          layOut, redraw, redrawCursor, drawCursor, drawForPrint, reveal};
}
