// Which theme is in force: what the reader chose, else what the system says.
const KEY = "tessera-theme";
const DARK = matchMedia("(prefers-color-scheme: dark)");

export function chosenTheme() {
  try {
    return localStorage.getItem(KEY) ?? "system";
  } catch {
    return "system"; // storage is forbidden; the system's choice is as good
  }
}

export function applyTheme() {
  const choice = chosenTheme();
  const dark = choice === "dark" || (choice === "system" && DARK.matches);
  document.documentElement.dataset.theme = dark ? "tessera-dark" : "tessera";
  document.documentElement.dataset.themeChoice = choice;
}

export function chooseTheme(choice) {
  try {
    if (choice === "system") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, choice);
  } catch {
    // not kept; applied to this page all the same
  }
  applyTheme();
}

export function whenSystemChanges(act) {
  DARK.addEventListener("change", act);
}
