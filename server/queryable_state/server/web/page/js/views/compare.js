// Two keys of a state side by side; what differs is marked.

import { linkTo, go } from "../lib/routes.js";
import { html, useEffect, useState } from "../lib/view.js";
import { toJson } from "../lib/json.js";
import { useLiveValue } from "../parts/live_value.js";
import { shownKey, valueType } from "../parts/types.js";
import { Answer, Failure, Title, jobCrumbs } from "../parts/ui.js";
import { Value } from "../parts/value.js";
import { clock, count } from "../lib/format.js";
import { useRegistration } from "./state.js";

/** A value as rows of names: its fields, entries or elements; else one row whose name is null. */
export function rowsOf(value) {
  if (value === undefined) return new Map();
  if (value !== null && typeof value === "object") return new Map(Object.entries(value));
  return new Map([[null, value]]);
}

function typeOf(type, name) {
  if (name === null) return type;
  if (type?.name === "struct") return type.fields.find((field) => field.name === name)?.type;
  if (type?.name === "tuple") return type.fields[Number(name)]?.type;
  return type?.element;
}

function Head({ found, job, state, keyName }) {
  return html`<th scope="col"><a class="mono" href=${linkTo("key", { job, state }, { key: keyName })}>${shownKey(keyName)}</a>
    <span class="quiet">${found.batch !== undefined ? `batch ${count(found.batch)}, ${clock(found.at)}` : ""}</span></th>`;
}

function Table({ job, state, a, b, registration }) {
  const one = useLiveValue({ job, state, keyName: a, kind: registration.kind, live: true });
  const other = useLiveValue({ job, state, keyName: b, kind: registration.kind, live: true });
  const type = valueType(registration);
  const [left, right] = [rowsOf(one.value), rowsOf(other.value)];
  const names = [...new Set([...left.keys(), ...right.keys()])];
  const differing = names.filter((name) => toJson(left.get(name)) !== toJson(right.get(name)));
  const cell = (rows, name) => (rows.has(name) ? html`<${Value} value=${rows.get(name)} type=${typeOf(type, name)} />` : html`<span class="quiet">none</span>`);
  return html`
    ${[one, other].map((each) => (each.polled.error ? html`<${Failure} error=${each.polled.error} again=${each.polled.again} />` : null))}
    <p class="quiet" role="status">${differing.length ? `${count(differing.length)} of ${count(names.length)} differ` : names.length ? "The values are equal." : ""}</p>
    <div class="scroll" tabindex="0" role="group" aria-label="Comparison"><table class="compare">
      <thead><tr><th><span class="sr-only">field</span></th><${Head} found=${one} job=${job} state=${state} keyName=${a} /><${Head} found=${other} job=${job} state=${state} keyName=${b} /></tr></thead>
      <tbody>${names.map((name) => {
        const differs = differing.includes(name);
        return html`<tr key=${name} class=${differs ? "differs" : ""}><th scope="row">${name === null ? "value" : shownKey(name)}${differs ? html`<span class="sr-only"> differs</span>` : null}</th>
          <td>${cell(left, name)}</td><td>${cell(right, name)}</td></tr>`;
      })}</tbody></table></div>`;
}

function Keys({ job, state, a, b }) {
  const [texts, setTexts] = useState({ a, b });
  useEffect(() => setTexts({ a, b }), [a, b]);
  const submit = (event) => {
    event.preventDefault();
    go(linkTo("compare", { job, state }, texts));
  };
  const field = (name, label) => html`<label for=${`key-${name}`}>${label}</label>
    <input id=${`key-${name}`} class="mono" value=${texts[name]} onInput=${(event) => setTexts({ ...texts, [name]: event.target.value })} spellcheck="false" autocomplete="off" required />`;
  return html`<form class="search" onSubmit=${submit}>${field("a", "Key")}${field("b", "with")}<button class="primary">Compare</button></form>`;
}

export function CompareView({ job, state, search }) {
  const registered = useRegistration(job, state);
  const { a = "", b = "" } = search;
  return html`<${Title} text="Compare" crumbs=${jobCrumbs(job, state)} />
    <${Keys} job=${job} state=${state} a=${a} b=${b} />
    ${a && b ? html`<${Answer} polled=${registered}>${(registration) => html`<${Table} key=${`${a} ${b}`} job=${job} state=${state} a=${a} b=${b} registration=${registration} />`}<//>` : null}`;
}
