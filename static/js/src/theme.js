// <button data-theme-pick="light|dark|system">: switches the theme and marks what is chosen.
import { applyTheme, chooseTheme, chosenTheme, whenSystemChanges } from "./theme_choice.js";

function mark() {
  for (const button of document.querySelectorAll("[data-theme-pick]")) {
    button.setAttribute("aria-pressed", String(button.dataset.themePick === chosenTheme()));
  }
}

export function pickTheme(choice) {
  chooseTheme(choice);
  mark();
  document.dispatchEvent(new CustomEvent("theme-changed")); // charts take their colours anew
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-theme-pick]");
  if (button) pickTheme(button.dataset.themePick);
});
whenSystemChanges(() => {
  applyTheme();
  document.dispatchEvent(new CustomEvent("theme-changed"));
});
mark();
