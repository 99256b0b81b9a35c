// Parts of live.js that know nothing of its socket: how long to wait, when to say that it is late,
// and when to leave the page.

const FIRST_MS = 5000;
const LONGEST_MS = 30000;
const SHORTEST_MS = 200;
const LATE_MS = 3000; // shorter holes are nobody's business
const LEFT_KEY = "tessera-left-at";
const LEAVE_AGAIN_MS = 60000;

// Full jitter below a bound that doubles: 500 pages that lost one server do not return at once.
export class Retry {
  #bound = FIRST_MS;

  next() {
    const wait = SHORTEST_MS + Math.random() * (this.#bound - SHORTEST_MS);
    this.#bound = Math.min(LONGEST_MS, this.#bound * 2);
    return wait;
  }

  reset() {
    this.#bound = FIRST_MS;
  }
}

let timer = null;

export function banner(place, isLate) {
  if (!isLate) {
    clearTimeout(timer);
    timer = null;
    if (!place.hidden) place.hidden = true;
  } else if (timer === null && place.hidden) {
    timer = setTimeout(() => { place.hidden = false; timer = null; }, LATE_MS);
  }
}

// Load the page anew: the server sends whoever is signed out to the log-in, and says to others what
// they may not. Not twice a minute: a page that comes back as it was must not turn in circles.
export function leave() {
  const last = Number(sessionStorage.getItem(LEFT_KEY) ?? 0);
  if (Date.now() - last < LEAVE_AGAIN_MS) return false;
  sessionStorage.setItem(LEFT_KEY, String(Date.now()));
  location.replace(location.pathname + location.search);
  return true;
}
