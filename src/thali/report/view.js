// The table on a canvas: packed bits, drawn a pixel at a time, exact at every zoom.
"use strict";
(async () => {
  const root = document.getElementById("view");
  if (!root) return;
  const canvas = root.querySelector("canvas");
  const context = canvas.getContext("2d");
  const readout = document.getElementById("readout");
  const layerInputs = [...root.querySelectorAll("input[name=layer]")];
  const grouped = document.getElementById("grouped");
  const payload = JSON.parse(document.getElementById("payload").textContent);
  const [nRows, nColumns] = payload.shape;
  const isBits = payload.kind === "bits";
  const LABEL = 11, GAP = 12, LARGEST_CELL = 48;

  let tables;
  try {
    tables = await bits.load(payload);
  } catch (error) {
    readout.textContent = `The table cannot be shown here (${error.message}); a newer browser can.`;
    root.dataset.state = "failed";
    return;
  }

  const current = () => tables[grouped.checked ? "grouped" : "given"]();

  function nameOf(table, mode, shown) {
    const {list, order} = table.names[mode];
    const original = order ? order[shown] : shown;
    return list ? list[original] : String(original);
  }

  // --- what is shown -----------------------------------------------------------------------

  const view = {x: 0, y: 0, nx: nColumns, ny: nRows};
  const place = {left: 0, top: 0, width: 0, height: 0, whole: 0, ratio: 1};
  let cursor = null, highlight = -1, image = null, colours = {}, light = false;

  function readColours() {
    const style = getComputedStyle(light ? root.querySelector(".light") : root);
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

  function channels(table) {
    const layer = layerInputs.find((input) => input.checked).value;
    const {ink, marked, spurious, dropped, tint} = colours;
    const between = colours.unknown.map((part, c) => (part + tint[c]) / 2);
    const unknown = table.unknown ? [[table.unknown, colours.unknown, between]] : [];
    if (layer === "data") return [[table.ones, ink, marked], ...unknown];
    if (layer === "reconstruction") return [[table.covered, ink, marked]];
    return [[table.spurious, spurious, spurious], [table.dropped, dropped, dropped], ...unknown];
  }

  function widest(table, mode, most) {
    context.font = `${LABEL}px system-ui, sans-serif`;
    const {list} = table.names[mode];
    const sample = list ? list.slice(0, 400) : [String(mode ? nColumns : nRows)];
    const need = sample.reduce((n, name) => Math.max(n, context.measureText(name).width), 0);
    return Math.min(most, Math.ceil(need)) + 8;
  }

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

  function draw() {
    const table = current();
    readColours();
    const {ratio} = place;
    const width = canvas.width - Math.round(place.left * ratio);
    const height = canvas.height - Math.round(place.top * ratio);
    image = context.createImageData(width, height);
    paint.fill(new Uint32Array(image.data.buffer), table, view, width, height, channels(table),
      colours, isBits ? highlight : -1, Math.round(ratio));
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, canvas.width, canvas.height);
    drawLabels(table);
    drawCursor();
    const told = [view.x, view.y, view.nx, view.ny].map((v) => +v.toFixed(4));
    canvas.dataset.view = told.join(" ");
    canvas.dataset.plot = [place.left, place.top, place.width, place.height].join(" ");
    canvas.style.touchAction = isWhole() ? "pan-y" : "none";
    root.dataset.state = "ready";
  }

  const isWhole = () => view.nx >= nColumns && view.ny >= nRows;

  function drawLabels(table) {
    context.setTransform(place.ratio, 0, 0, place.ratio, 0, 0);
    context.font = `${LABEL}px system-ui, sans-serif`;
    context.fillStyle = css("muted");
    context.textBaseline = "middle";
    each(view.y, view.ny, nRows, place.height, table.names[0].list, (row, at) => {
      context.textAlign = "right";
      context.fillText(clip(nameOf(table, 0, row), place.left - 8), place.left - 5, place.top + at);
    });
    each(view.x, view.nx, nColumns, place.width, table.names[1].list, (column, at) => {
      context.save();
      context.translate(place.left + at, place.top - 5);
      context.rotate(-Math.PI / 2);
      context.textAlign = "left";
      context.fillText(clip(nameOf(table, 1, column), place.top - 8), 0, 0);
      context.restore();
    });
  }

  /** Go through the cells that have a label: all, or one in so many that they do not touch. */
  function each(start, span, n, size, hasNames, act) {
    const cell = size / span;
    let step = Math.max(1, Math.ceil(GAP / cell));
    if (!hasNames && step > 1) {
      const ten = 10 ** Math.floor(Math.log10(step));
      step = [1, 2, 5, 10].map((f) => f * ten).find((s) => s >= step);
    }
    for (let i = Math.ceil(start / step - 0.5) * step; i < Math.min(n, start + span); i += step) {
      const at = (i + 0.5 - start) * cell;
      if (i >= 0 && at >= 0 && at <= size) act(i, at);
    }
  }

  function clip(name, width) {
    if (context.measureText(name).width <= width) return name;
    let letters = [...name];
    while (letters.length > 1 && context.measureText(`${letters.join("")}…`).width > width) letters.pop();
    return `${letters.join("")}…`;
  }

  function drawCursor() {
    const {ratio} = place;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.putImageData(image, Math.round(place.left * ratio), Math.round(place.top * ratio));
    if (!cursor) return;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.save();
    context.beginPath();
    context.rect(place.left, place.top, place.width, place.height);
    context.clip();
    const w = place.width / view.nx, h = place.height / view.ny;
    const x = place.left + (cursor.column - view.x) * w, y = place.top + (cursor.row - view.y) * h;
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

  // --- telling -----------------------------------------------------------------------------

  function tell() {
    if (!cursor) return;
    const table = current(), {row, column} = cursor;
    const parts = [row, column].map((at, mode) => {
      const bold = document.createElement("b");
      bold.textContent = nameOf(table, mode, at);
      return [table.names[mode].list ? "" : `${payload.modes[mode]} `, bold];
    });
    const told = isBits ? tellBits(table, row, column) : tellShares(table, row, column);
    readout.replaceChildren(...parts[0], " × ", ...parts[1], ": ", told);
  }

  function tellBits(table, row, column) {
    const at = row * table.stride;
    const isUnknown = table.unknown && bits.bit(table.unknown, at, column);
    const value = isUnknown ? "unknown" : `reads ${bits.bit(table.ones, at, column)}`;
    const by = [];
    for (let c = 0; c < table.nComponents; c++) {
      const hasRow = bits.bit(table.users, c * table.rowStride, row);
      if (hasRow && bits.bit(table.codes, c * table.stride, column)) by.push(c);
    }
    const covered = bits.bit(table.covered, at, column);
    const label = by.length > 1 ? "components" : "component";
    const rate = covered ? 1 - payload.dropped : payload.spurious;
    return `${value}, reconstructed ${covered}${by.length ? ` by ${label} ${by.join(", ")}` : ""}` +
      ` (a one is read here with probability ${rate.toFixed(3)})`;
  }

  function tellShares(table, row, column) {
    const at = row * nColumns + column;
    const share = (name) => `${Math.round((table[name][at] / 255) * 100)}%`;
    const unknown = table.unknown ? `, ${share("unknown")} unknown` : "";
    return `${share("ones")} ones, ${share("covered")} reconstructed, ` +
      `${share("spurious")} spurious, ${share("dropped")} dropped${unknown}`;
  }

  // --- moving ------------------------------------------------------------------------------

  let isWaiting = false;
  function redraw() {
    if (isWaiting) return;
    isWaiting = true;
    requestAnimationFrame(() => { isWaiting = false; draw(); });
  }

  function settle() {
    const least = (size, n) => Math.min(n, size / Math.max(LARGEST_CELL, (3 * size) / n));
    view.nx = Math.max(least(place.width, nColumns), Math.min(nColumns, view.nx));
    view.ny = Math.max(least(place.height, nRows), Math.min(nRows, view.ny));
    view.x = Math.max(0, Math.min(nColumns - view.nx, view.x));
    view.y = Math.max(0, Math.min(nRows - view.ny, view.y));
    redraw();
  }

  /** Zoom about a point of the plot, given as shares of its width and height. */
  function zoom(factor, u = 0.5, v = 0.5) {
    const x = view.x + u * view.nx, y = view.y + v * view.ny;
    view.nx /= factor;
    view.ny /= factor;
    settle();
    view.x = x - u * view.nx;
    view.y = y - v * view.ny;
    settle();
  }

  function fit() {
    Object.assign(view, {x: 0, y: 0, nx: nColumns, ny: nRows});
    settle();
  }

  /** Where an event is: shares of the plot, and the cell. */
  function locate(event) {
    const box = canvas.getBoundingClientRect();
    const u = (event.clientX - box.left - place.left) / place.width;
    const v = (event.clientY - box.top - place.top) / place.height;
    const column = Math.floor(view.x + u * view.nx), row = Math.floor(view.y + v * view.ny);
    const isInside = u >= 0 && v >= 0 && row < nRows && column < nColumns;
    return {u, v, row, column, isInside};
  }

  const pointers = new Map();
  canvas.addEventListener("pointerdown", (event) => {
    canvas.focus({preventScroll: true});
    pointers.set(event.pointerId, event);
    if (!isWhole() || pointers.size > 1) canvas.setPointerCapture(event.pointerId);
    point(event);
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    if (!before) return point(event);
    if (pointers.size === 1) {
      view.x -= ((event.clientX - before.clientX) / place.width) * view.nx;
      view.y -= ((event.clientY - before.clientY) / place.height) * view.ny;
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
    if (event.pointerType !== "mouse" || document.activeElement === canvas) return;
    cursor = null;
    drawCursor();
  });

  function point(event) {
    const {row, column, isInside} = locate(event);
    if (!isInside) return;
    cursor = {row, column};
    if (!isWaiting) drawCursor();
    tell();
  }

  // A page that is scrolled must not get stuck here: the wheel zooms once the table has focus.
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
    else return;
    event.preventDefault();
  });

  function step([down, right], isFar) {
    const by = (span) => (isFar ? Math.max(1, Math.round(span / 10)) : 1);
    if (!cursor) {
      cursor = {row: Math.floor(view.y), column: Math.floor(view.x)};
    } else {
      cursor.row = Math.max(0, Math.min(nRows - 1, cursor.row + down * by(view.ny)));
      cursor.column = Math.max(0, Math.min(nColumns - 1, cursor.column + right * by(view.nx)));
    }
    view.y = Math.max(cursor.row + 1 - view.ny, Math.min(cursor.row, view.y));
    view.x = Math.max(cursor.column + 1 - view.nx, Math.min(cursor.column, view.x));
    settle();
    tell();
  }

  function zoomAtCursor(factor) {
    if (!cursor) return zoom(factor);
    const inside = (share) => Math.max(0, Math.min(1, share));
    zoom(factor, inside((cursor.column + 0.5 - view.x) / view.nx),
      inside((cursor.row + 0.5 - view.y) / view.ny));
  }

  // --- controls ----------------------------------------------------------------------------

  const act = {in: () => zoom(1.5), out: () => zoom(1 / 1.5), fit};
  for (const button of root.querySelectorAll("button[data-act]")) {
    button.addEventListener("click", () => act[button.dataset.act]());
  }
  for (const input of layerInputs) {
    input.addEventListener("change", () => {
      root.dataset.layer = input.value;
      redraw();
      tell();
    });
  }
  grouped.addEventListener("change", () => {
    cursor = null;
    redraw();
  });
  const showers = [...document.querySelectorAll("button[data-component]")];
  for (const button of showers) {
    button.addEventListener("click", () => {
      const isOn = button.getAttribute("aria-pressed") === "true";
      for (const other of showers) other.setAttribute("aria-pressed", "false");
      button.setAttribute("aria-pressed", String(!isOn));
      highlight = isOn ? -1 : Number(button.dataset.component);
      if (!isOn) root.scrollIntoView({block: "nearest"});
      redraw();
    });
  }
  const redo = () => { if (layOut()) settle(); }; // called at once, too
  new ResizeObserver(redo).observe(root.querySelector(".frame"));
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  const folded = [...document.querySelectorAll("details.more")];
  window.addEventListener("beforeprint", () => {
    light = true;
    if (image) draw();
    for (const part of folded) part.open = true;
  });
  window.addEventListener("afterprint", () => {
    light = false;
    if (image) draw();
    for (const part of folded) part.open = false;
  });

  root.dataset.layer = layerInputs.find((input) => input.checked).value;
})();
