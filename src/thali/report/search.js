// The search: names of rows, columns and components, as links to them.
"use strict";
const search = (() => {
  const MOST = 24; // results that are listed

  /** Return a name with the part that was looked for marked. */
  function marked(name, at, length) {
    const mark = document.createElement("mark");
    mark.textContent = name.slice(at, at + length);
    return [name.slice(0, at), mark, name.slice(at + length)];
  }

  /** Find a text in names; those that begin with it come first. `each` calls back with names. */
  function find(text, each) {
    const sought = text.toLowerCase(), first = [], later = [];
    each((name, href, about) => {
      const at = name.toLowerCase().indexOf(sought);
      if (at >= 0) (at ? later : first).push({name, at, href, about});
    });
    return [...first, ...later];
  }

  function open(modes, naming) {
    const form = document.getElementById("search"), input = document.getElementById("find");
    const panel = document.getElementById("results"), list = panel.querySelector("ul");
    // One for the eye, and one that screen readers read out, which must not be hidden before.
    const counts = [panel.querySelector("p"), form.querySelector("[role=status]")];

    /** Call back with everything that has a name. */
    function each(call) {
      for (const number of naming.numbers) {
        const name = naming.nameOf(number);
        call(name || `Component ${number}`, `#component-${number}`,
          () => (name ? `component ${number}` : ""));
      }
      for (const mode of modes) {
        for (let row = 0; mode.list && row < mode.size; row++) {
          call(mode.list[row], links.to(mode, row), () => about(mode, row));
        }
        const row = mode.list ? -1 : mode.rowOf(input.value.trim()); // numbers: only that one
        if (row >= 0) call(mode.nameOf(row), links.to(mode, row), () => about(mode, row));
      }
    }

    function about(mode, row) {
      const inside = mode.componentsOf(row).map((c) => naming.numbered(c + 1));
      const many = inside.length > 1 ? "components" : "component";
      return `${mode.word}, ${inside.length ? `${many} ${inside.join(", ")}` : "in no component"}`;
    }

    function update() {
      const text = input.value.trim();
      const results = text ? find(text, each) : [];
      list.replaceChildren(...results.slice(0, MOST).map(({name, at, href, about}) => {
        const line = document.createElement("li"), link = links.linkTo(href, "");
        const small = document.createElement("small");
        small.textContent = about();
        link.append(...marked(name, at, text.length), " ", small);
        line.append(link);
        return line;
      }));
      const n = results.length;
      const told = n > MOST ? `${n} names; these are the first ${MOST}.`
        : n === 1 ? "1 name" : n ? `${n} names` : "No name has these letters.";
      for (const count of counts) count.textContent = text ? told : "";
      panel.hidden = !text;
    }

    function close() {
      panel.hidden = true;
    }

    /** Move between the field and the results. */
    function step(by) {
      const stops = [input, ...list.querySelectorAll("a")];
      const at = stops.indexOf(document.activeElement) + by;
      stops[Math.max(0, Math.min(stops.length - 1, at))].focus();
    }

    input.addEventListener("input", update);
    input.addEventListener("focus", () => { if (input.value) update(); });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      list.querySelector("a")?.click();
    });
    form.addEventListener("keydown", (event) => {
      if (event.key === "ArrowDown") step(1);
      else if (event.key === "ArrowUp") step(-1);
      else if (event.key === "Escape" && !panel.hidden) {
        input.focus();
        close();
      } else return;
      event.preventDefault();
    });
    list.addEventListener("click", close);
    form.addEventListener("focusout", (event) => {
      if (!form.contains(event.relatedTarget)) close();
    });
  }

  return {open};
})();
