// <button data-copy="text"> or data-copy-from="#id": copies, shows a tick, tells screen readers.
import { say, word } from "./say.js";

const SHOWN_MS = 1600;

async function write(text) {
  if (navigator.clipboard && window.isSecureContext) {
    await navigator.clipboard.writeText(text);
    return;
  }
  // Plain HTTP on a machine of one's own has no clipboard API.
  const area = document.createElement("textarea");
  area.value = text;
  area.setAttribute("readonly", "");
  area.className = "sr-only";
  (document.querySelector("dialog[open]") ?? document.body).append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  if (!done) throw new Error("copying was refused");
}

function textOf(button) {
  const from = button.dataset.copyFrom && document.querySelector(button.dataset.copyFrom);
  return from ? (from.value ?? from.textContent).trim() : button.dataset.copy;
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy], [data-copy-from]");
  if (!button) return;
  try {
    await write(textOf(button));
    say(word("copied"));
    button.dataset.copied = "";
    setTimeout(() => { delete button.dataset.copied; }, SHOWN_MS);
    button.focus();
  } catch {
    say(word("copyFailed"));
  }
});
