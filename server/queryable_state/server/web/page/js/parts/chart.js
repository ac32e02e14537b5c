// Line charts on uPlot, which is loaded with the first chart. Charts with one `group` share a cursor.
// If it cannot be loaded, because the server has just gone, a chart is only its text; the next one tries again.

import { clock } from "../lib/format.js";
import { html, useEffect, useRef, useState } from "../lib/view.js";

const FOLDER = new URL("../../vendor/uplot/", import.meta.url);
let loading = null;

function loadPlot() {
  loading ??= new Promise((resolve) => {
    const script = Object.assign(document.createElement("script"), { src: new URL("uPlot.iife.min.js", FOLDER) });
    script.onload = () => resolve(window.uPlot);
    script.onerror = () => {
      loading = null;
      script.remove();
      resolve(null);
    };
    document.head.append(script);
  });
  return loading;
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function axis(extra) {
  return {
    stroke: colour("--quiet"), font: '11px "Plex Sans", sans-serif', ticks: { show: false },
    grid: { stroke: colour("--rule"), width: 1 }, ...extra,
  };
}

// A duration or a rate starts at zero; of a value the change is what matters.
function fromZero(_plot, low, high) {
  return [Math.min(0, low), high > 0 ? high * 1.08 : 1];
}

function around(_plot, low, high) {
  const room = (high - low || Math.abs(high) || 1) * 0.12;
  return [low - room, high + room];
}

function times(_plot, ticks) {
  const isShort = ticks.length > 1 && ticks[1] - ticks[0] < 60;
  return ticks.map((tick) => clock(tick * 1000).slice(-8, isShort ? undefined : -3));
}

function options({ series, format, group, width, height, empty, stepped }) {
  const paths = stepped ? window.uPlot.paths.stepped({ align: 1 }) : undefined;
  return {
    width, height, padding: [8, 8, 0, 0],
    cursor: { sync: group ? { key: group } : undefined, points: { size: 6 }, drag: { x: false, y: false }, y: false },
    legend: { show: false },
    scales: { y: { range: empty ? [0, 1] : stepped ? around : fromZero } },
    axes: [
      axis({ size: 26, space: 70, values: times, grid: { show: false } }),
      axis({ size: 58, space: 28, values: (_plot, ticks) => ticks.map(format) }),
    ],
    series: [{}, ...series.map((each, index) => ({
      label: each.label, stroke: colour(`--series-${index + 1}`), width: 1.5, paths, points: { show: false }, spanGaps: true,
      fill: series.length === 1 && !stepped ? `${colour("--series-1")}1f` : undefined,
    }))],
  };
}

/**
 * Lines over time; `stepped` ones hold each value until the next. `times` in milliseconds; each of `series` is { label, values }, values may be null.
 * The newest and, under the cursor, any other point is written above, as text.
 */
export function Chart({ title, times, series, format, group, height = 120, stepped = false }) {
  const box = useRef(null);
  const plot = useRef(null);
  const [at, setAt] = useState(null);
  const [theme, setTheme] = useState(0);
  const latest = useRef(null);
  latest.current = [times.map((ms) => ms / 1000), ...series.map((each) => each.values)];
  const empty = times.length === 0;
  const labels = series.map((each) => each.label).join("|");

  useEffect(() => {
    const scheme = window.matchMedia("(prefers-color-scheme: dark)");
    const change = () => setTheme((value) => value + 1);
    scheme.addEventListener("change", change);
    return () => scheme.removeEventListener("change", change);
  }, []);
  useEffect(() => {
    let gone = false;
    let sizes = null;
    loadPlot().then((Plot) => {
      if (gone || !Plot || !box.current) return;
      const made = options({ series, format, group, width: box.current.clientWidth, height, empty, stepped });
      made.hooks = { setCursor: [(self) => setAt(self.cursor.idx ?? null)] };
      plot.current = new Plot(made, latest.current, box.current);
      sizes = new ResizeObserver(() => plot.current.setSize({ width: box.current.clientWidth, height }));
      sizes.observe(box.current);
    });
    return () => {
      gone = true;
      sizes?.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [labels, group, height, theme, empty]);
  useEffect(() => plot.current?.setData(latest.current), [times, series]);

  const index = at !== null && at < times.length ? at : times.length - 1;
  return html`<figure class="chart">
    <figcaption><span class="chart-title">${title}</span>
      ${series.map((each, place) => html`<span class=${`chart-now s${place + 1}`} key=${each.label}>
        ${series.length > 1 ? html`<i aria-hidden="true"></i>${each.label} ` : null}<b>${empty || each.values[index] === null ? "–" : format(each.values[index])}</b></span>`)}
      <span class="quiet chart-at">${at !== null && !empty ? clock(times[index]) : ""}</span>
    </figcaption>
    <div class="chart-box" ref=${box} style=${{ height: `${height}px` }} aria-hidden="true"></div>
    ${empty ? html`<p class="chart-empty quiet">No batch in the last hour.</p>` : null}
  </figure>`;
}
