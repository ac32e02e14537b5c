// The keys with most reads and writes: estimates of bounded sketches, with their error.

import { count, percent } from "../lib/format.js";
import { usePolled } from "../lib/polling.js";
import { linkTo } from "../lib/routes.js";
import { html } from "../lib/view.js";
import { parseField } from "../lib/json.js";
import { Answer } from "./ui.js";
import { keyText, shownKey } from "./types.js";

const PERIOD_MS = 5000;
const LIMIT = { limit: 12 };

function side(keys, name) {
  return keys.filter((key) => key.side === name).sort((one, other) => (other.share ?? 0) - (one.share ?? 0));
}

function Side({ rows, job, title, withState }) {
  const widest = Math.max(...rows.map((row) => row.share ?? 0), 0.0001);
  return html`<div><h3>${title}</h3>
    ${rows.length ? html`<div class="scroll" tabindex="0" role="group" aria-label=${title}><table class="hot">
      <thead><tr><th>key</th>${withState ? html`<th>state</th>` : null}<th class="number">about</th><th>share of all</th></tr></thead>
      <tbody>${rows.slice(0, 12).map((row) => {
        const key = keyText(parseField(row.key_json));
        return html`<tr key=${`${row.state_name} ${row.key_json}`}>
          <td class="key"><a class="mono" href=${linkTo("key", { job, state: row.state_name }, { key })}>${shownKey(key)}</a></td>
          ${withState ? html`<td>${row.state_name}</td>` : null}
          <td class="number">${count(row.count)}${row.error ? html` <span class="quiet">± ${count(row.error)}</span>` : null}</td>
          <td><span class=${`bar ${row.share > 0.5 ? "bad" : ""}`}><span style=${{ width: `${((row.share ?? 0) / widest) * 100}%` }}></span></span> ${percent(row.share ?? 0)}</td>
        </tr>`;
      })}</tbody></table></div>` : html`<p class="quiet">None yet.</p>`}
  </div>`;
}

export function HotKeys({ path, job, withState }) {
  const polled = usePolled(path, LIMIT, PERIOD_MS);
  return html`<${Answer} polled=${polled}>${(data) => {
    const keys = data.keys ?? [];
    const off = (data.totals ?? []).filter((each) => each.off).map((each) => each.state_name);
    return html`${off.length ? html`<p class="quiet">Not counted, because <code>hot_keys</code> is off on a server: ${[...new Set(off)].join(", ")}</p>` : null}
    ${data.complete === false ? html`<p class="quiet">Some servers have not answered: ${(data.errors ?? [])[0]?.message ?? ""}</p>` : null}
    <div class="columns">
      <${Side} title="Written most" job=${job} withState=${withState} rows=${side(keys, "WRITE")} />
      <${Side} title="Queried most" job=${job} withState=${withState} rows=${side(keys, "READ")} />
    </div>`;
  }}<//>`;
}
