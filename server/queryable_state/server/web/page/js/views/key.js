// One key: its value, live; its windows and timers.

import { useOffers } from "../lib/offers.js";
import { useNow } from "../lib/polling.js";
import { go, linkTo } from "../lib/routes.js";
import { html, useState } from "../lib/view.js";
import { KeySearch } from "../parts/key_search.js";
import { LiveValue, useLiveValue } from "../parts/live_value.js";
import { shownKey, valueType } from "../parts/types.js";
import { Answer, Block, Notice, Title, jobCrumbs } from "../parts/ui.js";
import { Timers, Windows, spanOf, windowIn, windowText } from "../parts/windows.js";
import { useRegistration } from "./state.js";

function windowOf(search) {
  const window = windowIn(search);
  return window && spanOf(window);
}

function Current({ job, state, keyName, window, registration, live }) {
  const found = useLiveValue({ job, state, keyName, window, kind: registration.kind, live });
  return html`<${LiveValue} found=${found} type=${valueType(registration)} live=${live} />`;
}

function Comparing({ job, state, keyName }) {
  const [text, setText] = useState("");
  const submit = (event) => {
    event.preventDefault();
    if (text) go(linkTo("compare", { job, state }, { a: keyName, b: text }));
  };
  return html`<form class="prefix" onSubmit=${submit}><label for="other">compare with</label>
    <input id="other" class="mono" value=${text} placeholder="another key" onInput=${(event) => setText(event.target.value)} spellcheck="false" autocomplete="off" autocapitalize="off" required />
    <button>Compare</button></form>`;
}

function Facts({ job, state, keyName, window, registration, live }) {
  const offers = useOffers();
  const now = useNow();
  const whole = !registration.windowed || window;
  return html`
    ${whole ? html`<${Current} key=${JSON.stringify(window)} job=${job} state=${state} keyName=${keyName} window=${window} registration=${registration} live=${live} />` : null}
    ${registration.windowed ? html`<${Block} title="Windows"><${Windows} job=${job} state=${state} keyName=${keyName} type=${valueType(registration)} chosen=${window} /><//>` : null}
    ${offers("jobs/{job}/timers") ? html`<${Block} title="Timers" aside=${registration.operator_name || registration.operator_uid}><${Timers} job=${job} keyName=${keyName} operator=${registration.operator_uid} now=${now} /><//>` : null}`;
}

export function KeyView({ job, state, search }) {
  const registered = useRegistration(job, state);
  const [live, setLive] = useState(true);
  const keyName = search.key ?? "";
  const window = windowOf(search);
  const crumbs = jobCrumbs(job, state);
  if (window) crumbs.push({ text: shownKey(keyName), href: linkTo("key", { job, state }, { key: keyName }) });
  const title = window ? windowText(windowIn(window)) : shownKey(keyName);
  return html`<${Title} text=${title || "No key"} crumbs=${crumbs}>
      ${keyName ? html`<button aria-pressed=${live} onClick=${() => setLive(!live)}>${live ? "Live" : "Paused"}</button>
        <a class="button" href=${linkTo("explain", { job, state }, search)}>Explain</a>` : null}
    <//>
    <${KeySearch} job=${job} state=${state} registration=${registered.data} value=${keyName} />
    ${keyName ? html`<${Answer} polled=${registered}>${(registration) => html`<${Facts} job=${job} state=${state} keyName=${keyName} window=${window} registration=${registration} live=${live} />
        ${registration.windowed ? null : html`<${Comparing} job=${job} state=${state} keyName=${keyName} />`}`}<//>`
      : html`<${Notice} message="The address has no key." step="Enter a key above." />`}`;
}
