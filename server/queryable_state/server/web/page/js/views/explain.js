// What the servers did for one look-up, as a timeline.

import { ask, statePath, ApiError } from "../lib/api.js";
import { linkTo } from "../lib/routes.js";
import { html, useEffect, useState } from "../lib/view.js";
import { KeySearch } from "../parts/key_search.js";
import { Timeline, TraceFacts } from "../parts/trace.js";
import { shownKey, valueType } from "../parts/types.js";
import { Block, Failure, Title, jobCrumbs } from "../parts/ui.js";
import { Value } from "../parts/value.js";
import { useRegistration } from "./state.js";

export function ExplainView({ job, state, search }) {
  const registered = useRegistration(job, state);
  const [answer, setAnswer] = useState({ data: null, error: null });
  const [turn, setTurn] = useState(0);
  const asked = JSON.stringify(search);
  useEffect(() => {
    const abort = new AbortController();
    ask(statePath(job, state, "value"), { query: { ...search, explain: 1 }, signal: abort.signal }).then(
      (data) => setAnswer({ data, error: null }),
      (error) => abort.signal.aborted || setAnswer({ data: null, error }),
    );
    return () => abort.abort();
  }, [job, state, asked, turn]);
  const { data, error } = answer;
  const crumbs = [...jobCrumbs(job, state), { text: shownKey(search.key ?? ""), href: linkTo("key", { job, state }, search) }];
  const again = () => setTurn(turn + 1);
  return html`<${Title} text="Explain" crumbs=${crumbs}><button onClick=${again}>Look up again</button><//>
    <${KeySearch} job=${job} state=${state} registration=${registered.data} value=${search.key ?? ""} />
    ${error ? html`<${Failure} error=${error} again=${again} />` : null}
    ${!data && !error ? html`<p class="quiet" role="status">Looking up …</p>` : null}
    ${data?.error ? html`<${Failure} error=${new ApiError(200, data.error)} />` : null}
    ${data?.trace ? html`<${TraceFacts} trace=${data.trace} /><${Block} title="Timeline"><${Timeline} trace=${data.trace} /><//>` : null}
    ${data && data.value !== undefined ? html`<${Block} title="Value" aside=${`batch ${data.info?.version}`}><div class="value"><${Value} value=${data.value} type=${valueType(registered.data)} /></div><//>` : null}`;
}
