/* Copy buttons of the operator's pages: <button data-copy="#id-of-what-to-copy">. */
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
