// The state servers with their leases.

import { ago, bytes, count, words } from "../lib/format.js";
import { html } from "../lib/view.js";
import { Mark } from "./ui.js";

const LEASES = { HELD: "good", EXPIRED: "warn", LOST: "bad", REPLACED: "idle", LEFT: "idle" };

export function ServersTable({ servers, now }) {
  if (!servers.length) return html`<p class="quiet">No state server has registered yet. The first one comes with the first batch of a job.</p>`;
  return html`<div class="scroll" tabindex="0" role="group" aria-label="Table of state servers"><table class="stacks">
    <thead><tr><th>server</th><th>lease</th><th>executor</th><th>address</th><th class="number">key groups</th><th class="number">staged</th><th class="number">refused, last minute</th><th>process</th></tr></thead>
    <tbody>${servers.map((server) => html`<tr key=${server.server_id}>
      <th scope="row" class="mono">${server.server_id}</th>
      <td data-label="lease"><${Mark} kind=${LEASES[server.lease] ?? "idle"}>${words(server.lease)}<//> <span class="quiet">${server.ended_at_ms ? ago(server.ended_at_ms, now) : server.renewed_at_ms ? `renewed ${ago(server.renewed_at_ms, now)}` : ""}${server.successors?.length ? `, taken over by ${server.successors.join(", ")}` : ""}</span></td>
      <td data-label="executor">${server.executor_id}</td>
      <td data-label="address" class="mono">${server.query_address}</td>
      <td data-label="key groups" class="number">${count(server.key_groups ?? 0)}</td>
      <td data-label="staged" class="number">${bytes(server.staged_bytes ?? 0)}</td>
      <td data-label="refused" class="number">${count(server.refused_last_minute ?? 0)}${server.refused_last_minute ? html` <span class="quiet">most: ${server.most_refused}</span>` : null}</td>
      <td class="full key" data-label="process">pid ${server.pid ?? "–"}${server.log_file ? html` <span class="mono quiet">${server.log_file}</span>` : null}</td>
    </tr>`)}</tbody></table></div>`;
}
