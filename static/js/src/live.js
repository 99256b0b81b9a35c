// Keeps what a page shows up to date. One WebSocket says which rows changed; where it cannot, the
// page asks every five seconds. #live-banner has the addresses: data-live-url (socket), data-poll.
//
// <tr data-live="ins_…" data-version="7" hx-get="…" hx-trigger="live">: fetched anew when a newer
// version was heard of. Without a version: data-live="*" when anything of the tenant changed,
// data-live="+" when a row changed that the page does not show: a list fetches new ones so.
import { banner, leave, Retry } from "./live_parts.js";

const POLL_MS = 5000; // while there is no socket, or it says that it hears nothing itself
const SWEEP_MS = 60000; // while there is one: it could have missed something
const SILENCE_MS = 50000; // the server beats every 20 s
const AGAIN_MS = 5000; // between two fetches of one element that bring nothing newer
const WIDE_MS = { "*": 2000, "+": 5000 }; // between two fetches of an element without a version
const STUCK_MS = 25000; // htmx gives up after 20 s
const HIDDEN_MS = 15000; // a hidden tab gives its socket back after this
const GONE = new Set([4401, 4403, 4404]); // signed out, other rights, no member any more
const TOO_MANY = 4429;

const place = document.getElementById("live-banner");
const heard = new Map(); // id -> newest version that was told
const fetching = new Map(); // element -> {began, isOver}
const charts = new Map(); // id -> function of new points
const wide = { "*": { began: 0 }, "+": { began: 0 } }; // when it was fetched last, the timer of the next
const delayed = { rows: false, samples: false };
const retry = new Retry();
let socket = null;
let watched = "";
let dialTimer, pollTimer, silenceTimer, hideTimer, lookTimer;
let isAsking = false;
let wasLost = false;

const shown = () => [...document.querySelectorAll("[data-live]")];
const isWide = (element) => element.dataset.live in WIDE_MS;
const idsShown = () => [...new Set(shown().filter((e) => !isWide(e)).map((e) => e.dataset.live))];
const isOpen = () => socket?.readyState === 1; // not WebSocket.OPEN: there may be no WebSocket
const isLate = () => !isOpen() || delayed.rows || delayed.samples;
const jitter = (ms) => ms * (0.8 + 0.4 * Math.random());

// --- what was heard, and what it means for the page

function hear(versions) {
  const news = new Set();
  for (const [id, version] of Object.entries(versions)) {
    const onPage = shown().filter((e) => e.dataset.live === id).map((e) => Number(e.dataset.version));
    const before = heard.get(id) ?? (onPage.length ? Math.min(...onPage) : -1);
    if (version > before) news.add("*").add(onPage.length ? "*" : "+");
    if (version > (heard.get(id) ?? -1)) heard.set(id, version);
  }
  freshen();
  news.forEach(freshenWide);
}

function isBehind(element) {
  const version = heard.get(element.dataset.live);
  return version !== undefined && version > Number(element.dataset.version);
}

function fetchAnew(element) {
  fetching.set(element, { began: Date.now(), isOver: false });
  element.dispatchEvent(new CustomEvent("live")); // not to its parents: they have versions of their own
}

function isTooSoon(element, pause) {
  const last = fetching.get(element);
  return last !== undefined && Date.now() - last.began < (last.isOver ? pause : STUCK_MS);
}

// One fetch of an element at a time; an answer that is old already is asked for again.
function freshen() {
  for (const element of fetching.keys()) if (!element.isConnected) fetching.delete(element);
  const behind = shown().filter((element) => !isWide(element) && isBehind(element));
  for (const element of behind) if (!isTooSoon(element, AGAIN_MS)) fetchAnew(element);
  if (behind.length) lookAgain(AGAIN_MS);
}

function freshenWide(kind) {
  const mine = wide[kind];
  const elements = shown().filter((element) => element.dataset.live === kind);
  clearTimeout(mine.timer);
  if (Date.now() - mine.began < WIDE_MS[kind] || elements.some((element) => isTooSoon(element, 0))) {
    mine.timer = setTimeout(freshenWide, WIDE_MS[kind], kind);
  } else {
    mine.began = Date.now();
    elements.forEach(fetchAnew);
  }
}

const freshenAll = () => Object.keys(WIDE_MS).forEach(freshenWide);

function lookAgain(ms) {
  clearTimeout(lookTimer);
  lookTimer = setTimeout(look, ms);
}

// The page has changed: perhaps it shows other rows now.
function look() {
  freshen();
  watch();
}

// --- the socket

function watch() {
  const message = JSON.stringify({ k: "watch", ids: idsShown(), charts: [...charts.keys()] });
  if (!isOpen() || message === watched) return;
  watched = message;
  socket.send(message);
}

function dial() {
  clearTimeout(dialTimer);
  if (socket || document.hidden) return;
  const url = new URL(place.dataset.liveUrl, location.href);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  let mine;
  try {
    mine = new WebSocket(url);
  } catch {
    dialLater(); // blocked: polling goes on
    return;
  }
  socket = mine;
  mine.addEventListener("open", () => {
    watched = "";
    watch();
    listenOn();
    if (wasLost) freshenAll(); // of rows the server says what changed meanwhile, of the rest nobody
    wasLost = false;
  });
  mine.addEventListener("message", ({ data }) => {
    if (socket !== mine) return;
    listenOn();
    take(JSON.parse(data));
  });
  mine.addEventListener("close", ({ code }) => { if (socket === mine) lost(code); });
}

function dialLater(ms = retry.next()) {
  clearTimeout(dialTimer);
  dialTimer = setTimeout(dial, ms);
}

function lost(code) {
  socket = null;
  wasLost = true;
  clearTimeout(silenceTimer);
  if (GONE.has(code) && leave()) return;
  if (!document.hidden) dialLater(code === TOO_MANY ? jitter(60000) : undefined);
  tell();
  pollSoon();
}

function listenOn() {
  clearTimeout(silenceTimer);
  silenceTimer = setTimeout(hangUp, SILENCE_MS);
}

// A dead connection says nothing of its end for minutes: do not wait for it.
function hangUp() {
  const old = socket;
  lost(0);
  old?.close();
}

function take(message) {
  retry.reset(); // somebody is there and lets us in
  if (message.k === "rows") hear(message.v);
  else if (message.k === "samples") charts.get(message.id)?.(message.s);
  else if (message.k === "resync") { poll(); freshenAll(); }
  else if (message.k === "delayed") {
    delayed[message.what] = message.is;
    if (message.is) pollSoon();
  }
  tell();
}

// --- asking instead

async function poll() {
  clearTimeout(pollTimer);
  const ids = idsShown();
  if (!document.hidden && !isAsking && (ids.length || shown().length)) {
    isAsking = true;
    try {
      await ask(ids);
    } catch { /* the server or the way to it is away: the banner says so, the next poll comes */ }
    isAsking = false;
  }
  pollTimer = setTimeout(poll, jitter(isLate() ? POLL_MS : SWEEP_MS));
}

async function ask(ids) {
  const url = `${place.dataset.poll}?ids=${ids.join(",")}`;
  const answer = await fetch(url, { headers: { Accept: "application/json" }, signal: AbortSignal.timeout(10000) });
  if (answer.redirected || [401, 403, 404].includes(answer.status)) return leave();
  if (answer.ok) {
    hear((await answer.json()).versions);
    if (isLate()) freshenAll(); // nobody says what else changed
  }
}

function pollSoon() {
  clearTimeout(pollTimer);
  pollTimer = setTimeout(poll, jitter(POLL_MS));
}

// --- the page

function tell() {
  banner(place, isLate() && (charts.size > 0 || shown().length > 0));
}

function letGo() {
  const old = socket;
  socket = null;
  wasLost = true;
  old?.close();
}

function hide() {
  hideTimer = setTimeout(() => {
    clearTimeout(pollTimer);
    clearTimeout(dialTimer);
    letGo();
  }, HIDDEN_MS);
}

function comeBack() {
  clearTimeout(hideTimer);
  retry.reset();
  dial(); // the answer to what it watches is all that changed meanwhile
  pollSoon();
}

// Has `take` called with the new points of an instance: [[seconds, util, vram, watts, celsius], …].
// Returns how to end that. `isLive()` says whether points come by themselves.
export function onSamples(id, take) {
  charts.set(id, take);
  watch();
  tell();
  return () => { charts.delete(id); watch(); };
}
export const samplesAreLive = () => isOpen() && !delayed.samples && !delayed.rows;

if (place?.dataset.liveUrl) {
  new MutationObserver(() => lookAgain(100)).observe(document.body, { childList: true, subtree: true });
  document.addEventListener("htmx:finally:request", ({ detail }) => {
    const last = fetching.get(detail.ctx?.sourceElement);
    if (last) last.isOver = true;
    lookAgain(100);
  });
  document.addEventListener("visibilitychange", () => (document.hidden ? hide() : comeBack()));
  addEventListener("pagehide", letGo);
  addEventListener("pageshow", (event) => { if (event.persisted) comeBack(); });
  addEventListener("online", comeBack);
  dial();
  tell();
  pollTimer = setTimeout(poll, jitter(POLL_MS));
}
