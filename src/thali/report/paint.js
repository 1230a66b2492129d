// From packed bits to pixels: every pixel shows the mean of the entries that it covers.
"use strict";
const paint = (() => {
  const GRID_FROM = 6; // pixels per cell from which on lines separate the cells
  const COARSE = 16; // columns per pixel from which on the edges of pixels are rounded to bytes
  const packed = (r, g, b) => ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;

  // A few ones among many entries would be invisible: small shares get a stronger colour.
  const STRONGER = Float64Array.from({length: 1025}, (_, i) => Math.pow(i / 1024, 0.6));

  /** Return the first cell of every pixel, and the end of the last. */
  function edges(start, span, n, pixels) {
    const out = new Int32Array(pixels + 1);
    const grain = span / pixels >= COARSE ? 8 : 1;
    for (let i = 0; i <= pixels; i++) {
      const at = Math.floor(start + (i * span) / pixels + 1e-9);
      out[i] = i === pixels ? Math.min(n, at) : Math.min(n - 1, at - (at % grain));
    }
    return out;
  }

  /** Return 1 for every pixel that is a line between two cells, and 0 for the others. */
  function gaps(cells, span, gap) {
    const pixels = cells.length - 1;
    const isFine = pixels / span >= GRID_FROM * gap;
    return Uint8Array.from({length: pixels}, (_, i) =>
      isFine && i + gap <= pixels && cells[i + gap] !== cells[i] ? 1 : 0);
  }

  /**
   * Fill an image with a part of the table.
   * planes: for each plane its array, its colour, and its colour within the marked component.
   * marked: the number of the marked component, or -1.
   * gap: the width of the lines between cells, in pixels.
   */
  function fill(pixels, table, view, width, height, planes, colours, marked, gap) {
    const columnEdges = edges(view.x, view.nx, table.columns, width);
    const rowEdges = edges(view.y, view.ny, table.rows, height);
    const columnGaps = gaps(columnEdges, view.nx, gap), rowGaps = gaps(rowEdges, view.ny, gap);
    const isMany = width < view.nx || height < view.ny;
    const sums = planes.map(() => new Float64Array(width));
    const tints = planes.map(([, colour]) => colour.map((part, c) => part - colours.paper[c]));
    const [red, green, blue] = colours.paper;
    // Change of colour within the marked component: of the background, and of each plane.
    const mark = colours.tint.map((part, c) => part - colours.paper[c]);
    const inMark = planes.map(([, colour, own]) => own.map((part, c) => part - colour[c]));
    const grid = packed(...colours.grid);
    const marks = new Float64Array(width);
    if (marked >= 0) bits.add(table.codes, marked * table.stride, columnEdges, marks);
    const line = new Uint32Array(width);
    const n = planes.length;
    let last = -1;
    for (let j = 0; j < height; j++) {
      const from = rowEdges[j], to = Math.max(rowEdges[j + 1], from + 1);
      if (rowGaps[j]) {
        pixels.fill(grid, j * width, (j + 1) * width);
        continue;
      }
      if (from !== last) {
        last = to === from + 1 ? from : -1;
        let users = 0;
        for (let k = 0; k < n; k++) {
          sums[k].fill(0);
          for (let row = from; row < to; row++) table.add(planes[k][0], row, columnEdges, sums[k]);
        }
        for (let row = from; marked >= 0 && row < to; row++) {
          users += bits.bit(table.users, marked * table.rowStride, row);
        }
        for (let i = 0; i < width; i++) {
          const cells = Math.max(1, columnEdges[i + 1] - columnEdges[i]) * (to - from);
          const within = users && marks[i] ? (users * marks[i]) / cells : 0;
          let r = red, g = green, b = blue, left = 1;
          for (let k = 0; k < n; k++) {
            const sum = sums[k][i];
            if (sum === 0) continue;
            const share = sum / cells;
            const part = Math.min(left, isMany ? STRONGER[Math.round(share * 1024)] : share);
            left -= part;
            r += part * (tints[k][0] + within * inMark[k][0]);
            g += part * (tints[k][1] + within * inMark[k][1]);
            b += part * (tints[k][2] + within * inMark[k][2]);
          }
          if (within) {
            r += left * within * mark[0];
            g += left * within * mark[1];
            b += left * within * mark[2];
          }
          line[i] = columnGaps[i] ? grid : packed(r, g, b);
        }
      }
      pixels.set(line, j * width);
    }
  }

  return {fill};
})();
