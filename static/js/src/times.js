// <time datetime data-ago>: "3 minutes ago", kept true while the page is open.
// <span data-updated-at="ISO">: the same for "last updated …".
import { word } from "./say.js";

const STEPS = [[60, "second", 1], [3600, "minute", 60], [86400, "hour", 3600], [2592000, "day", 86400], [31536000, "month", 2592000], [Infinity, "year", 31536000]];
const EVERY_MS = 5000;
const lang = document.documentElement.lang || "en";
// As the server says it (rental/web/amounts.py): in Chinese the long form has other words, and no form a space.
const isChinese = lang.startsWith("zh");
const format = new Intl.RelativeTimeFormat(lang, { numeric: "always", style: isChinese ? "short" : "long" });

export function ago(moment, now = Date.now()) {
  const seconds = Math.round((moment - now) / 1000);
  if (seconds === 0) return word("now");
  const [, unit, size] = STEPS.find(([limit]) => Math.abs(seconds) < limit);
  const text = format.format(Math.trunc(seconds / size), unit);
  return isChinese ? text.replace(/^\d+/, "$& ") : text;
}

export function refreshTimes(root = document) {
  for (const element of root.querySelectorAll("[data-ago], [data-updated-at]")) {
    const text = ago(Date.parse(element.dateTime || element.dataset.updatedAt));
    if (element.textContent !== text) element.textContent = text;
  }
}

setInterval(() => { if (!document.hidden) refreshTimes(); }, EVERY_MS);
document.addEventListener("visibilitychange", () => { if (!document.hidden) refreshTimes(); });
document.addEventListener("htmx:after:swap", () => refreshTimes());
refreshTimes();
