// Menus (Alpine): <div x-data="menu"> with a button x-bind="button" and a box x-bind="box".
import Alpine from "@alpinejs/csp";

Alpine.data("menu", () => ({
  open: false,
  button: {
    ["@click"]() { this.open = !this.open; },
    [":aria-expanded"]() { return String(this.open); },
  },
  box: {
    ["x-show"]() { return this.open; },
    ["@click.outside"]() { this.open = false; },
    ["@keydown.escape.window"]() {
      if (!this.open) return;
      this.open = false;
      this.$root.querySelector("[aria-expanded]").focus();
    },
    ["@focusout"](event) {
      if (event.relatedTarget && !this.$root.contains(event.relatedTarget)) this.open = false;
    },
  },
}));
