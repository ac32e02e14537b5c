// The steps of an explained look-up as a timeline, one lane for each server.

import { NOT_HASH_PARTITIONED, count, micros, words } from "../lib/format.js";
import { html } from "../lib/view.js";

/** Steps with begin and end in the time of the first server. */
export function placed(steps) {
  const first = steps[0]?.server_id;
  let call = null;
  let offset = 0;
  return steps.map((step, index) => {
    const isCalled = step.server_id !== first;
    if (!isCalled) {
      call = step;
    } else if (call && steps[index - 1]?.server_id !== step.server_id) {
      // The steps of a called server follow its call, on a clock of their own: in the call's middle.
      const rest = steps.slice(index);
      const until = rest.findIndex((each) => each.server_id !== step.server_id);
      const own = until < 0 ? rest : rest.slice(0, until);
      const took = Math.max(...own.map((each) => (each.begun_us ?? 0) + (each.took_us ?? 0)));
      offset = (call.begun_us ?? 0) + Math.max(0, ((call.took_us ?? 0) - took) / 2);
    }
    const begin = (isCalled ? offset : 0) + (step.begun_us ?? 0);
    return { ...step, begin, end: begin + (step.took_us ?? 0), isCalled };
  });
}

function ticks(total) {
  const rough = total / 4;
  const power = 10 ** Math.floor(Math.log10(Math.max(rough, 1)));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((each) => each >= rough);
  return Array.from({ length: Math.floor(total / step) + 1 }, (_, index) => index * step);
}

export function Timeline({ trace }) {
  const steps = placed(trace.steps ?? []);
  const total = Math.max(trace.total_us ?? 0, ...steps.map((step) => step.end), 1);
  const at = (us) => `${(us / total) * 100}%`;
  return html`<ol class="timeline">
    <li class="axis" aria-hidden="true"><span></span><div>${ticks(total).map((tick) => html`<i style=${{ left: at(tick) }} key=${tick}>${micros(tick)}</i>`)}</div></li>
    ${steps.map((step, index) => html`<li key=${index} class=${step.isCalled ? "called" : ""}>
      <span class="what"><strong>${step.name}</strong>${step.cache_hit ? html` <span class="tag">cache</span>` : null}${step.retried ? html` <span class="tag bad">retried</span>` : null}
        <span class="quiet mono">${step.server_id || "client"}${step.role ? ` ${words(step.role)}` : ""}</span></span>
      <div class="lane"><i class=${`${step.name === "refuse" || step.retried ? "bad" : ""}`} style=${{ left: at(step.begin), width: `max(3px, ${at(step.end - step.begin)})` }}></i></div>
      <span class="took number">${micros(step.took_us ?? 0)}</span>
      ${step.detail ? html`<span class="detail quiet">${step.detail}</span>` : null}
    </li>`)}
  </ol>`;
}

export function TraceFacts({ trace }) {
  return html`<dl class="facts inline">
    <div><dt>took</dt><dd>${micros(trace.total_us ?? 0)}</dd></div>
    <div><dt>key group</dt><dd>${count(trace.key_group ?? 0)}, subtask ${count(trace.subtask ?? 0)}</dd></div>
    ${trace.asks_all_partitions ? html`<div><dt>partitions</dt><dd>${NOT_HASH_PARTITIONED}</dd></div>` : null}
    <div><dt>operator</dt><dd>${trace.operator_uid || "–"}</dd></div>
    <div><dt>owner</dt><dd>${trace.owner_id ? html`<span class="mono">${trace.owner_id}${trace.owner_address ? ` at ${trace.owner_address}` : ""}</span>` : html`<span class="mark bad">none</span>`}</dd></div>
    <div><dt>placement</dt><dd>version ${count(trace.placement_version ?? 0)}</dd></div>
  </dl>`;
}
