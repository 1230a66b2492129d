// Who is in which component: the factors of the point estimate, by mode, in the order of the data.
"use strict";
const factors = (() => {
  /** Read one mode: its names, and a line of bits per component, a bit for each of its rows. */
  async function loadMode(given) {
    const {key, word, heading, file, size} = given;
    const list = given.names ? await bits.namesOf(given.names) : null;
    const plane = await bits.inflate(given.bits), stride = bits.lineOf(size);
    const nComponents = plane.length / stride;
    const nameOf = (row) => (list ? list[row] : String(row));

    /** The row of a name, or -1; rows without names are called by their numbers. */
    function rowOf(name) {
      if (list) return list.indexOf(name);
      return /^\d+$/.test(name) && Number(name) < size ? Number(name) : -1;
    }

    const has = (row, component) => bits.bit(plane, component * stride, row) === 1;

    /** The components of a row, counted from 0. */
    function componentsOf(row) {
      return Array.from({length: nComponents}, (_, c) => c).filter((c) => has(row, c));
    }

    return {key, word, heading, file, size, list, plane, stride, nComponents,
            nameOf, rowOf, has, componentsOf};
  }

  /** Read all modes; an empty list if the page does not have them or the browser is too old. */
  async function load(payload) {
    if (!payload.factors || typeof DecompressionStream === "undefined") return [];
    return Promise.all(payload.factors.map(loadMode));
  }

  return {load};
})();
