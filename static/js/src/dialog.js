// The one dialog: opens when htmx puts something into #dialog-body, closes by Esc, by a click on
// the backdrop, by [data-close-dialog] and by `HX-Trigger: close-dialog`. Focus goes back to
// whatever opened it. Other <dialog> elements open by [data-open-dialog="#id"].
const dialog = () => document.getElementById("dialog");
let opener = null;

function label(sheet) {
  const title = sheet.querySelector("[data-dialog-title]");
  if (title) {
    title.id ||= `${sheet.id}-title`;
    sheet.setAttribute("aria-labelledby", title.id);
  }
}

export function openSheet(sheet, from = document.activeElement) {
  label(sheet);
  if (sheet.open) return;
  opener = from;
  sheet.showModal();
  sheet.querySelector("[autofocus]")?.focus();
}

function whenClosed(sheet) {
  if (sheet.id === "dialog") document.getElementById("dialog-body").replaceChildren();
  // The row that opened it may have been swapped meanwhile: its successor has the same id.
  const back = opener?.isConnected ? opener : opener?.id && document.getElementById(opener.id);
  opener = null;
  if (back && back !== document.body) back.focus();
}

document.addEventListener("htmx:before:request", (event) => {
  const { ctx } = event.detail;
  if (ctx.target?.id === "dialog-body" && !dialog().open) opener = ctx.sourceElement;
});
document.addEventListener("htmx:after:swap", (event) => {
  const body = document.getElementById("dialog-body");
  if (event.detail.ctx.target?.id !== "dialog-body" || !body.childElementCount) return;
  const sheet = dialog();
  if (!sheet.open) openSheet(sheet, opener ?? document.activeElement);
  label(sheet);
  (body.querySelector("[aria-invalid=true]") ?? body.querySelector("[autofocus]"))?.focus();
});
document.addEventListener("close-dialog", () => dialog()?.close());
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-open-dialog]");
  if (button) openSheet(document.querySelector(button.dataset.openDialog), button);
  if (event.target.closest("[data-close-dialog]")) event.target.closest("dialog")?.close();
  if (event.target.matches("dialog.sheet")) event.target.close(); // the backdrop
});
for (const sheet of document.querySelectorAll("dialog.sheet")) {
  sheet.addEventListener("close", () => whenClosed(sheet));
}
