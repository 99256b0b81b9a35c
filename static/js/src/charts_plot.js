// One chart: what uPlot is told. Colours come from the theme, so a change of theme draws anew.

export const FIGURES = [
  { name: "util", scale: 1, digits: 0, top: 100 },
  { name: "vram", scale: 1 / 1024, digits: 1 }, // MiB come, GiB are shown
  { name: "watts", scale: 1, digits: 0 },
  { name: "celsius", scale: 1, digits: 0, top: 100 },
];

const DAY = 1440; // minutes

const language = () => document.documentElement.lang || "en";

export function numberOf(value, { digits }, unit) {
  const text = new Intl.NumberFormat(language(), { minimumFractionDigits: digits, maximumFractionDigits: digits }).format(value);
  return `${text} ${unit}`;
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

const faded = (oklch) => oklch.replace(/\)$/, " / 14%)");

function axes(unit, zone, minutesOf) {
  const font = `12px ${getComputedStyle(document.body).fontFamily}`;
  const common = { stroke: colour("--muted"), font, grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
  const time = { hour: "2-digit", minute: "2-digit", hour12: false, timeZone: zone };
  const day = { month: "numeric", day: "numeric", timeZone: zone };
  const shown = (splits) => {
    const format = new Intl.DateTimeFormat(language(), minutesOf() > DAY ? day : time);
    return splits.map((at) => format.format(new Date(at * 1000)));
  };
  return [
    { ...common, size: 26, space: 70, values: (_, splits) => shown(splits) },
    { ...common, size: 46, values: (_, splits) => splits.map((value) => new Intl.NumberFormat(language()).format(value)) },
  ];
}

function topOf(figure, data) {
  if (figure.top) return figure.top;
  const total = Number(data.vramMib) * Number(data.slices) / 1024;
  return figure.name === "vram" && total > 0 ? total : 0;
}

// What the pointer is on is said at the head of the chart, with its time.
function tellHovered(plot, place, figure, zone) {
  const { idx } = plot.cursor;
  const value = idx == null ? null : plot.data[1][idx];
  const now = place.querySelector("[data-now]");
  if (value == null) {
    delete place.dataset.hovered;
    now.textContent = place.dataset.latest ?? "–";
    return;
  }
  place.dataset.hovered = "";
  const at = new Intl.DateTimeFormat(language(), { dateStyle: "short", timeStyle: "medium", hour12: false, timeZone: zone });
  now.textContent = `${numberOf(value, figure, place.dataset.unit)} · ${at.format(new Date(plot.data[0][idx] * 1000))}`;
}

export function drawPlot(uPlot, place, figure, data, minutesOf) {
  const box = place.querySelector("[data-plot]");
  const line = colour("--color-primary");
  const size = () => ({ width: Math.max(120, box.clientWidth), height: Math.max(100, box.clientHeight) });
  const zone = data.zone || undefined;
  const top = topOf(figure, data);
  const plot = new uPlot({
    ...size(),
    legend: { show: false },
    padding: [8, 12, 0, 0],
    tzDate: (at) => uPlot.tzDate(new Date(at * 1000), zone),
    cursor: { y: false, drag: { x: false, y: false }, sync: { key: `charts-${data.instance}` } },
    scales: {
      x: { time: true },
      y: { range: (_, __, highest) => [0, Math.max(top, (highest ?? 0) * (top ? 1 : 1.15), 1)] },
    },
    axes: axes(place.dataset.unit, zone, minutesOf),
    series: [
      {},
      { stroke: line, width: 1.5, fill: faded(line), points: { show: false } },
      { stroke: colour("--faint"), width: 1, points: { show: false } },
    ],
    hooks: { setCursor: [(shown) => tellHovered(shown, place, figure, zone)] },
  }, [[], [], []], box);
  const watcher = new ResizeObserver(() => {
    if (plot.root.isConnected) plot.setSize(size());
    else watcher.disconnect();
  });
  watcher.observe(box);
  return plot;
}
