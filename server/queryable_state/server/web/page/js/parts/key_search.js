// The field to look a key up, with an example of its type and the keys seen before.

import { linkTo, go } from "../lib/routes.js";
import { html, useEffect, useRef, useState } from "../lib/view.js";
import { parseType } from "../lib/type_text.js";
import { exampleKey } from "./types.js";

export function KeySearch({ job, state, registration, seen = [], value = "", label = "Key" }) {
  const [text, setText] = useState(value);
  const field = useRef(null);
  useEffect(() => setText(value), [value]);
  useEffect(() => {
    const focus = (event) => {
      const typing = ["INPUT", "TEXTAREA", "SELECT"].includes(document.activeElement?.tagName);
      if (event.key !== "/" || typing || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      field.current?.focus();
      field.current?.select();
    };
    document.addEventListener("keydown", focus);
    return () => document.removeEventListener("keydown", focus);
  }, []);
  const type = parseType(registration?.key_type);
  const submit = (event) => {
    event.preventDefault();
    if (text) go(linkTo("key", { job, state }, { key: text }));
  };
  return html`<form class="search" role="search" onSubmit=${submit}>
    <label for="key">${label}</label>
    <input id="key" class="mono" ref=${field} value=${text} onInput=${(event) => setText(event.target.value)} list="seen-keys" spellcheck="false" autocomplete="off" autocapitalize="off" aria-describedby="key-type" placeholder=${type ? `such as ${exampleKey(type)}` : ""} required />
    <datalist id="seen-keys">${seen.slice(0, 200).map((each) => html`<option value=${each} key=${each} />`)}</datalist>
    <button class="primary">Look up</button>
    <span id="key-type" class="quiet">${type ? html`<code>${type.text}</code> ` : null}<kbd>/</kbd> to focus</span>
  </form>`;
}
