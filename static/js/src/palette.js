// The command palette (Ctrl/Cmd-K): pages, actions, and instances by name. Entries come from
// #palette [role=option]; a page that knows more gives data-source, which htmx asks while typing.
import { openSheet } from "./dialog.js";
import { say, word } from "./say.js";

const sheet = document.getElementById("palette");

if (sheet) {
  const field = sheet.querySelector("input");
  const list = sheet.querySelector("[role=listbox]");
  const none = sheet.querySelector("[data-none]");
  const options = () => [...list.querySelectorAll("[role=option]")];
  const shown = () => options().filter((option) => !option.hidden);

  const mark = (wanted) => {
    for (const option of options()) option.setAttribute("aria-selected", String(option === wanted));
    field.setAttribute("aria-activedescendant", wanted?.id ?? "");
    wanted?.scrollIntoView({ block: "nearest" });
  };
  const current = () => list.querySelector("[aria-selected=true]:not([hidden])");

  const filter = () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const option of options()) {
      const text = `${option.textContent} ${option.dataset.words ?? ""}`.toLowerCase();
      option.hidden = !option.matches("[data-found]") && !words.every((part) => text.includes(part));
    }
    for (const group of list.querySelectorAll("[role=group]")) {
      group.hidden = !group.querySelector("[role=option]:not([hidden])");
    }
    none.hidden = shown().length > 0;
    mark(shown()[0]);
    if (field.value) say(word("found", { n: shown().length }));
  };

  const move = (by) => {
    const all = shown();
    if (all.length) mark(all[(all.indexOf(current()) + by + all.length) % all.length]);
  };
  const choose = (option) => {
    if (!option) return;
    sheet.close();
    if (option.dataset.href) location.assign(option.dataset.href);
    else document.querySelector(option.dataset.click)?.click();
  };

  const open = () => {
    field.value = "";
    openSheet(sheet);
    filter();
    field.focus();
  };

  field.addEventListener("input", filter);
  field.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      move(event.key === "ArrowDown" ? 1 : -1);
    } else if (event.key === "Enter") {
      event.preventDefault();
      choose(current());
    }
  });
  list.addEventListener("click", (event) => choose(event.target.closest("[role=option]")));
  sheet.addEventListener("htmx:after:swap", filter);
  document.addEventListener("open-palette", open);
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-open-palette]")) open();
  });
  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      if (sheet.open) sheet.close();
      else if (!document.querySelector("dialog[open]")) open();
    }
  });
}
