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

/** A window with its date once: `2013-01-31 10:00:00 – 11:00:00Z`. */
export function windowText(window) {
  const [start, end] = [utc(window.start_ms), utc(window.end_ms)];
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
        const span = { window_start: each.window.start_ms, window_end: each.window.end_ms };
        const here = chosen && Number(chosen.window_start) === each.window.start_ms;
        return html`<tr key=${each.window.start_ms} aria-current=${here ? "true" : undefined}>
          <th scope="row"><a href=${linkTo("key", { job, state }, { key: keyName, ...span })}>${windowText(each.window)}</a></th>
          <td class="number" data-label="long">${duration(each.window.end_ms - each.window.start_ms)}</td>
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
