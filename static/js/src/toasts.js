// Toasts: from `HX-Trigger: {"toast": {text, level, request_id}}`, from Django's messages that the
// page brought along (<template data-toast>), and from other behaviours by showToast().
import { word } from "./say.js";

const STAYS_MS = { ok: 5000, info: 6000, warn: 10000 }; // errors stay until they are closed
const HELD_MS = 15000; // after the last move over it: a pointer may lie there by chance, and a finger never leaves
const TONES = ["ok", "info", "warn", "bad"];
const LEVELS = { success: "ok", error: "bad", warning: "warn", debug: "info" };

function close(card) {
  card.remove();
}

export function showToast({ text, level = "info", request_id: requestId = "" }) {
  const region = document.getElementById("toasts");
  if (!region || !text) return;
  const tone = LEVELS[level] ?? (TONES.includes(level) ? level : "info");
  const card = document.getElementById("toast-card").content.firstElementChild.cloneNode(true);
  card.classList.add(`tone-${tone}`);
  card.dataset.level = tone;
  for (const icon of card.querySelectorAll("[data-icon]")) icon.hidden = icon.dataset.icon !== tone;
  card.querySelector("[data-text]").textContent = text;
  const note = card.querySelector("[data-note]");
  note.textContent = requestId ? word("requestId", { id: requestId }) : "";
  note.hidden = !requestId;
  card.querySelector("button").addEventListener("click", () => close(card));
  region.append(card);
  while (region.children.length > 4) region.firstElementChild.remove();
  if (STAYS_MS[tone]) keepAWhile(card, STAYS_MS[tone]);
}

function keepAWhile(card, stays) {
  let timer;
  const wait = (ms) => { clearTimeout(timer); timer = setTimeout(close, ms, card); };
  for (const name of ["pointermove", "focusin"]) card.addEventListener(name, () => wait(HELD_MS));
  for (const name of ["pointerleave", "focusout"]) card.addEventListener(name, () => wait(stays));
  wait(stays);
}

// A refusal that the server words itself carries no id; the answer's header does.
let failedId = "";
export function rememberFailure(requestId) {
  failedId = requestId;
}

document.addEventListener("toast", (event) => {
  for (const one of [event.detail ?? {}].flat()) {
    const toast = "value" in one ? { text: one.value } : one;
    showToast(toast.level === "bad" ? { request_id: failedId, ...toast } : toast);
  }
  failedId = "";
});
for (const message of document.querySelectorAll("template[data-toast]")) {
  showToast({ text: message.dataset.toast, level: message.dataset.level });
}
