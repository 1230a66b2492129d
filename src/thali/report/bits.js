// The table as packed bits: decompressed, put in either order, and counted.
"use strict";
const bits = (() => {
  const POP = new Uint8Array(256);
  for (let byte = 1; byte < 256; byte++) POP[byte] = POP[byte >> 1] + (byte & 1);

  async function inflate(text) {
    const raw = atob(text);
    const bytes = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  const bit = (bits, start, i) => (bits[start + (i >> 3)] >> (i & 7)) & 1;

  /** Number of bytes of a line of n bits, in whole words of four bytes. */
  const lineOf = (n) => ((n + 31) >> 5) << 2;

  /** Move lines, and the bits in them, to new places; only bits that are set need moving. */
  function scatter(plane, stride, lineTo, bitTo) {
    const out = new Uint8Array(plane.length);
    for (let line = 0; line < lineTo.length; line++) {
      const from = line * stride, to = lineTo[line] * stride;
      for (let k = 0; k < stride; k++) {
        for (let byte = plane[from + k]; byte; byte &= byte - 1) {
          const at = bitTo[8 * k + 31 - Math.clz32(byte & -byte)];
          out[to + (at >> 3)] |= 1 << (at & 7);
        }
      }
    }
    return out;
  }

  /** The order that undoes another. */
  function inverse(order) {
    const back = new Uint32Array(order.length);
    for (let at = 0; at < order.length; at++) back[order[at]] = at;
    return back;
  }

  /** The columns of every component: a column combines a row of each of the given modes. */
  function product(modes) {
    return modes.reduce((outer, inner) => {
      const size = outer.size * inner.size, stride = lineOf(size), n = outer.nComponents;
      const plane = new Uint8Array(n * stride);
      for (let c = 0; c < n; c++) {
        for (let i = 0; i < size; i++) {
          const both = bit(outer.plane, c * outer.stride, Math.floor(i / inner.size)) &
            bit(inner.plane, c * inner.stride, i % inner.size);
          plane[c * stride + (i >> 3)] |= both << (i & 7);
        }
      }
      return {size, stride, plane, nComponents: n};
    });
  }

  /** One side of the table: which row of which mode is at a place, and what it is called. */
  function axisOf(modes, order) {
    const rowsAt = (place) => {
      let rest = order ? order[place] : place;
      return modes.map((_, k) => modes.length - 1 - k).map((k) => {
        const row = rest % modes[k].size;
        rest = Math.floor(rest / modes[k].size);
        return row;
      }).reverse();
    };
    const nPlaces = modes.reduce((n, mode) => n * mode.size, 1);
    return {
      hasNames: modes.length > 1 || modes[0].list !== null,
      nameOf: (place) => rowsAt(place).map((row, k) => modes[k].nameOf(row)).join(" · "),
      /** All places at which a row of a mode is shown. */
      placesOf(mode, row) {
        const k = modes.indexOf(mode), places = [];
        if (k >= 0 && modes.length === 1) return [order ? order.indexOf(row) : row];
        for (let at = 0; k >= 0 && at < nPlaces; at++) if (rowsAt(at)[k] === row) places.push(at);
        return places;
      },
    };
  }

  /** Compute the table in one order of rows and columns from the errors and the components. */
  function assemble(rows, columns, wrong, unknown, users, codes, axes) {
    const stride = lineOf(columns), rowStride = lineOf(rows);
    const nComponents = rowStride ? users.length / rowStride : 0;
    const covered = new Uint8Array(rows * stride);
    const words = new Uint32Array(covered.buffer), all = new Uint32Array(codes.buffer);
    const width = stride >> 2; // in words: a line is a whole number of them
    for (let row = 0; row < rows; row++) {
      for (let c = 0; c < nComponents; c++) {
        if (!bit(users, c * rowStride, row)) continue;
        for (let k = 0; k < width; k++) words[row * width + k] |= all[c * width + k];
      }
    }
    const ones = new Uint8Array(covered.length), spurious = new Uint8Array(covered.length);
    const dropped = new Uint8Array(covered.length);
    for (let k = 0; k < covered.length; k++) {
      spurious[k] = wrong[k] & ~covered[k];
      dropped[k] = wrong[k] & covered[k];
      ones[k] = covered[k] ^ wrong[k];
      if (unknown) ones[k] &= ~unknown[k];
    }
    const add = (bits, row, edges, sums) => addBits(bits, row * stride, edges, sums);
    return {rows, columns, stride, rowStride, nComponents, users, codes, axes, add,
            ones, covered, spurious, dropped, unknown};
  }

  /** Add up the bits of a line between consecutive edges; a pixel within one cell counts it. */
  function addBits(bits, start, edges, sums) {
    for (let i = 0; i < sums.length; i++) {
      const a = edges[i];
      let b = edges[i + 1];
      if (b <= a) b = a + 1;
      const p = start + (a >> 3), q = start + (b >> 3);
      if (p === q) {
        sums[i] += POP[(bits[p] >> (a & 7)) & ((1 << (b - a)) - 1)];
        continue;
      }
      let n = POP[bits[p] >> (a & 7)];
      for (let k = p + 1; k < q; k++) n += POP[bits[k]];
      if (b & 7) n += POP[bits[q] & ((1 << (b & 7)) - 1)];
      sums[i] += n;
    }
  }

  /** Do the same for the shares of blocks, which are stored as one byte each. */
  function addShares(shares, start, edges, sums) {
    for (let i = 0; i < sums.length; i++) {
      const b = Math.max(edges[i + 1], edges[i] + 1);
      for (let k = edges[i]; k < b; k++) sums[i] += shares[start + k] / 255;
    }
  }

  const namesOf = async (blob) => JSON.parse(new TextDecoder().decode(await inflate(blob)));

  /** Read a table of entries; the order of the data is computed when it is first shown. */
  async function loadBits(payload, modes) {
    const [nRows, nColumns] = payload.shape, stride = lineOf(nColumns);
    const parts = ["wrong", "unknown", "row_order", "column_order"];
    const bytes = await Promise.all(parts.map((p) => (payload[p] ? inflate(payload[p]) : null)));
    const [wrong, unknown] = bytes;
    const orders = bytes.slice(2).map((b) => new Uint32Array(b.buffer));
    const sides = [[modes[0]], payload.column_modes.map((mode) => modes[mode])];
    const users = modes[0].plane, codes = product(sides[1]).plane;
    const all = Uint32Array.from({length: modes[0].nComponents}, (_, c) => c);
    const grouped = assemble(nRows, nColumns, wrong, unknown,
      scatter(users, modes[0].stride, all, inverse(orders[0])),
      scatter(codes, stride, all, inverse(orders[1])),
      sides.map((side, axis) => axisOf(side, orders[axis])));
    let given = null;
    const inOrderOfData = () => assemble(nRows, nColumns,
      scatter(wrong, stride, ...orders), unknown && scatter(unknown, stride, ...orders),
      users, codes, sides.map((side) => axisOf(side, null)));
    return {grouped: () => grouped, given: () => (given ??= inOrderOfData())};
  }

  /** Read a table of the shares of blocks, in both orders. */
  async function loadShares(payload) {
    const [nRows, nColumns] = payload.shape;
    const tables = {};
    for (const order of ["grouped", "given"]) {
      const part = payload[order];
      const table = {rows: nRows, columns: nColumns, nComponents: 0};
      for (const name of ["ones", "covered", "spurious", "dropped", "unknown"]) {
        table[name] = part[name] ? await inflate(part[name]) : null;
      }
      const names = await Promise.all(part.names.map(namesOf));
      table.axes = names.map((list) => (
        {hasNames: true, nameOf: (place) => list[place], placesOf: () => []}));
      table.add = (shares, row, edges, sums) => addShares(shares, row * nColumns, edges, sums);
      tables[order] = () => table;
    }
    return tables;
  }

  const load = (payload, modes) =>
    (payload.kind === "bits" ? loadBits(payload, modes) : loadShares(payload));
  return {bit, add: addBits, inflate, lineOf, namesOf, load};
})();
