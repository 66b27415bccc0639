// Wide tables and code scroll sideways; the keyboard must reach them. Links and toggles without visible text get a name.
document.addEventListener("DOMContentLoaded", () => {
  for (const part of document.querySelectorAll(".bd-article table, .highlight pre, .sphx-glr-script-out pre")) {
    part.tabIndex = 0;
  }
  for (const link of document.querySelectorAll(".sphx-glr-thumbcontainer a")) {
    link.setAttribute("aria-label", link.textContent);
  }
  for (const toggle of document.querySelectorAll(".bd-sidebar-primary summary")) {
    toggle.setAttribute("aria-label", `Pages of ${toggle.closest("li").querySelector("a").textContent.trim()}`);
  }
});
