// One job: what is wrong and what to do, its graph and figures, where its state is.

import { jobPath } from "../lib/api.js";
import { NOT_HASH_PARTITIONED, count, duration, words } from "../lib/format.js";
import { useOffers } from "../lib/offers.js";
import { useNow, usePolled } from "../lib/polling.js";
import { linkTo } from "../lib/routes.js";
import { html } from "../lib/view.js";
import { Checkpoints, Restores } from "../parts/checkpoints.js";
import { Figures, History } from "../parts/figures.js";
import { EndedFindings, Errors, Findings } from "../parts/findings.js";
import { Graph } from "../parts/graph.js";
import { HotKeys } from "../parts/hot_keys.js";
import { KeyGroups } from "../parts/key_groups.js";
import { ServersTable } from "../parts/servers_table.js";
import { valueType } from "../parts/types.js";
import { Answer, Block, Health, Notice, Title, jobCrumbs } from "../parts/ui.js";

const PERIOD_MS = 2000;
const SLOW_MS = 10_000;
const WITH_HISTORY = { history: 1 };

function States({ polled, job }) {
  return html`<${Answer} polled=${polled}>${(data) => {
    const states = data.states ?? [];
    if (!states.length) return html`<p class="quiet">No queryable state yet: states appear with the first batch.</p>`;
    return html`<div class="scroll" tabindex="0" role="group" aria-label="Table of states"><table class="stacks">
      <thead><tr><th>state</th><th>kind</th><th>key</th><th>value</th><th class="number">kept for</th><th>operator</th></tr></thead>
      <tbody>${states.map((state) => html`<tr key=${state.queryable_name}>
        <th scope="row"><a href=${linkTo("state", { job, state: state.queryable_name })}>${state.queryable_name}</a>${state.asks_all_partitions ? html`<div class="quiet">${NOT_HASH_PARTITIONED}</div>` : null}</th>
        <td data-label="kind">${words(state.kind)}</td>
        <td data-label="key" class="key"><code>${state.key_type}</code></td>
        <td data-label="value" class="key full"><code>${valueType(state)?.text ?? ""}</code></td>
        <td data-label="kept for" class="number">${state.ttl_per_value ? "a time per value" : state.ttl_ms ? duration(state.ttl_ms) : html`<span class="quiet">ever</span>`}</td>
        <td data-label="operator">${state.operator_name || state.operator_uid}</td>
      </tr>`)}</tbody></table></div>`;
  }}<//>`;
}

function Facts({ description, job, now, history }) {
  const offers = useOffers();
  const asOf = description.as_of_ms || now;
  return html`
    ${description.age_ms ? html`<${Notice} kind="bad" message=${`The driver does not answer. This is what was known ${duration(description.age_ms)} ago.`}
      step="Check that the driver runs. Its committed state comes back with it." />` : null}
    <${Findings} findings=${description.findings ?? []} now=${asOf} />
    <${Figures} description=${description} now=${now} />
    <${Restores} restores=${description.restores ?? []} now=${asOf} />
    ${history?.length ? html`<${History} history=${history} />` : null}
    <${Block} title="Operators" aside=${`${count((description.operators ?? []).length)} with state`}><${Graph} description=${description} job=${job} /><//>
    <div class="columns">
      <${Block} title="Errors" aside=${description.restarts ? `${count(description.restarts)} restarts` : null}><${Errors} description=${description} job=${job} now=${asOf} /><${EndedFindings} findings=${description.ended_findings ?? []} now=${asOf} /><//>
      <${Block} title="Checkpoints"><${Checkpoints} description=${description} now=${asOf} /><//>
    </div>
    ${offers("jobs/{job}/hot-keys") ? html`<${Block} title="Hot keys" aside="last minute"><${HotKeys} path=${jobPath(job, "hot-keys")} job=${job} withState=${true} /><//>` : null}
    <${Block} title="Key groups over servers"><${KeyGroups} operators=${description.operators ?? []} /><//>`;
}

/** A server without descriptions still has the list of jobs. */
function Listed({ job, now }) {
  const polled = usePolled("jobs", null, PERIOD_MS);
  return html`<${Answer} polled=${polled}>${(data) => {
    const info = (data.jobs ?? []).find((each) => each.name === job || each.job_id_hex === job);
    if (!info) return html`<${Notice} message=${`There is no job ${job}.`} step="Go back to the list of jobs." />`;
    return html`<${Figures} description=${{ info }} now=${now} />`;
  }}<//>`;
}

function Servers() {
  const polled = usePolled("servers", null, PERIOD_MS);
  const now = useNow();
  return html`<${Block} title="Servers"><${Answer} polled=${polled}>${(data) => html`<${ServersTable} servers=${data.servers ?? []} now=${data.as_of_ms || now} />`}<//><//>`;
}

export function JobView({ job }) {
  const offers = useOffers();
  const described = offers("jobs/{job}");
  const polled = usePolled(described ? jobPath(job) : null, null, PERIOD_MS);
  const slow = usePolled(described ? jobPath(job) : null, WITH_HISTORY, SLOW_MS);
  const states = usePolled(jobPath(job, "states"), null, SLOW_MS);
  const now = useNow();
  const info = polled.data?.info;
  return html`<${Title} text=${info?.name || job} crumbs=${jobCrumbs()} lead=${info ? html`<${Health} info=${info} /><span class="quiet mono">${info.job_id_hex}</span>` : null} />
    ${described ? html`<${Answer} polled=${polled}>${(description) => html`<${Facts} description=${description} job=${job} now=${now} history=${slow.data?.history} />`}<//>`
      : html`<${Listed} job=${job} now=${now} />`}
    <${Block} title="States"><${States} polled=${states} job=${job} /><//>
    ${offers("servers") ? html`<${Servers} />` : null}`;
}
