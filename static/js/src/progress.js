// The thin line on top while requests of a person are under way; live refreshes do not show it.
let running = 0;

const isQuiet = (ctx) => ctx.sourceElement?.closest?.("[data-live], [data-quiet]") != null;

function show() {
  const line = document.getElementById("progress");
  if (!line) return;
  line.classList.toggle("is-busy", running > 0);
  line.classList.toggle("is-done", running === 0);
}

document.addEventListener("htmx:before:request", ({ detail: { ctx } }) => {
  if (isQuiet(ctx)) return;
  ctx.shown = true;
  running += 1;
  show();
});
document.addEventListener("htmx:finally:request", ({ detail: { ctx } }) => {
  if (!ctx.shown) return;
  running -= 1;
  show();
});
