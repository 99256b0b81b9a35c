// The launch page. The price that is shown is always for the fields that are shown: until the answer for
// the present fields is here, the old price is dimmed and the button is off, whatever arrives late.
const PRICED = ["offer", "image", "count", "stop", "stop_after", "stop_at"];
const PAUSE_MS = 250;
const RENEW_MS = 6 * 60 * 1000; // a quote lasts ten minutes; a page left open keeps a fresh one

const theForm = () => document.querySelector("form[data-launch]");
let timer;
let openSnippet = ""; // which text stays open when the price is drawn anew
let isTextOld = false;

// The server writes the same text (LaunchForm.stands_for).
function standsFor(form) {
  const fields = new FormData(form);
  return PRICED.map((name) => fields.get(name) ?? "").join("\n");
}

// Dims a price of other fields; says whether the present one is shown.
function compare(form) {
  const box = form.querySelector("[data-estimate]");
  if (!box) return false;
  const isPresent = box.dataset.standsFor.replaceAll("\r", "") === standsFor(form);
  box.classList.toggle("is-stale", !isPresent);
  box.querySelector("[data-estimate-wait]").hidden = isPresent;
  const button = box.querySelector("[data-launch-button]");
  if (!button.hasAttribute("aria-busy")) button.disabled = !isPresent || box.dataset.canLaunch !== "1";
  return isPresent;
}

function ask(form) {
  isTextOld = false;
  form.querySelector("#estimate").dispatchEvent(new CustomEvent("estimate", { bubbles: false }));
}

function later(form, wait) {
  clearTimeout(timer);
  timer = setTimeout(() => { if (form.isConnected) ask(form); }, wait);
}

function chooseCard(form, slug) {
  for (const panel of form.querySelectorAll("[data-panel]")) panel.hidden = panel.dataset.panel !== slug;
  const panel = form.querySelector(`[data-panel="${CSS.escape(slug)}"]`);
  if (!panel || panel.querySelector("[name=offer]:checked")) return;
  const first = panel.querySelector("[name=offer]");
  if (first) first.checked = true;
}

function showImages(form) {
  const card = form.querySelector("[data-card]:checked")?.value;
  const words = form.querySelector("[data-image-search]").value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const group of form.querySelectorAll("[data-image-group]")) {
    let inGroup = 0;
    for (const image of group.querySelectorAll("[data-image]")) {
      const runs = !card || image.dataset.cards.split(" ").includes(card);
      const isMeant = words.every((word) => image.dataset.words.includes(word));
      const radio = image.querySelector("input");
      if (radio.checked && !runs) {
        radio.checked = false;
        form.querySelector("[data-image-lost]").hidden = false;
      }
      image.hidden = !(runs && isMeant) && !radio.checked;
      inGroup += image.hidden ? 0 : 1;
    }
    group.hidden = inGroup === 0;
    shown += inGroup;
  }
  form.querySelector("[data-image-none]").hidden = shown > 0;
}

// The list scrolls by itself; the page must not.
function showChosenImage(form) {
  const image = form.querySelector("[name=image]:checked")?.closest("[data-image]");
  const list = image?.closest(".image-list");
  if (list) list.scrollTop = image.offsetTop - list.clientHeight / 3;
}

function warnOfNoAccess(form) {
  const fields = new FormData(form);
  const isOpen = fields.has("password_login") || fields.getAll("ssh_keys").length > 0 || fields.get("new_key")?.trim();
  form.querySelector("[data-no-access]").hidden = Boolean(isOpen);
}

function changed(event) {
  const form = event.target.closest?.("form[data-launch]");
  if (!form) return;
  const { target } = event;
  if (target.matches("[data-image-search]")) { showImages(form); return; }
  if (target.matches("[data-card]")) { chooseCard(form, target.value); showImages(form); }
  if (target.matches("[name=image]")) form.querySelector("[data-image-lost]").hidden = true;
  if (target.dataset.stop) form.querySelector(`[name=stop][value="${target.dataset.stop}"]`).checked = true;
  warnOfNoAccess(form);
  isTextOld = true; // drawn anew with the next price, or when somebody opens it
  if (!compare(form) || openSnippet) later(form, event.type === "change" ? 0 : PAUSE_MS);
}

function prepare() {
  const form = theForm();
  if (!form || form.dataset.isPrepared) return;
  form.dataset.isPrepared = "1";
  const offer = form.querySelector("[name=offer]:checked");
  const slug = offer?.closest("[data-panel]").dataset.panel;
  const card = slug && form.querySelector(`[data-card][value="${CSS.escape(slug)}"]`);
  if (card) { card.checked = true; chooseCard(form, slug); } // a browser that came back may have kept other choices
  showImages(form);
  showChosenImage(form);
  warnOfNoAccess(form);
  if (!compare(form)) ask(form);
}

document.addEventListener("toggle", ({ target }) => {
  if (!target.matches?.("[data-snippet]") || !target.isConnected) return;
  if (target.open) openSnippet = target.dataset.snippet;
  else if (openSnippet === target.dataset.snippet) openSnippet = "";
  if (target.open && isTextOld) ask(target.closest("form"));
}, true);

document.addEventListener("input", changed);
document.addEventListener("change", changed);
document.addEventListener("htmx:after:swap", () => {
  prepare();
  const form = theForm();
  if (!form) return;
  if (openSnippet) form.querySelector(`[data-snippet="${openSnippet}"]`)?.setAttribute("open", "");
  compare(form);
});
document.addEventListener("htmx:finally:request", () => { const form = theForm(); if (form) setTimeout(() => compare(form)); });
document.addEventListener("submit", (event) => {
  const { target } = event;
  if (!target.matches?.("form[data-launch]") || compare(target)) return;
  event.preventDefault(); // Enter in a field, before the price of the present fields is shown
  event.stopImmediatePropagation();
}, true);
addEventListener("pageshow", prepare);
setInterval(() => { const form = theForm(); if (form && !document.hidden) ask(form); }, RENEW_MS);
prepare();
