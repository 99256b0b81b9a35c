// Runs before the first paint: puts the kept or the system's theme on <html>, so nothing flashes.
import { applyTheme } from "./theme_choice.js";

document.documentElement.classList.add("js");
applyTheme();
