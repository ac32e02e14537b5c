// The windows and the timers of one key.

import { jobPath, statePath } from "../lib/api.js";
import { clock, duration, plural, utc, words } from "../lib/format.js";
import { usePolled } from "../lib/polling.js";
import { linkTo } from "../lib/routes.js";
import { html } from "../lib/view.js";
import { Answer } from "./ui.js";
import { Value } from "./value.js";

const PERIOD_MS = 3000;
const NEWEST = 50;

/** The window as parameters of an address: its exact bounds. */
export function spanOf(window) {
  if (!window) return {};
  return window.start_us === undefined
    ? { window_start: window.start_ms, window_end: window.end_ms }
    : { window_start_us: window.start_us, window_end_us: window.end_us };
}

/** The window of the parameters of an address; undefined if they name none. */
export function windowIn(span) {
  if (span?.window_start_us) return { start_us: Number(span.window_start_us), end_us: Number(span.window_end_us) };
  return span?.window_start ? { start_ms: Number(span.window_start), end_ms: Number(span.window_end) } : undefined;
}

/** True if both name the same window, or both none. */
export function sameSpan(one, other) {
  return String(new URLSearchParams(one)) === String(new URLSearchParams(other));
}

function microsText(us) {
  const below = ((us % 1000) + 1000) % 1000;
  const text = utc((us - below) / 1000);
  return below ? `${text.includes(".") ? text.replace("Z", "") : text.replace("Z", ".000")}${String(below).padStart(3, "0")}Z` : text;
}

function lengthText(window) {
  if (window.start_us === undefined) return duration(window.end_ms - window.start_ms);
  const length = window.end_us - window.start_us;
  return length < 1000 ? `${length} µs` : duration(length / 1000);
}

/** A window with its date once: `2013-01-31 10:00:00 – 11:00:00Z`; with microseconds where it has them. */
export function windowText(window) {
  const [start, end] = window.start_us === undefined
    ? [utc(window.start_ms), utc(window.end_ms)]
    : [microsText(Number(window.start_us)), microsText(Number(window.end_us))];
  const sameDay = start.slice(0, 10) === end.slice(0, 10);
  return `${start.replace(/Z$/, "")} – ${sameDay ? end.slice(11) : end}`;
}

export function Windows({ job, state, keyName, type, chosen }) {
  const polled = usePolled(statePath(job, state, "windows"), { key: keyName, newest: NEWEST }, PERIOD_MS);
  return html`<${Answer} polled=${polled}>${(data) => {
    const windows = [...(data.windows ?? [])].reverse();
    if (!windows.length) return html`<p class="quiet">No window of this key has a value now.</p>`;
    return html`<div class="scroll" tabindex="0" role="group" aria-label="Table of windows"><table class="stacks">
      <caption>newest first${windows.length === NEWEST ? `, the last ${NEWEST}` : ""}</caption>
      <thead><tr><th>window</th><th class="number">long</th><th>value</th></tr></thead>
      <tbody>${windows.map((each) => {
        const span = spanOf(each.window);
        const here = chosen && sameSpan(span, chosen);
        return html`<tr key=${Object.values(span).join()} aria-current=${here ? "true" : undefined}>
          <th scope="row"><a href=${linkTo("key", { job, state }, { key: keyName, ...span })}>${windowText(each.window)}</a></th>
          <td class="number" data-label="long">${lengthText(each.window)}</td>
          <td class="wide full"><${Value} value=${each.value} type=${type} /></td>
        </tr>`;
      })}</tbody></table></div>`;
  }}<//>`;
}

function due(timer, now, watermark) {
  if (timer.clock === "PROCESSING_TIME") return timer.timestamp_ms > now ? `in ${duration(timer.timestamp_ms - now)}` : "due";
  if (!watermark) return "waits for the watermark";
  return timer.timestamp_ms > watermark ? `when the watermark has moved ${duration(timer.timestamp_ms - watermark)}` : "due";
}

export function Timers({ job, keyName, operator, now }) {
  const polled = usePolled(jobPath(job, "timers"), { key: keyName }, PERIOD_MS);
  return html`<${Answer} polled=${polled}>${(data) => {
    const own = (data.operators ?? []).filter((each) => !operator || each.operator_uid === operator);
    if (!own.length) return html`<p class="quiet">The operator of this state keeps no timers.</p>`;
    const timers = own.flatMap((each) => (each.timers ?? []).map((timer) => ({ ...timer, watermark: each.info?.watermark_ms })));
    if (!timers.length) return html`<p class="quiet">No timer of this key is pending in its operator.</p>`;
    return html`<p class="quiet">${plural(timers.length, "timer")} of this key</p><ul class="timers">${timers.slice(0, NEWEST).map((timer) => html`<li key=${`${timer.clock} ${timer.timestamp_ms} ${timer.window?.start_ms}`}>
      <span class="mono">${timer.clock === "PROCESSING_TIME" ? clock(timer.timestamp_ms) : utc(timer.timestamp_ms)}</span>
      <span class="quiet">${words(timer.clock)}, ${due(timer, now, timer.watermark)}${timer.window ? `, window ${windowText(timer.window)}` : ""}</span></li>`)}</ul>`;
  }}<//>`;
}
