// `/` to the search field, `g` and a letter to a page (<a data-key="g i">), `?` the list of keys.
// Ctrl/Cmd-K is the palette's. Nothing happens while somebody types.
import { openSheet } from "./dialog.js";

const PAIR_MS = 1200;
let first = "";
let timer = 0;

const isTyping = (target) => target.isContentEditable || target.matches("input:not([type=checkbox], [type=radio]), textarea, select");

function goTo(keys) {
  const link = document.querySelector(`a[data-key="${CSS.escape(keys)}"]`);
  if (link) link.click();
  return link != null;
}

function toSearch() {
  const field = document.querySelector("[data-search]");
  if (field) field.focus();
  else document.dispatchEvent(new CustomEvent("open-palette"));
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || isTyping(event.target)) return;
  if (document.querySelector("dialog[open]")) return;
  clearTimeout(timer);
  if (first) {
    const keys = `${first} ${event.key}`;
    first = "";
    if (goTo(keys)) event.preventDefault();
  } else if (event.key === "g") {
    first = "g";
    timer = setTimeout(() => { first = ""; }, PAIR_MS);
  } else if (event.key === "/") {
    event.preventDefault();
    toSearch();
  } else if (event.key === "?") {
    const help = document.getElementById("keys");
    if (help) openSheet(help);
  }
});
