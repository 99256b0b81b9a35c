/* The operator's pages.

   Copy buttons: <button data-copy="#id-of-what-to-copy">. */
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const source = document.querySelector(button.dataset.copy);
  const said = button.querySelector("[data-copied]");
  try {
    await navigator.clipboard.writeText(source.textContent);
    said.textContent = button.dataset.done;
  } catch {
    /* No clipboard without HTTPS: select the text, so that the keyboard can copy it. */
    getSelection().selectAllChildren(source);
    said.textContent = button.dataset.selected;
  }
});

/* A rise is announced ahead: <form data-rise-of="price" data-rises-above="4.9" data-rise-from="…"> puts
   the earliest moment into the empty field, and takes it away again when it is no rise any more. */
document.addEventListener("input", (event) => {
  const form = event.target.form;
  if (!form || event.target.name !== form.dataset.riseOf) return;
  const { risesAbove, riseFrom } = form.dataset;
  const moment = form.elements.effective_at;
  const isRise = Number(event.target.value.replaceAll(",", "")) > Number(risesAbove);
  if (isRise && !moment.value) moment.value = riseFrom;
  else if (!isRise && moment.value === riseFrom) moment.value = "";
});
