// A button that was pressed is busy until the answer is here: nobody sends a form twice.
// Works for htmx and for plain forms; a page that comes back from the cache is free again.
const busy = new Set();

function hold(button) {
  if (!button || button.hasAttribute("data-never-busy")) return;
  button.setAttribute("aria-busy", "true");
  button.disabled = true;
  busy.add(button);
}

function free(button) {
  button.removeAttribute("aria-busy");
  button.disabled = false;
  busy.delete(button);
}

function buttonOf(ctx) {
  const submitter = ctx.request.submitter ?? ctx.sourceElement;
  if (submitter?.matches?.("button")) return submitter;
  return submitter?.matches?.("form") && ctx.request.method !== "GET"
    ? submitter.querySelector("button[type=submit]") : null;
}

document.addEventListener("htmx:before:request", ({ detail: { ctx } }) => {
  ctx.held = buttonOf(ctx);
  hold(ctx.held);
});
document.addEventListener("htmx:finally:request", ({ detail: { ctx } }) => {
  // A redirect is under way: free at once would invite a second press.
  if (ctx.held && !ctx.hx?.redirect) free(ctx.held);
});
document.addEventListener("submit", (event) => {
  if (event.defaultPrevented || event.target.method === "dialog") return;
  const button = event.submitter;
  // After the browser has read the form: a disabled button would not send its value.
  setTimeout(() => { if (!event.defaultPrevented) hold(button); });
});
addEventListener("pageshow", (event) => {
  if (event.persisted) busy.forEach(free);
});
