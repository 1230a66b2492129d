// The table on a canvas: draws the part in view, exact at every zoom, and describes entries.
"use strict";

/**
 * Read the table of the page and prepare its canvas.
 * Returns the state of the view, which controls change, and the functions that show it; null if
 * the browser cannot read the table.
 */
async function openView(root) {
  const LABEL = 11, GAP = 12; // pixels: font size of names, and least distance between two names
  const canvas = root.querySelector("canvas");
  const context = canvas.getContext("2d");
  const readout = document.getElementById("readout");
  const layerInputs = [...root.querySelectorAll("input[name=layer]")];
  const grouped = document.getElementById("grouped");
  const payload = JSON.parse(document.getElementById("payload").textContent);
  const [nRows, nColumns] = payload.shape;
  const isBits = payload.kind === "bits";

  let tables;
  try {
    tables = await bits.load(payload);
  } catch (error) {
    const reason = error.message;
    readout.textContent = `This browser cannot show the table (${reason}); use a newer one.`;
    root.dataset.state = "failed";
    return null;
  }

  const range = {x: 0, y: 0, nx: nColumns, ny: nRows}; // cells in view: the first, and how many
  const place = {left: 0, top: 0, width: 0, height: 0, whole: 0, ratio: 1}; // pixels on the canvas
  const state = {range, place, cursor: null, marked: -1}; // cursor: {row, column} or null
  let image = null, colours = {}, isPrinted = false, isWaiting = false;

  const isWhole = () => range.nx >= nColumns && range.ny >= nRows;
  const current = () => tables[grouped.checked ? "grouped" : "given"]();

  function nameOf(table, mode, shown) {
    const {list, order} = table.names[mode];
    const original = order ? order[shown] : shown;
    return list ? list[original] : String(original);
  }

  // --- layout and colours ------------------------------------------------------------------

  function widest(table, mode, most) {
    context.font = `${LABEL}px system-ui, sans-serif`;
    const {list} = table.names[mode];
    const sample = list ? list.slice(0, 400) : [String(mode ? nColumns : nRows)];
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
    eachLabelled(range.y, range.ny, nRows, place.height, table.names[0].list, (row, at) => {
      context.textAlign = "right";
      const name = clip(nameOf(table, 0, row), place.left - 8);
      context.fillText(name, place.left - 5, place.top + at);
    });
    eachLabelled(range.x, range.nx, nColumns, place.width, table.names[1].list, (column, at) => {
      context.save();
      context.translate(place.left + at, place.top - 5);
      context.rotate(-Math.PI / 2);
      context.textAlign = "left";
      context.fillText(clip(nameOf(table, 1, column), place.top - 8), 0, 0);
      context.restore();
    });
  }

  /** Call `act` for each labelled cell: for all cells, or for every k-th if labels would touch. */
  function eachLabelled(start, span, n, size, hasNames, act) {
    const cell = size / span;
    let step = Math.max(1, Math.ceil(GAP / cell));
    if (!hasNames && step > 1) { // numbers: steps of 1, 2 or 5 times a power of ten
      const ten = 10 ** Math.floor(Math.log10(step));
      step = [1, 2, 5, 10].map((f) => f * ten).find((s) => s >= step);
    }
    for (let i = Math.ceil(start / step - 0.5) * step; i < Math.min(n, start + span); i += step) {
      const at = (i + 0.5 - start) * cell;
      if (i >= 0 && at >= 0 && at <= size) act(i, at);
    }
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
    if (!cursor) return;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.save();
    context.beginPath();
    context.rect(place.left, place.top, place.width, place.height);
    context.clip();
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
    context.restore();
  }

  /** Draw a cursor that moved, unless everything is about to be drawn. */
  function redrawCursor() {
    if (!isWaiting) drawCursor();
  }

  // --- describing --------------------------------------------------------------------------

  /** Describe the entry below the cursor in the line below the table. */
  function describe() {
    if (!state.cursor) return;
    const table = current(), {row, column} = state.cursor;
    const parts = [row, column].map((at, mode) => {
      const bold = document.createElement("b");
      bold.textContent = nameOf(table, mode, at);
      return [table.names[mode].list ? "" : `${payload.modes[mode]} `, bold];
    });
    const text = isBits ? describeEntry(table, row, column) : describeBlock(table, row, column);
    readout.replaceChildren(...parts[0], " × ", ...parts[1], ": ", text);
  }

  function describeEntry(table, row, column) {
    const at = row * table.stride;
    const isUnknown = table.unknown && bits.bit(table.unknown, at, column);
    const value = isUnknown ? "unknown" : `observed ${bits.bit(table.ones, at, column)}`;
    const by = [];
    for (let c = 0; c < table.nComponents; c++) {
      const hasRow = bits.bit(table.users, c * table.rowStride, row);
      if (hasRow && bits.bit(table.codes, c * table.stride, column)) by.push(c + 1); // as on all faces
    }
    const covered = bits.bit(table.covered, at, column);
    const label = by.length > 1 ? "components" : "component";
    const rate = covered ? 1 - payload.dropped : payload.spurious;
    const cause = by.length ? ` by ${label} ${by.join(", ")}` : "";
    return `${value}, reconstructed as ${covered}${cause} ` +
      `(probability of observing a one here: ${rate.toFixed(3)})`;
  }

  function describeBlock(table, row, column) {
    const at = row * nColumns + column;
    const share = (name) => `${Math.round((table[name][at] / 255) * 100)}%`;
    const unknown = table.unknown ? `, ${share("unknown")} unknown` : "";
    return `${share("ones")} ones, ${share("covered")} reconstructed, ` +
      `${share("spurious")} spurious, ${share("dropped")} dropped${unknown}`;
  }

  return {state, nRows, nColumns, canvas, layerInputs, grouped, isWhole, layOut, redraw,
          redrawCursor, drawCursor, drawForPrint, describe};
}
