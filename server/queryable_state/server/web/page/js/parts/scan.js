// The keys of a state, page by page, all as of one batch.

import { ask, statePath } from "../lib/api.js";
import { clock, count, duration, plural } from "../lib/format.js";
import { linkTo } from "../lib/routes.js";
import { html, useEffect, useRef, useState } from "../lib/view.js";
import { spanOf, windowText } from "./windows.js";
import { keyText, shownKey } from "./types.js";
import { brief } from "./value.js";
import { Failure, Notice } from "./ui.js";

const PAGE = 50;

/** Pages of a scan, read on demand. */
function useScan(job, state, prefix, onKeys) {
  const [pages, setPages] = useState({ keys: [], cursor: null, info: null, error: null, busy: true, complete: true });
  const abort = useRef(null);
  async function read(cursor) {
    abort.current?.abort();
    abort.current = new AbortController();
    const { signal } = abort.current;
    setPages((last) => ({ ...last, busy: true, error: null }));
    try {
      const query = { limit: PAGE, cursor, prefix, allow_newer: cursor ? 1 : undefined };
      const page = await ask(statePath(job, state, "scan"), { query, signal });
      onKeys(page.keys.map((each) => keyText(each.key)));
      setPages((last) => ({
        keys: cursor ? [...last.keys, ...page.keys] : page.keys, cursor: page.cursor ?? null, info: page.info,
        error: null, busy: false, complete: page.complete && (!cursor || last.complete), newer: page.newer || (cursor && last.newer),
      }));
    } catch (error) {
      if (!signal.aborted) setPages((last) => ({ ...last, busy: false, error }));
    }
  }
  useEffect(() => {
    setPages({ keys: [], cursor: null, info: null, error: null, busy: true, complete: true });
    read(null);
    return () => abort.current?.abort();
  }, [job, state, prefix]);
  return { ...pages, more: () => read(pages.cursor), again: () => read(null) };
}

export function Scan({ job, state, prefix, onKeys, windowed, type }) {
  const scan = useScan(job, state, prefix, onKeys);
  const withExpiry = scan.keys.some((each) => each.remaining_ms !== undefined);
  const [compared, setCompared] = useState(null);
  return html`
    ${scan.error ? html`<${Failure} error=${scan.error} again=${scan.again} />` : null}
    ${scan.newer ? html`<${Notice} kind="warn" message="The batch of the first page is compacted: later pages are of a newer one, so a key may be missing or appear twice." />` : null}
    ${scan.complete ? null : html`<${Notice} kind="warn" message="Not all key groups have answered: keys are missing here." step="See the findings of the job." />`}
    ${compared ? html`<p class="quiet" role="status">Choose a second key to compare with <code>${shownKey(compared)}</code>. <button class="plain" onClick=${() => setCompared(null)}>Cancel</button></p>` : null}
    ${scan.keys.length ? html`<div class="scroll" tabindex="0" role="group" aria-label="Table of keys"><table class="stacks scan">
      <thead><tr><th>key</th>${windowed ? html`<th>window</th>` : null}<th>value</th>${withExpiry ? html`<th class="number">expires in</th>` : null}<th><span class="sr-only">actions</span></th></tr></thead>
      <tbody>${scan.keys.map((each, index) => {
        const key = keyText(each.key);
        const span = spanOf(each.window);
        return html`<tr key=${`${index} ${key}`}>
          <th scope="row" class="key"><a class="mono" href=${linkTo("key", { job, state }, { key, ...span })}>${shownKey(key)}</a></th>
          ${windowed ? html`<td data-label="window">${each.window ? windowText(each.window) : "–"}</td>` : null}
          <td class="wide full">${each.error ? html`<span class="bad">${each.error.message}</span>` : html`<span class="clip mono" title=${brief(each.value, type).slice(0, 400)}>${brief(each.value, type).slice(0, 400)}</span>`}</td>
          ${withExpiry ? html`<td class="number" data-label="expires in">${each.remaining_ms !== undefined ? duration(each.remaining_ms) : "–"}</td>` : null}
          <td class="number">${compared === null ? html`<button class="plain quiet" aria-label=${`Compare ${key} with another key`} onClick=${() => setCompared(key)}>compare</button>`
            : compared === key ? html`<span class="quiet">chosen</span>`
            : html`<a href=${linkTo("compare", { job, state }, { a: compared, b: key })} aria-label=${`Compare ${compared} with ${key}`}>with this</a>`}</td>
        </tr>`;
      })}</tbody></table></div>`
      : scan.busy ? html`<p class="quiet" role="status">Scanning …</p>`
      : scan.error ? null : html`<${Notice} message=${prefix ? `No key begins with ${prefix}.` : "This state has no keys at the newest batch."} step=${prefix ? "Shorten the prefix." : "Keys appear when the job has committed rows for them; values that have expired are not shown."} />`}
    <p class="below" role="status">${scan.keys.length ? html`<span class="quiet">${plural(scan.keys.length, "row")}${scan.info ? ` as of batch ${count(scan.info.version)}, committed ${clock(scan.info.commit_time_ms)}` : ""}</span>` : null}
      ${scan.cursor ? html`<button disabled=${scan.busy} onClick=${scan.more}>${scan.busy ? "Reading …" : "Next page"}</button>` : null}
      ${scan.keys.length && !scan.busy ? html`<button onClick=${scan.again}>Read again</button>` : null}</p>`;
}
