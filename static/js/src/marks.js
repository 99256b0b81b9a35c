// The marks of a list (<form data-marks>): "mark all", how many are marked, and the buttons that
// need one. A row that is swapped keeps its mark by its own request; here it is only counted.
const forms = () => document.querySelectorAll("form[data-marks]");
const boxes = (form) => [...form.querySelectorAll("[data-mark]:not(:disabled)")];

function count(form) {
  const all = boxes(form);
  const n = all.filter((box) => box.checked).length;
  const head = form.querySelector("[data-mark-all]");
  const words = form.querySelector("[data-marked-words]");
  if (!head || !words) return;
  head.checked = n > 0 && n === all.length;
  head.indeterminate = n > 0 && n < all.length;
  head.disabled = all.length === 0;
  const text = n ? words.dataset.some.replace("{n}", n) : words.dataset.none;
  if (words.textContent !== text) words.textContent = text;
  for (const button of form.querySelectorAll("[data-needs-mark]")) button.disabled = n === 0;
}

const countAll = () => forms().forEach(count);

document.addEventListener("change", (event) => {
  const form = event.target.closest("form[data-marks]");
  if (!form) return;
  if (event.target.matches("[data-mark-all]")) {
    for (const box of boxes(form)) box.checked = event.target.checked;
  }
  count(form);
});
document.addEventListener("unmark", () => {
  for (const form of forms()) for (const box of boxes(form)) box.checked = false;
  countAll();
});
document.addEventListener("htmx:after:swap", countAll);
document.addEventListener("htmx:finally:request", countAll); // a button that was busy is not free
countAll();
