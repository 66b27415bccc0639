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

// The review page has the colours of the system. On the front page, it follows the theme that is chosen for the site.
document.addEventListener("DOMContentLoaded", () => {
  const site = document.documentElement;
  for (const frame of document.querySelectorAll("iframe.live-review")) {
    let dark = [];  // the rules of the page for dark colours
    const follow = () => {
      const chosen = site.dataset.theme === "dark";
      for (const rule of dark) {
        rule.media.mediaText = chosen ? "all" : "not all";
      }
      frame.contentDocument.documentElement.style.colorScheme = chosen ? "dark" : "light";
    };
    const start = () => {
      const rules = [...frame.contentDocument.styleSheets].flatMap((sheet) => [...sheet.cssRules]);
      dark = rules.filter((rule) => rule.media?.mediaText.includes("prefers-color-scheme: dark"));
      follow();
    };
    frame.addEventListener("load", start);
    if (frame.contentDocument?.styleSheets.length) {
      start();
    }
    new MutationObserver(follow).observe(site, { attributeFilter: ["data-theme"] });
  }
});
