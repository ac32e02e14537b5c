// The owners of the key groups, as a strip for each operator; equal operators share one.

import { count, plural } from "../lib/format.js";
import { linkTo } from "../lib/routes.js";
import { html } from "../lib/view.js";

const TINTS = 6;

/** Operators with the same owners of the same groups, together. */
export function stripsOf(operators) {
  const strips = new Map();
  for (const operator of operators) {
    const owners = operator.owners ?? [];
    if (!owners.length) continue;
    const key = JSON.stringify(owners);
    if (!strips.has(key)) strips.set(key, { owners, operators: [] });
    strips.get(key).operators.push(operator.name || operator.uid);
  }
  return [...strips.values()];
}

function size(owner) {
  return (owner.last_key_group ?? 0) - (owner.first_key_group ?? 0) + 1;
}

function Strip({ strip, tintOf }) {
  const unowned = strip.owners.filter((owner) => !owner.server_id);
  const closed = strip.owners.filter((owner) => owner.server_id && owner.open === false);
  const total = strip.owners.reduce((sum, owner) => sum + size(owner), 0);
  const trouble = [
    unowned.length ? `${unowned.reduce((sum, owner) => sum + size(owner), 0)} without owner` : "",
    closed.length ? `${closed.reduce((sum, owner) => sum + size(owner), 0)} loading` : "",
  ].filter(Boolean).join(", ");
  const names = strip.operators.slice(0, 4).join(", ") + (strip.operators.length > 4 ? ` and ${strip.operators.length - 4} more` : "");
  return html`<div class="strip-row">
    <p>${names} <span class="quiet">${plural(total, "key group")}</span>${trouble ? html` <span class="mark bad">${trouble}</span>` : null}</p>
    <div class="strip" role="img" aria-label=${`Key groups of ${names}: ${strip.owners.map((owner) => `${owner.first_key_group ?? 0} to ${owner.last_key_group ?? 0} ${owner.server_id ? `on ${owner.server_id}` : "without owner"}`).slice(0, 20).join(", ")}`}>
      ${strip.owners.map((owner) => {
        const state = !owner.server_id ? "none" : owner.open === false ? "closed" : "";
        const range = `${owner.first_key_group ?? 0}–${owner.last_key_group ?? 0}`;
        const label = size(owner) / total > 0.06 ? range : "";
        return html`<span key=${range} class=${`run t${tintOf(owner.server_id)} ${state}`} style=${{ flexGrow: size(owner) }}
          title=${`${range}: ${owner.server_id || "no owner"}${state === "closed" ? ", loading" : ""}`}>${label}</span>`;
      })}
    </div>
  </div>`;
}

export function KeyGroups({ operators }) {
  const strips = stripsOf(operators);
  if (!strips.length) return html`<p class="quiet">Key groups get owners with the first batch of the job.</p>`;
  const totals = new Map();
  for (const strip of strips) {
    for (const owner of strip.owners) {
      if (owner.server_id) totals.set(owner.server_id, (totals.get(owner.server_id) ?? 0) + size(owner) * strip.operators.length);
    }
  }
  const servers = [...totals.keys()].sort();
  const tintOf = (server) => servers.indexOf(server) % TINTS;
  return html`${strips.map((strip) => html`<${Strip} key=${strip.operators.join()} strip=${strip} tintOf=${tintOf} />`)}
    <ul class="legend">${servers.map((server) => html`<li key=${server}><i class=${`run t${tintOf(server)}`} aria-hidden="true"></i>
      <a href=${linkTo("servers")}>${server}</a> <span class="quiet">${count(totals.get(server))}</span></li>`)}</ul>`;
}
