// Wide tables and code scroll sideways; the keyboard must reach them.
document.addEventListener("DOMContentLoaded", () => {
  for (const part of document.querySelectorAll(".bd-article table, .highlight pre, .sphx-glr-script-out pre")) {
    part.tabIndex = 0;
  }
});
