// What is wrong with a job and what to do, and the errors of its runs.

import { ago, clock, words } from "../lib/format.js";
import { linkTo } from "../lib/routes.js";
import { html } from "../lib/view.js";
import { Notice } from "./ui.js";

export function Findings({ findings, now }) {
  if (!findings.length) return null;
  return html`<div aria-live="polite" class="findings">${findings.map((finding) => html`<${Notice}
      key=${`${finding.code} ${finding.message}`} kind=${finding.severity === "ERROR" ? "bad" : "warn"}
      message=${finding.message} step=${finding.next_step}>
      <p class="quiet"><code>${words(finding.code)}</code>${finding.since_ms ? html` · since ${clock(finding.since_ms)}, ${ago(finding.since_ms, now)}` : null}</p>
    <//>`)}</div>`;
}

/** What is over, folded: it needs nothing any more. */
export function EndedFindings({ findings, now }) {
  if (!findings.length) return null;
  return html`<details class="ended"><summary class="quiet">${findings.length} over, the newest ${ago(findings[0].ended_ms, now)}</summary>
    ${findings.map((each) => html`<p key=${`${each.code} ${each.began_ms} ${each.ended_ms}`} class="quiet"><code>${words(each.code)}</code> · ${clock(each.began_ms)} to ${clock(each.ended_ms)} · ${each.message}</p>`)}
  </details>`;
}

function stateOf(error, description) {
  const operator = (description.operators ?? []).find((each) => each.uid === error.operator || each.name === error.operator);
  return operator?.states?.[0];
}

function ErrorItem({ error, description, job, now, open }) {
  const state = error.key_json ? stateOf(error, description) : null;
  return html`<details class="error" open=${open}>
    <summary><span class="quiet">${clock(error.at_ms)}</span> <strong>${error.message.split("\n")[0]}</strong>${error.count > 1 ? html` <span class="quiet">${error.count} times</span>` : null}</summary>
    <dl class="facts">
      <div><dt>when</dt><dd>${ago(error.at_ms, now)}${error.batch_id >= 0 ? `, in batch ${error.batch_id}` : ""}</dd></div>
      ${error.reason ? html`<div><dt>reason</dt><dd><code>${words(error.reason)}</code></dd></div>` : null}
      ${error.operator ? html`<div><dt>operator</dt><dd>${error.operator}</dd></div>` : null}
      ${error.key_json ? html`<div><dt>key</dt><dd>${state ? html`<a class="mono" href=${linkTo("key", { job, state }, { key: error.key_json })}>${error.key_json}</a>` : html`<code>${error.key_json}</code>`}</dd></div>` : null}
      ${error.record ? html`<div><dt>record</dt><dd><code>${error.record}</code></dd></div>` : null}
    </dl>
    ${error.message.includes("\n") ? html`<pre>${error.message}</pre>` : null}
    ${error.traceback ? html`<pre class="traceback" tabindex="0">${error.traceback}</pre>` : null}
  </details>`;
}

export function Errors({ description, job, now }) {
  const errors = description.errors?.length ? description.errors : description.last_error ? [description.last_error] : [];
  if (!errors.length) return html`<p class="quiet">No run has failed since this driver started.</p>`;
  return errors.map((error, index) => html`<${ErrorItem} key=${`${error.at_ms} ${error.message}`} error=${error} description=${description} job=${job} now=${now} open=${index === 0} />`);
}
