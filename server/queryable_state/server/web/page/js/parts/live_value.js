// The value of one key, kept current by a watch, or by asking again where the server has no watch.

import { statePath } from "../lib/api.js";
import { clock, count, duration, plural } from "../lib/format.js";
import { useOffers } from "../lib/offers.js";
import { usePolled } from "../lib/polling.js";
import { useWatch } from "../lib/watching.js";
import { html, useEffect, useMemo, useRef, useState } from "../lib/view.js";
import { Chart } from "./chart.js";
import { Mark, Notice, Failure } from "./ui.js";
import { Value, brief, numbersIn } from "./value.js";
import { toJson } from "../lib/json.js";
import { sameSpan, spanOf, windowText } from "./windows.js";

const IDLE_MS = 10_000;
const POLL_MS = 1000;
const MOST_SAMPLES = 600;
const MOST_CHANGES = 100;
// Their change carries the whole new value.
const WHOLE = new Set(["VALUE", "REDUCING"]);

/** The newest value of a key with its batch, its changes, and the numbers in it over time. */
export function useLiveValue({ job, state, keyName, window, kind, live }) {
  const offers = useOffers();
  const watched = live && offers("jobs/{job}/states/{state}/watch");
  const [changes, setChanges] = useState([]);
  const [newest, setNewest] = useState(null);
  const [gap, setGap] = useState(null);
  const [samples, setSamples] = useState([]);
  const [run, setRun] = useState(0);
  const again = useRef(null);
  // The newest batch of a change or a read, and when it arrived.
  const seen = useRef({ batch: -1, at: 0 });
  const sample = (at, value) => setSamples((last) => {
    const numbers = numbersIn(value);
    if (!Object.keys(numbers).length || at <= (last.at(-1)?.at ?? 0)) return last;
    return [...last, { at, numbers }].slice(-MOST_SAMPLES);
  });
  const onChanges = (batch) => {
    const own = batch.filter((change) => sameSpan(spanOf(change.window), window ?? {}));
    if (!own.length) return;
    setChanges((last) => [...own.reverse(), ...last].slice(0, MOST_CHANGES));
    const last = own[0];
    seen.current = { batch: last.batch, at: Date.now() };
    if (WHOLE.has(kind)) {
      setNewest({ batch: last.batch, at: last.at, seenAt: Date.now(), value: last.kind === "PUT" ? last.value : undefined });
      if (last.kind === "PUT") sample(last.at, last.value);
    } else {
      again.current();
    }
  };
  const watch = useWatch(job, state, { key: keyName }, { enabled: watched, run, onChanges, onGap: (missed) => { setGap(missed); again.current(); } });
  const period = !live ? 0 : watched && watch.state === "open" ? IDLE_MS : POLL_MS;
  const polled = usePolled(statePath(job, state, "value"), { key: keyName, ...window }, period);
  again.current = polled.again;
  useEffect(() => {
    const { data } = polled;
    const version = data?.info?.version ?? -1;
    if (version < seen.current.batch && data?.info && polled.askedAt > seen.current.at) {
      // Batches never go back: another job has taken the name.
      setRun((last) => last + 1);
      setNewest(null);
      setChanges([]);
      setSamples([]);
      setGap(null);
    }
    if (data?.info && polled.askedAt > seen.current.at) seen.current = { batch: version, at: polled.at };
    if (data?.info && data.value !== undefined) sample(data.info.commit_time_ms || polled.at, data.value);
  }, [polled.data]);
  const read = polled.data;
  const isNewer = newest && newest.batch > (read?.info?.version ?? -1);
  // The newest read has found nothing: expiry sends no change.
  const isGone = polled.error?.reason === "UNKNOWN_KEY" && polled.failedAt > (newest?.seenAt ?? 0);
  const value = isGone ? undefined : isNewer ? newest.value : read?.value;
  return {
    polled, watch, watched, changes, gap, samples, info: read?.info, remaining: read?.remaining_ms,
    value, isRemoved: Boolean(isNewer && newest.value === undefined), isPresent: !isGone && (isNewer ? newest.value !== undefined : read !== null && !polled.error),
    batch: isNewer ? newest.batch : read?.info?.version, at: isNewer ? newest.at : read?.info?.commit_time_ms,
  };
}

function LiveMark({ live, found }) {
  if (!live) return html`<${Mark} kind="idle">paused<//>`;
  if (found.polled.error?.reason === "UNREACHABLE") return html`<${Mark} kind="bad">connection lost<//>`;
  if (!found.watched) return html`<${Mark} kind="good">read each second<//>`;
  const marks = { open: ["good", "live"], connecting: ["idle", "connecting"], lost: ["warn", "reconnecting"], refused: ["bad", "no watch"] };
  const [kind, text] = marks[found.watch.state];
  return html`<${Mark} kind=${kind}>${text}<//>`;
}

function NumberChart({ samples }) {
  const names = Object.keys(samples.at(-1)?.numbers ?? {});
  const lines = useMemo(() => ({
    times: samples.map((each) => each.at),
    series: names.map((name) => ({ label: name, values: samples.map((each) => each.numbers[name] ?? null) })),
  }), [samples, names.join("|")]);
  if (samples.length < 2) return null;
  return html`<${Chart} title=${`Since ${clock(samples[0].at)}`} times=${lines.times} series=${lines.series} stepped=${true} height=${140}
    format=${(number) => (Number.isInteger(number) ? count(number) : Number(number.toPrecision(6)).toString())} />`;
}

function Changes({ changes }) {
  if (!changes.length) return null;
  return html`<details class="changes" open><summary>${changes.length < MOST_CHANGES ? plural(changes.length, "change") : `more than ${count(MOST_CHANGES - 1)} changes`} seen</summary>
    <div class="scroll" tabindex="0" role="group" aria-label="Changes"><table><thead><tr><th class="number">batch</th><th>at</th><th>change</th></tr></thead>
    <tbody>${changes.slice(0, 30).map((change, index) => html`<tr key=${`${change.batch} ${changes.length - index}`}>
      <td class="number">${count(change.batch)}</td><td>${clock(change.at)}</td>
      <td class="wide mono">${change.window ? html`<span class="quiet">${windowText(change.window)} </span>` : null}${change.mapKey !== undefined ? `${brief(change.mapKey)}: ` : ""}${describe(change)}</td>
    </tr>`)}</tbody></table></div></details>`;
}

function describe(change) {
  const old = change.oldUnknown ? "?" : change.old === undefined ? null : brief(change.old).slice(0, 120);
  switch (change.kind) {
    case "DELETE": return html`<span class="quiet">${old}</span> removed`;
    case "CLEAR": return "cleared";
    case "APPEND": return `appended ${brief(change.value).slice(0, 200)}`;
    default: return html`${old === null ? null : html`<span class="quiet">${old} → </span>`}${brief(change.value).slice(0, 200)}`;
  }
}

/** The value with its origin, its chart and its changes. */
export function LiveValue({ found, type, live }) {
  const { polled, value } = found;
  const failed = polled.error && polled.error.reason !== "UNREACHABLE" && !(polled.error.reason === "UNKNOWN_KEY" && found.isPresent) ? polled.error : null;
  return html`
    ${failed ? html`<${Failure} error=${failed} again=${polled.again} />` : null}
    ${found.watch.state === "refused" && found.watched ? html`<${Notice} kind="warn" message=${`The server refuses to watch this key: ${found.watch.error?.message}`} />` : null}
    ${found.gap ? html`<${Notice} kind="warn" message=${`The servers no longer have the changes of batches ${found.gap.first_batch} to ${found.gap.last_batch}; the value was read again.`} />` : null}
    ${polled.data === null && !polled.error ? html`<p class="quiet" role="status">Reading …</p>` : null}
    ${found.isRemoved ? html`<${Notice} message=${`Nothing is stored under this key since batch ${count(found.batch)}.`} />` : null}
    ${value !== undefined ? html`<div class="value" aria-live="polite" aria-atomic="true"><div class="changed" key=${toJson(value)}><${Value} value=${value} type=${type} /></div></div>` : null}
    ${found.batch !== undefined ? html`<p class="origin"><${LiveMark} live=${live} found=${found} />
      <span>batch <b>${count(found.batch)}</b></span><span>committed ${clock(found.at)}</span>
      ${found.remaining !== undefined ? html`<span>expires ${duration(found.remaining)} after the read</span>` : null}
      ${found.info?.server_id ? html`<span>from <span class="mono">${found.info.server_id}</span></span>` : null}
      ${found.info?.complete_since_batch ? html`<${Mark} kind="warn">complete since batch ${count(found.info.complete_since_batch)}<//>` : null}</p>` : null}
    <${NumberChart} samples=${found.samples} />
    <${Changes} changes=${found.changes} />`;
}
