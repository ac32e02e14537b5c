// One state: look a key up, or read its keys page by page.

import { statePath } from "../lib/api.js";
import { NOT_HASH_PARTITIONED, bytes, count, duration, words } from "../lib/format.js";
import { useOffers } from "../lib/offers.js";
import { usePolled } from "../lib/polling.js";
import { go, linkTo } from "../lib/routes.js";
import { html, useEffect, useState } from "../lib/view.js";
import { HotKeys } from "../parts/hot_keys.js";
import { KeySearch } from "../parts/key_search.js";
import { Scan } from "../parts/scan.js";
import { valueType } from "../parts/types.js";
import { Block, Failure, Title, jobCrumbs } from "../parts/ui.js";

/** The registration of a state; read once, because types change with a restart only. */
export function useRegistration(job, state) {
  return usePolled(statePath(job, state), null, 60_000);
}

// A count reads up to 32,000 records of each subtask.
const SIZE_MS = 60_000;

function estimate(number, error) {
  return html`${count(number ?? 0)}${error ? html` <span class="quiet">± ${count(error)}</span>` : null}`;
}

function Size({ job, state, windowed }) {
  const size = usePolled(statePath(job, state, "size"), null, SIZE_MS).data;
  if (!size) return null;
  return html`<div><dt>keys</dt><dd>${estimate(size.keys, size.keys_error)}</dd></div>
    ${windowed || size.records !== size.keys ? html`<div><dt>records</dt><dd>${estimate(size.records, size.records_error)}</dd></div>` : null}
    <div><dt>size</dt><dd>${bytes(size.bytes ?? 0)}${size.complete ? null : html` <span class="quiet">some servers have not answered</span>`}</dd></div>`;
}

export function StateFacts({ registration, job, state }) {
  const offers = useOffers();
  if (!registration) return null;
  return html`<dl class="facts inline">
    <div><dt>kind</dt><dd>${words(registration.kind)}</dd></div>
    <div><dt>key</dt><dd><code>${registration.key_type}</code></dd></div>
    <div><dt>value</dt><dd><code>${valueType(registration)?.text ?? "–"}</code></dd></div>
    ${registration.windowed ? html`<div><dt>namespace</dt><dd>windows of time</dd></div>` : null}
    ${registration.ttl_ms ? html`<div><dt>values expire after</dt><dd>${duration(registration.ttl_ms)}</dd></div>` : null}
    ${registration.ttl_per_value ? html`<div><dt>values expire</dt><dd>each at a time of its own</dd></div>` : null}
    ${registration.asks_all_partitions ? html`<div><dt>partitions</dt><dd>${NOT_HASH_PARTITIONED}</dd></div>` : null}
    <div><dt>operator</dt><dd>${registration.operator_name || registration.operator_uid}</dd></div>
    ${offers("jobs/{job}/states/{state}/size") ? html`<${Size} job=${job} state=${state} windowed=${registration.windowed} />` : null}
  </dl>`;
}

function Prefix({ job, state, prefix }) {
  const [text, setText] = useState(prefix ?? "");
  useEffect(() => setText(prefix ?? ""), [prefix]);
  const submit = (event) => {
    event.preventDefault();
    go(linkTo("state", { job, state }, { prefix: text }));
  };
  return html`<form class="prefix" onSubmit=${submit}><label for="prefix">begins with</label>
    <input id="prefix" class="mono" value=${text} onInput=${(event) => setText(event.target.value)} spellcheck="false" autocomplete="off" autocapitalize="off" />
    <button>Scan</button></form>`;
}

export function StateView({ job, state, search }) {
  const offers = useOffers();
  const described = useRegistration(job, state);
  const [seen, setSeen] = useState([]);
  const registration = described.data;
  const addSeen = (keys) => setSeen((last) => [...new Set([...last, ...keys])].slice(-500));
  const withPrefix = registration && /^(string|binary|tuple|struct)/.test(registration.key_type);
  return html`<${Title} text=${state} crumbs=${jobCrumbs(job)} />
    ${described.error && !registration ? html`<${Failure} error=${described.error} again=${described.again} />` : null}
    <${StateFacts} registration=${registration} job=${job} state=${state} />
    ${described.error && !registration ? null : html`<${KeySearch} job=${job} state=${state} registration=${registration} seen=${seen} />`}
    ${registration && offers("jobs/{job}/states/{state}/scan") ? html`<${Block} title="Keys" aside=${withPrefix ? html`<${Prefix} job=${job} state=${state} prefix=${search.prefix} />` : null}>
      <${Scan} key=${search.prefix} job=${job} state=${state} prefix=${search.prefix} onKeys=${addSeen} windowed=${registration.windowed} type=${valueType(registration)} /><//>` : null}
    ${registration && offers("jobs/{job}/states/{state}/hot-keys") ? html`<${Block} title="Hot keys" aside="last minute"><${HotKeys} path=${statePath(job, state, "hot-keys")} job=${job} withState=${false} /><//>` : null}`;
}
