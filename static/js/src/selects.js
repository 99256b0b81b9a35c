// <select data-go>: choosing an option goes to the address in its value (tenant switcher on a phone).
document.addEventListener("change", (event) => {
  if (event.target.matches("select[data-go]") && event.target.value) location.assign(event.target.value);
  if (event.target.matches("[data-submit-on-change]")) event.target.form.requestSubmit();
});
