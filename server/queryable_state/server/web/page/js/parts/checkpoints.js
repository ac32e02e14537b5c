// Checkpoints and savepoints of a job, and what is being written or loaded now.

import { ago, bytes, clock, count, duration, words } from "../lib/format.js";
import { html } from "../lib/view.js";
import { Mark, Notice } from "./ui.js";

const OUTCOMES = { COMPLETED: "good", FAILED: "bad", DECLINED: "warn" };

export function Progress({ label, done, total, since, now }) {
  const share = total ? done / total : 0;
  return html`<p class="progress"><span>${label}</span>
    <progress max="1" value=${total ? share : undefined} aria-label=${label}></progress>
    <span class="quiet">${total ? `${Math.floor(share * 100)} %, ` : ""}since ${duration(now - since)}</span></p>`;
}

function writing(snapshots, now) {
  return snapshots.map((each) => html`<${Progress} key=${each.started_at_ms} now=${now} since=${each.started_at_ms}
    label=${`Writing a ${each.savepoint ? "savepoint" : "checkpoint"}`} done=${each.ranges_done ?? 0} total=${each.ranges ?? 0} />`);
}

export function Restores({ restores, now }) {
  return restores.map((each) => html`<${Progress} key=${`${each.operator_uid} ${each.first_key_group}`} now=${now} since=${each.started_at_ms}
    label=${`Loading ${each.operator_uid}, key groups ${each.first_key_group ?? 0}–${each.last_key_group ?? 0}, on ${each.server_id}`}
    done=${each.bytes_done ?? 0} total=${each.bytes ?? 0} />`);
}

export function Checkpoints({ description, now }) {
  const status = description.checkpoints ?? {};
  const running = [...(status.running ? [status.running] : []), ...(description.savepoints ?? [])];
  const newest = status.newest ?? (status.last_completed ? [status.last_completed] : []);
  if (status.durable === false) {
    return html`<p class="quiet">This job keeps its state in memory only: no checkpoints. Set a state root to keep it.</p>`;
  }
  return html`
    ${status.failures_in_a_row ? html`<${Notice} kind="bad" message=${`${status.failures_in_a_row === 1 ? "The newest attempt" : `The newest ${status.failures_in_a_row} attempts`} failed: ${status.last_failure}`} />` : null}
    ${writing(running, now)}
    ${newest.length ? html`<div class="scroll" tabindex="0" role="group" aria-label="Table of checkpoints"><table class="stacks">
      <thead><tr><th>attempt</th><th>at</th><th class="number">took</th><th class="number">size</th><th class="number">new</th><th class="number">batch</th></tr></thead>
      <tbody>${newest.slice(0, 8).map((each) => html`<tr key=${`${each.checkpoint_id} ${each.at_ms}`}>
        <td class="full"><${Mark} kind=${OUTCOMES[each.outcome] ?? "good"}>${each.savepoint ? "savepoint" : `checkpoint ${each.checkpoint_id ?? ""}`}<//>${each.outcome && each.outcome !== "COMPLETED" ? html` <span class="quiet">${words(each.outcome)}: ${each.failure}</span>` : null}</td>
        <td data-label="at" title=${ago(each.at_ms, now)}>${clock(each.at_ms)}</td>
        <td data-label="took" class="number">${duration(each.duration_ms ?? 0)}</td>
        <td data-label="size" class="number">${bytes(each.bytes ?? 0)}</td>
        <td data-label="new" class="number">${bytes(each.new_bytes ?? 0)}</td>
        <td data-label="batch" class="number">${each.batch_id >= 0 ? count(each.batch_id) : "–"}</td>
      </tr>`)}</tbody></table></div>` : html`<p class="quiet">No attempt yet.</p>`}
    ${status.root ? html`<p class="quiet">in <code>${status.root}</code>${status.interval_ms ? `, each ${duration(status.interval_ms)}` : ""}</p>` : null}`;
}
