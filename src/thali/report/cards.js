// The order of the cards. Those after the first few are folded away, whatever the order.
"use strict";
function openCards() {
  const sort = document.getElementById("sort");
  const [shown, folded] = document.querySelectorAll("#components .cards");
  if (!sort || !shown) return;
  const cards = [...document.querySelectorAll(".card")], nShown = shown.children.length;
  const value = (card, key) => Number(card.dataset[key]) * (key === "number" ? 1 : -1);

  function order() {
    const by = (a, b) => value(a, sort.value) - value(b, sort.value) ||
      value(a, "number") - value(b, "number");
    const sorted = [...cards].sort(by);
    shown.replaceChildren(...sorted.slice(0, nShown));
    folded?.replaceChildren(...sorted.slice(nShown));
  }

  sort.addEventListener("change", order);
  if (sort.value !== "size") order(); // browsers remember what was chosen when a page is reloaded
}
