// Entry: every behaviour of the console, one a file. Each attaches itself by attributes in the HTML.
import "htmx.org";
import Alpine from "@alpinejs/csp";
import "./theme.js";
import "./toasts.js";
import "./errors.js";
import "./progress.js";
import "./pending.js";
import "./reveal.js";
import "./copy.js";
import "./dialog.js";
import "./keyboard.js";
import "./palette.js";
import "./menus.js";
import "./marks.js";
import "./selects.js";
import "./launch.js";
import "./times.js";
import "./live.js";
import "./charts.js";

window.Alpine = Alpine;
Alpine.start();
