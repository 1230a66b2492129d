// Everything on the page that moves is started here.
"use strict";
(async () => {
  followReader();
  openCards();
  naming.open();
  const payload = JSON.parse(document.getElementById("payload").textContent);
  const modes = await factors.load(payload);
  downloads.open(modes, naming);
  search.open(modes, naming);
  const root = document.getElementById("view");
  const view = await openView(root, payload, modes);
  const table = view && control(root, view, describing(view, naming.numbered));
  links.open(modes, table, naming);
})();
