// Charts of an instance: templates/web/live/_charts.html has the places and the words. uPlot is
// fetched only by pages that draw. Points come by the socket; without it they are read again.
import { onSamples, samplesAreLive } from "./live.js";
import { drawPlot, FIGURES, numberOf } from "./charts_plot.js";

const HOUR = 60; // minutes; what is longer comes in means of minutes
const POLL_MS = 5000;
const SWEEP_MS = 60000; // fills holes, and moves the means of minutes on

class Charts {
  #root;
  #uPlot;
  #minutes = HOUR;
  #series = null;
  #plots = new Map();
  #request = null;
  #loadedAt = 0;
  #wasLive = false;
  #hasFailed = false;

  constructor(root, uPlot) {
    this.#root = root;
    this.#uPlot = uPlot;
    root.addEventListener("click", (event) => {
      const button = event.target.closest("[data-minutes]");
      if (button) this.#choose(Number(button.dataset.minutes));
    });
    const stop = onSamples(root.dataset.instance, (points) => this.#append(points));
    const redraw = () => this.#rebuild();
    document.addEventListener("theme-changed", redraw);
    const timer = setInterval(() => {
      if (root.isConnected) return this.#tick();
      clearInterval(timer);
      document.removeEventListener("theme-changed", redraw);
      stop();
    }, 1000);
    this.#load();
  }

  #choose(minutes) {
    this.#minutes = minutes;
    for (const button of this.#root.querySelectorAll("[data-minutes]")) {
      button.setAttribute("aria-pressed", String(Number(button.dataset.minutes) === minutes));
    }
    this.#load();
  }

  #tick() {
    if (document.hidden) return;
    const isLive = samplesAreLive() && this.#minutes <= HOUR;
    const isBack = isLive && !this.#wasLive; // what came meanwhile was told to nobody
    this.#wasLive = isLive;
    const pause = isLive || this.#minutes > HOUR ? SWEEP_MS : POLL_MS;
    if (isBack || Date.now() - this.#loadedAt > (this.#hasFailed ? POLL_MS : pause)) this.#load();
    else this.#move();
  }

  // The newest question wins: what an earlier one answers late is not shown.
  async #load() {
    this.#request?.abort();
    const request = new AbortController();
    this.#request = request;
    this.#loadedAt = Date.now();
    const url = `${this.#root.dataset.samplesUrl}?minutes=${this.#minutes}`;
    try {
      const answer = await fetch(url, { signal: AbortSignal.any([request.signal, AbortSignal.timeout(10000)]) });
      if (!answer.ok || answer.redirected) throw new Error(String(answer.status));
      this.#series = await answer.json();
      this.#hasFailed = false;
    } catch {
      if (request.signal.aborted) return;
      this.#hasFailed = true;
    }
    this.#draw();
  }

  #append(points) {
    const series = this.#series;
    if (!series || this.#minutes > HOUR || series.source !== "points") return;
    for (const [at, ...figures] of points) {
      if (series.at.length && at <= series.at.at(-1)) continue;
      series.at.push(at);
      FIGURES.forEach(({ name }, index) => {
        series[name].push(figures[index]);
        series[`${name}_max`].push(figures[index]);
      });
    }
    this.#draw();
  }

  // Time passes also when no point comes.
  #move() {
    const { at } = this.#series ?? {};
    if (this.#minutes > HOUR || !at?.length) return;
    for (const plot of this.#plots.values()) plot.setScale("x", this.#span());
  }

  #span() {
    const now = Math.max(Date.now() / 1000, this.#series?.until ?? 0);
    const until = Math.abs(now - (this.#series?.until ?? now)) < 600 ? now : this.#series.until;
    return { min: until - this.#minutes * 60, max: until };
  }

  #rebuild() {
    for (const plot of this.#plots.values()) plot.destroy();
    this.#plots.clear();
    this.#draw();
  }

  #draw() {
    if (!this.#root.isConnected) return;
    const series = this.#series;
    this.#say();
    if (!series) return;
    for (const figure of FIGURES) {
      const place = this.#root.querySelector(`[data-chart="${figure.name}"]`);
      const data = this.#columns(series, figure);
      let plot = this.#plots.get(figure.name);
      if (!plot) {
        plot = drawPlot(this.#uPlot, place, figure, this.#root.dataset, () => this.#minutes);
        this.#plots.set(figure.name, plot);
      }
      plot.setData(data, false);
      plot.setScale("x", this.#span());
      this.#tellFigures(figure, place, series);
    }
  }

  // A line is broken where nothing was measured for three steps.
  #columns(series, { name, scale }) {
    const step = 3 * Math.max(series.step_s, 10);
    const columns = [[], [], []];
    series.at.forEach((at, index) => {
      const before = series.at[index - 1];
      if (index && at - before > step) {
        columns[0].push(before + step / 3);
        columns[1].push(null);
        columns[2].push(null);
      }
      columns[0].push(at);
      columns[1].push(series[name][index] * scale);
      columns[2].push(series.source === "points" ? null : series[`${name}_max`][index] * scale);
    });
    return columns;
  }

  #tellFigures(figure, place, series) {
    const row = this.#root.querySelector(`[data-figures="${figure.name}"]`);
    const since = this.#span().min;
    const values = series[figure.name].filter((_, index) => series.at[index] >= since);
    const highest = series[`${figure.name}_max`].filter((_, index) => series.at[index] >= since);
    const show = (value) => (value === undefined ? "–" : numberOf(value * figure.scale, figure, place.dataset.unit));
    const isFresh = series.at.length && this.#span().max - series.at.at(-1) < Math.max(60, 3 * series.step_s);
    const now = show(isFresh ? values.at(-1) : undefined);
    place.dataset.latest = now;
    if (!("hovered" in place.dataset)) place.querySelector("[data-now]").textContent = now;
    row.querySelector("[data-last]").textContent = now;
    row.querySelector("[data-mean]").textContent = show(values.length ? values.reduce((a, b) => a + b, 0) / values.length : undefined);
    row.querySelector("[data-highest]").textContent = show(highest.length ? highest.reduce((a, b) => Math.max(a, b)) : undefined);
  }

  #nothing({ none, soon, first }) {
    if (!("running" in this.#root.dataset)) return none;
    return this.#minutes <= HOUR ? soon : first;
  }

  #say() {
    const words = this.#root.querySelector("[data-words]").dataset;
    const series = this.#series;
    let text = words.loading;
    if (this.#hasFailed) text = words.failed;
    else if (series && !series.at.length) text = this.#nothing(words);
    else if (series?.source === "points") text = samplesAreLive() ? words.flowing : words.asked;
    else if (series) text = this.#minutes <= HOUR ? words.late : words.means.replace("{n}", series.step_s / 60);
    const place = this.#root.querySelector("[data-charts-state]");
    if (place.textContent !== text) place.textContent = text; // a status is read out when it changes
  }
}

const drawn = new WeakSet();

async function drawAll() {
  const roots = [...document.querySelectorAll("[data-charts]")].filter((root) => !drawn.has(root));
  if (!roots.length) return;
  for (const root of roots) drawn.add(root);
  const { default: uPlot } = await import("uplot");
  for (const root of roots) new Charts(root, uPlot);
}

document.addEventListener("htmx:finally:request", () => setTimeout(drawAll, 50));
drawAll();
