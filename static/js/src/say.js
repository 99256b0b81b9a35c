// Words for people come from the page: <template id="words" data-copied="…">; `{x}` is filled in.
// Screen readers hear them through the polite region #said.
export function word(name, values = {}) {
  const text = document.getElementById("words")?.dataset[name] ?? name;
  return text.replace(/\{(\w+)\}/g, (whole, key) => values[key] ?? whole);
}

export function say(text) {
  const region = document.getElementById("said");
  if (!region) return;
  region.textContent = "";
  requestAnimationFrame(() => { region.textContent = text; });
}
