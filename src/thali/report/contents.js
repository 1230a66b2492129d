// The contents at the top follow the reader: the section that is being read is marked there.
"use strict";
function followReader() {
  const nav = document.querySelector(".top nav"), entries = [...nav.querySelectorAll("a")];
  const sections = entries.map((link) => document.getElementById(link.hash.slice(1)));
  let isWaiting = false;

  function mark() {
    isWaiting = false;
    const line = window.innerHeight / 3; // a section is being read once it begins above this line
    const bottom = window.scrollY + window.innerHeight;
    const isEnd = window.scrollY > 0 && bottom >= document.documentElement.scrollHeight - 2;
    const above = sections.filter((part) => part.getBoundingClientRect().top <= line);
    const now = isEnd ? sections.length - 1 : above.length - 1;
    for (const [at, link] of entries.entries()) {
      if (at !== now) link.removeAttribute("aria-current");
      else if (!link.hasAttribute("aria-current")) {
        link.setAttribute("aria-current", "true");
        nav.scrollLeft = link.offsetLeft - nav.clientWidth / 3; // on a phone not all are visible
      }
    }
  }

  const later = () => {
    if (!isWaiting) requestAnimationFrame(mark);
    isWaiting = true;
  };
  window.addEventListener("scroll", later, {passive: true});
  window.addEventListener("resize", later);
  mark();
}
