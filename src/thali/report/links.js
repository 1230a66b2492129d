// Addresses within the page: #component-3, #row-NAME and #column-NAME can be shared and followed.
"use strict";
const links = (() => {
  /** Undo percent signs; a text that was not made with them stays as it is. */
  function decoded(text) {
    try {
      return decodeURIComponent(text);
    } catch {
      return text;
    }
  }

  /** The address of a row of a mode. */
  const to = (mode, row) => `#${mode.key}-${encodeURIComponent(mode.nameOf(row))}`;

  function linkTo(href, text) {
    const link = document.createElement("a");
    link.href = href;
    link.textContent = text;
    return link;
  }

  /** Follow addresses; `table` is what `control` returns, or null if there is no picture. */
  function open(modes, table, naming) {
    const panel = document.getElementById("found");

    /** What an address names: {mode, name, row}, where row is -1 if there is none; or null. */
    function aimOf(hash) {
      const text = decoded(hash.slice(1));
      const mode = modes.find(({key}) => text.startsWith(`${key}-`));
      if (!mode) return null;
      const name = text.slice(mode.key.length + 1);
      return {mode, name, row: mode.rowOf(name)};
    }

    /** Say in which components a row is, with links to them. */
    function tell({mode, name, row}, isShown) {
      const bold = document.createElement("b");
      bold.textContent = name;
      const parts = row < 0 ? [`There is no ${mode.word} `, bold, " on this page. "] : [
        `${mode.word[0].toUpperCase()}${mode.word.slice(1)} `, bold,
        ...placesIn(mode.componentsOf(row)),
        isShown ? "" : "The table is shown by blocks, so it is not framed there. "];
      const clear = document.createElement("button");
      clear.type = "button";
      clear.textContent = "Clear";
      clear.addEventListener("click", leave);
      panel.replaceChildren(...parts, clear);
    }

    function placesIn(components) {
      if (!components.length) return [" is in no component. "];
      const named = components.map((c) =>
        linkTo(`#component-${c + 1}`, `component ${naming.numbered(c + 1)}`));
      return [" is in ", ...named.flatMap((link, k) => (k ? [", ", link] : [link])), ". "];
    }

    /** Highlight a row, or none, in the table and on the cards. */
    function highlight(aim) {
      const is = (element, mode) => aim && aim.row >= 0 && modes[mode] === aim.mode &&
        Number(element.dataset.row) === aim.row;
      for (const card of document.querySelectorAll(".card")) {
        const has = aim && aim.row >= 0 && aim.mode.has(aim.row, Number(card.dataset.number) - 1);
        card.classList.toggle("has-found", Boolean(has));
      }
      for (const group of document.querySelectorAll(".card [data-mode]")) {
        for (const name of group.querySelectorAll("[data-row]")) {
          name.classList.toggle("found", Boolean(is(name, Number(group.dataset.mode))));
        }
      }
      return Boolean(table?.find(aim && aim.row >= 0 ? {mode: aim.mode, row: aim.row} : null));
    }

    /** Show what the address of the page names. */
    function follow() {
      const aim = aimOf(location.hash);
      const isShown = highlight(aim);
      panel.hidden = !aim;
      if (aim) {
        tell(aim, isShown);
        panel.focus({preventScroll: true});
        document.getElementById("table").scrollIntoView();
        return;
      }
      const target = document.getElementById(decoded(location.hash.slice(1)));
      if (!target?.classList.contains("card")) return;
      const fold = target.closest("details");
      if (fold) fold.open = true;
      target.focus({preventScroll: true});
      target.scrollIntoView();
    }

    function leave() {
      history.replaceState(null, "", location.pathname + location.search);
      highlight(null);
      panel.hidden = true;
      document.getElementById("find").focus({preventScroll: true});
    }

    panel.addEventListener("keydown", (event) => { if (event.key === "Escape") leave(); });
    window.addEventListener("hashchange", follow);
    document.addEventListener("click", (event) => { // following the same link again is no change
      const link = event.target.closest?.("a[href^='#']");
      if (link && link.getAttribute("href") === location.hash) follow();
    });
    for (const group of document.querySelectorAll(".card [data-mode]")) {
      const mode = modes[Number(group.dataset.mode)];
      if (!mode) continue;
      for (const name of group.querySelectorAll("[data-row]")) {
        name.replaceChildren(linkTo(to(mode, Number(name.dataset.row)), name.textContent));
      }
    }
    follow();
  }

  return {decoded, to, linkTo, open};
})();
