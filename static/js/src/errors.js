// What goes wrong on the way is said in words, with the id by which the operator finds it.
import { rememberFailure, showToast } from "./toasts.js";
import { word } from "./say.js";

const WORD = { 401: "signedOut", 403: "forbidden", 404: "gone", 413: "tooLarge", 429: "tooMany" };

const isQuiet = (ctx) => ctx?.sourceElement?.closest?.("[data-live], [data-quiet]") != null;
const expects = (ctx, status) =>
  [...(ctx.sourceElement?.attributes ?? [])].some(({ name }) => name.startsWith(`hx-status:${String(status)[0]}`));
const isOurs = (status) => status >= 500 || status in WORD;

document.addEventListener("htmx:before:swap", (event) => {
  const { ctx } = event.detail;
  const status = ctx.response?.status ?? 200;
  if (isOurs(status) && !expects(ctx, status)) event.preventDefault(); // no error page inside a page
});
document.addEventListener("htmx:response:error", ({ detail: { ctx } }) => {
  const { status, headers } = ctx.response;
  rememberFailure(headers.get("X-Request-Id") ?? "");
  if (!isOurs(status) || ctx.hx?.trigger || ctx.hx?.redirect || isQuiet(ctx)) return;
  const level = status >= 500 ? "bad" : "warn";
  const requestId = status >= 500 ? headers.get("X-Request-Id") ?? "" : "";
  showToast({ text: word(WORD[status] ?? "serverError"), level, request_id: requestId });
});
document.addEventListener("htmx:error", ({ detail: { ctx, error } }) => {
  if (!ctx || ctx.response || isQuiet(ctx)) return; // the answer is here: another's fault
  const late = ctx.request?.signal?.reason === "timeout" || error?.name === "TimeoutError";
  showToast({ text: word(late ? "timedOut" : "offline"), level: "bad" });
});
