// Names that readers give to components. They are kept in the file of the page when it is saved.
"use strict";
const naming = (() => {
  // The page as it came, before any script changes it: what is saved is this, with names.
  const SOURCE = document.documentElement.outerHTML;
  const LONGEST = 80; // letters of a name

  // Characters that turn the direction of text, or control a device, would mislead other readers.
  const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
  const clean = (text) => [...text.replace(/\s+/g, " ").replace(UNSEEN, "").trim()]
    .slice(0, LONGEST).join("");

  const numbers = [...document.querySelectorAll(".card")].map((card) => card.dataset.number);
  const names = new Map(); // by number of the component, as a text
  let isSaved = true;

  const nameOf = (number) => names.get(String(number)) ?? "";
  const numbered = (number) => (nameOf(number) ? `${number} (${nameOf(number)})` : `${number}`);

  /** Read the names in the page; what is no name is left out. */
  function read() {
    let stored = {};
    try {
      stored = JSON.parse(document.getElementById("names").textContent) ?? {};
    } catch {
      return; // somebody changed the file by hand: the page has no names then
    }
    for (const number of numbers) {
      const name = Object.hasOwn(stored, number) ? stored[number] : "";
      if (typeof name === "string" && clean(name)) names.set(number, clean(name));
    }
  }

  /** Show the names in a document: this one, or the one that is being saved. */
  function show(page) {
    for (const card of page.querySelectorAll(".card")) {
      card.querySelector(".given").textContent = nameOf(card.dataset.number);
    }
    for (const link of page.querySelectorAll("a[data-to]")) {
      link.textContent = `component ${numbered(link.dataset.to)}`;
    }
  }

  function save() {
    const page = new DOMParser().parseFromString(SOURCE, "text/html");
    const stored = JSON.stringify(Object.fromEntries(names)).replaceAll("<", "\\u003c");
    page.getElementById("names").textContent = stored;
    show(page);
    const file = links.decoded(location.pathname.split("/").pop()) || "report.html";
    const text = `<!doctype html>\n${page.documentElement.outerHTML}\n`;
    downloads.offer([text], file, "text/html;charset=utf-8");
    isSaved = true;
    tell("The saved file has all names.");
  }

  const tell = (text) => { document.getElementById("save-state").textContent = text; };

  function rename(number, text) {
    const name = clean(text);
    if (name === nameOf(number)) return;
    if (name) names.set(number, name);
    else names.delete(number);
    isSaved = false;
    show(document);
    tell("The new names are not saved yet.");
  }

  /** Put a field below the heading of a card; Enter keeps what is in it, Escape does not. */
  function edit(card, button) {
    const {number} = card.dataset, already = card.querySelector(".rename input");
    if (already) return already.focus();
    const form = document.createElement("form"), input = document.createElement("input");
    const keep = document.createElement("button");
    form.className = "rename";
    input.value = nameOf(number);
    input.maxLength = LONGEST;
    input.autocomplete = "off";
    input.placeholder = `Component ${number}`;
    input.setAttribute("aria-label", `Name of component ${number}`);
    keep.textContent = "Keep";
    form.append(input, keep);
    button.closest("header").append(form);
    input.select();
    const close = () => {
      form.remove();
      button.focus();
    };
    form.addEventListener("keydown", (event) => { if (event.key === "Escape") close(); });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      rename(number, input.value);
      close();
    });
  }

  function open() {
    read();
    show(document);
    for (const card of document.querySelectorAll(".card")) {
      const button = card.querySelector("button.name");
      button.addEventListener("click", () => edit(card, button));
    }
    document.getElementById("save")?.addEventListener("click", save);
    window.addEventListener("beforeunload", (event) => { if (!isSaved) event.preventDefault(); });
  }

  return {open, nameOf, numbered, numbers};
})();
