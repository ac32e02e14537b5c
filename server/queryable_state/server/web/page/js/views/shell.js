// The frame of the page: top line, connection, token, and the view of the address.

import { ago, clock } from "../lib/format.js";
import { linkState, onLink } from "../lib/link.js";
import { Offers, readOffers } from "../lib/offers.js";
import { useNow } from "../lib/polling.js";
import { linkTo, parseRoute } from "../lib/routes.js";
import { onToken, refusal, setToken, token } from "../lib/token.js";
import { html, useEffect, useState } from "../lib/view.js";
import { TokenDialog } from "../parts/token_dialog.js";
import { CompareView } from "./compare.js";
import { ExplainView } from "./explain.js";
import { JobView } from "./job.js";
import { JobsView } from "./jobs.js";
import { KeyView } from "./key.js";
import { ServersView } from "./servers.js";
import { StateView } from "./state.js";
import { UnknownView } from "./unknown.js";

const VIEWS = {
  jobs: JobsView, servers: ServersView, job: JobView, state: StateView, key: KeyView,
  explain: ExplainView, compare: CompareView, unknown: UnknownView,
};
const RETRY_MS = 2000;

function useRoute() {
  const [hash, setHash] = useState(window.location.hash);
  useEffect(() => {
    const change = () => {
      setHash(window.location.hash);
      document.activeElement?.blur?.();
    };
    window.addEventListener("hashchange", change);
    return () => window.removeEventListener("hashchange", change);
  }, []);
  return parseRoute(hash);
}

function useToken() {
  const [state, setState] = useState({ refused: refusal(), has: Boolean(token()) });
  useEffect(() => onToken(() => setState({ refused: refusal(), has: Boolean(token()) })), []);
  return state;
}

function LinkState() {
  const [link, setLink] = useState(linkState());
  const now = useNow();
  useEffect(() => onLink(setLink), []);
  const heardAt = linkState().heardAt;
  if (!link.lost) return html`<span class="mark good">connected</span>`;
  return html`<span class="mark bad" title=${`since ${clock(link.since)}`}>no answer${heardAt ? html`, last ${ago(heardAt, now)}` : null}</span>`;
}

function Lost() {
  const [link, setLink] = useState(linkState());
  useEffect(() => onLink(setLink), []);
  return html`<div role="status" aria-live="assertive">${link.lost ? html`<div class="lost"><strong>Connection lost at ${clock(link.since)}.</strong>
    <span>What you see is older. The page tries again by itself; if it stays so, check that the proxy or the driver at ${window.location.host} runs.</span></div>` : null}</div>`;
}

/** The offers of the server, asked for until it answers. */
function useOffered(refused) {
  const [offered, setOffered] = useState(undefined);
  useEffect(() => {
    if (offered !== undefined || refused) return undefined;
    const abort = new AbortController();
    let timer = 0;
    const step = () => readOffers(abort.signal).then(setOffered, () => {
      if (!abort.signal.aborted) timer = setTimeout(step, RETRY_MS);
    });
    step();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [offered, refused]);
  return offered;
}

export function Shell() {
  const route = useRoute();
  const auth = useToken();
  const offered = useOffered(auth.refused);
  const View = VIEWS[route.view];
  const here = (view) => (route.view === view || (view === "jobs" && route.job) ? "page" : undefined);
  const serves = (path) => !offered || offered.has(path);
  return html`<${Offers.Provider} value=${offered ?? null}>
    <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.getElementById("main").focus(); }}>Skip to content</a>
    <header class="top">
      <a class="brand" href=${linkTo("jobs")}><img src="icon.svg" alt="" />Queryable state</a>
      <nav aria-label="Main"><ul>
        <li><a href=${linkTo("jobs")} aria-current=${here("jobs")}>Jobs</a></li>
        ${serves("servers") ? html`<li><a href=${linkTo("servers")} aria-current=${here("servers")}>Servers</a></li>` : null}
      </ul></nav>
      <div class="link-state"><${LinkState} />
        ${auth.has ? html`<button class="plain" onClick=${() => setToken(null)}>Forget token</button>` : null}</div>
    </header>
    <${Lost} />
    <main id="main" tabindex="-1">${offered === undefined ? html`<p class="quiet" role="status">${auth.refused ? "This server needs a token." : "Connecting …"}</p>`
      : html`<${View} key=${[route.view, route.job, route.state, route.search.key].join(" ")} ...${route} />`}</main>
    ${auth.refused ? html`<${TokenDialog} message=${auth.refused} />` : null}
  <//>`;
}
