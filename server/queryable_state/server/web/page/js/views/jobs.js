// All jobs at a glance, the ones in trouble first.

import { ask, jobPath } from "../lib/api.js";
import { ago, clock, count, duration, rate } from "../lib/format.js";
import { useNow, usePolled } from "../lib/polling.js";
import { useOffers } from "../lib/offers.js";
import { linkTo } from "../lib/routes.js";
import { html, useEffect, useMemo, useRef, useState } from "../lib/view.js";
import { Answer, Health, Notice, Prose, Title, urgency } from "../parts/ui.js";

const LIST_MS = 2000;
const DETAILS_MS = 5000;
const DETAILS_MS_PER_JOB = 100;
const AT_ONCE = 4;

function addressOf(info, jobs) {
  // A browser resolves these two before it sends them.
  const alone = info.name && ![".", ".."].includes(info.name) && jobs.filter((each) => each.name === info.name).length === 1;
  return alone ? info.name : info.job_id_hex;
}

/** Descriptions of jobs by id, asked a few at a time so that the list never waits for them. */
function useDescriptions(ids, wanted) {
  const [found, setFound] = useState(new Map());
  const newest = useRef(ids);
  newest.current = ids;
  const any = ids.length > 0;
  useEffect(() => {
    if (!wanted || !any) return undefined;
    const abort = new AbortController();
    let timer = 0;
    async function round() {
      const queue = document.hidden ? [] : [...newest.current];
      const answers = new Map();
      const worker = async () => {
        for (let id = queue.shift(); id !== undefined; id = queue.shift()) {
          try {
            answers.set(id, await ask(jobPath(id), { signal: abort.signal }));
          } catch {
            // The job's row shows what the list knows of it.
          }
        }
      };
      await Promise.all(Array.from({ length: AT_ONCE }, worker));
      if (abort.signal.aborted) return;
      if (answers.size) setFound((before) => new Map([...before, ...answers]));
      timer = setTimeout(round, Math.max(DETAILS_MS, newest.current.length * DETAILS_MS_PER_JOB));
    }
    round();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [wanted, any]);
  return found;
}

function Row({ info, address, description, now }) {
  const asOf = description?.as_of_ms || now;
  const batch = description?.last_batch;
  const mark = description?.watermark?.watermark_ms;
  const error = description?.last_error;
  const problem = info.problem || error?.message.split("\n")[0] || "";
  return html`<tr>
    <td class="health"><${Health} info=${info} /></td>
    <th scope="row"><a href=${linkTo("job", { job: address })}>${info.name || info.job_id_hex}</a></th>
    <td class=${`wide full ${problem ? "" : "empty"}`}>${problem ? html`<span class="clip" title=${problem}><${Prose} text=${problem} /></span>` : null}${error && !info.problem ? html`<span class="quiet">${ago(error.at_ms, asOf)}</span>` : null}</td>
    <td class="number" data-label="rows/s">${description?.rates ? rate(description.rates.rows_per_s ?? 0) : "–"}</td>
    <td class="number" data-label="batch">${batch && description.rates ? duration(batch.batch_ms ?? 0) : "–"}</td>
    <td class="number" data-label="watermark age">${mark ? duration(asOf - mark) : "–"}</td>
    <td class="number" data-label="committed">${info.committed_batch >= 0 ? count(info.committed_batch) : "–"}</td>
    <td class="number" data-label="started" >${info.started_at_ms ? clock(info.started_at_ms) : "–"}</td>
  </tr>`;
}

function Summary({ jobs }) {
  const worst = jobs.filter((info) => urgency(info) < 4).length;
  if (!jobs.length) return null;
  return html`<span class="quiet" role="status">${count(jobs.length)} ${jobs.length === 1 ? "job" : "jobs"}${worst ? html`, <strong class="bad">${count(worst)} in trouble</strong>` : ", nothing known to be wrong"}</span>`;
}

export function JobsView() {
  const offers = useOffers();
  const polled = usePolled("jobs", null, LIST_MS);
  const [filter, setFilter] = useState("");
  const now = useNow();
  const jobs = polled.data?.jobs ?? [];
  const sorted = useMemo(() => [...jobs].sort((one, other) => urgency(one) - urgency(other) || other.started_at_ms - one.started_at_ms), [polled.data]);
  const shown = sorted.filter((info) => `${info.name} ${info.job_id_hex}`.toLowerCase().includes(filter.toLowerCase()));
  const found = useDescriptions(shown.filter((info) => info.status === "RUNNING" || urgency(info) < 4).map((info) => info.job_id_hex), offers("jobs/{job}"));
  return html`<${Title} text="Jobs" lead=${html`<${Summary} jobs=${jobs} />`}>
      ${jobs.length > 8 ? html`<input type="search" placeholder="Filter by name" aria-label="Filter jobs by name" value=${filter} onInput=${(event) => setFilter(event.target.value)} />` : null}
    <//>
    <${Answer} polled=${polled}>${() => (jobs.length === 0 ? html`<${Notice} message="No job has registered here."
        step="Start a job with keyed state against this address, or check that this is the right proxy. A token shows only the jobs that it has a grant for." />`
      : html`<table class="stacks jobs"><thead><tr><th>health</th><th>job</th><th>what is wrong</th><th class="number">rows/s</th><th class="number">batch</th><th class="number">watermark age</th><th class="number">committed</th><th class="number">started</th></tr></thead>
        <tbody>${shown.map((info) => html`<${Row} key=${info.job_id_hex} info=${info} address=${addressOf(info, jobs)} description=${found.get(info.job_id_hex)} now=${now} />`)}</tbody></table>
        ${shown.length ? null : html`<p class="quiet">No job has “${filter}” in its name.</p>`}`)}<//>`;
}
