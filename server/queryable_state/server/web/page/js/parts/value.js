// A value, drawn by its type: structs and maps as name and value, lists as numbered elements,
// times with their zone, opaque bytes with their length.

import { bytes, count } from "../lib/format.js";
import { bytesOf, toJson } from "../lib/json.js";
import { html, useState } from "../lib/view.js";

const FIRST = 50;

function Opaque({ base64, what }) {
  const [open, setOpen] = useState(false);
  const { bytes: raw, text } = bytesOf(base64);
  if (text !== null && what === "binary") return html`<span class="v-text">${text}</span> <span class="v-type">${bytes(raw.length)}, UTF-8</span>`;
  const hex = Array.from(raw.slice(0, 256), (each) => each.toString(16).padStart(2, "0")).join(" ");
  return html`<span class="v-opaque">${what}, ${bytes(raw.length)}
    <button class="plain" aria-expanded=${open} onClick=${() => setOpen(!open)}>${open ? "hide bytes" : "show bytes"}</button>
    ${open ? html`<pre class="v-hex">${hex}${raw.length > 256 ? " …" : ""}</pre>` : null}</span>`;
}

function Entries({ pairs, label }) {
  const [shown, setShown] = useState(FIRST);
  if (!pairs.length) return html`<span class="quiet">${label === "list" ? "an empty list" : "no entries"}</span>`;
  return html`<dl class=${`v-entries v-${label}`}>
      ${pairs.slice(0, shown).map(([name, value, type]) => html`<div key=${name}><dt>${name}</dt><dd><${Value} value=${value} type=${type} /></dd></div>`)}
    </dl>
    ${pairs.length > shown ? html`<button class="plain" onClick=${() => setShown(shown + 500)}>Show more of ${count(pairs.length)}</button>` : null}`;
}

/** The kind of bytes that only the job can read, and their base64; null for any other value. */
function opaqueIn(value, type) {
  if (value === null || typeof value !== "object" || ["map", "struct"].includes(type?.name)) return null;
  const [[name, base64] = [], more] = Object.entries(value);
  if (more || typeof base64 !== "string") return null;
  return { $pickled: { base64, what: "pickle" }, $serialized: { base64, what: "bytes of the job's serializer" } }[name] ?? null;
}

/** Any JSON value; `type` may be missing, then the value alone decides. */
export function Value({ value, type }) {
  if (value === undefined) return html`<span class="quiet">nothing</span>`;
  if (value === null) return html`<span class="v-null">null</span>`;
  const opaque = opaqueIn(value, type);
  if (opaque) return html`<${Opaque} ...${opaque} />`;
  if (type?.name === "binary" && typeof value === "string") return html`<${Opaque} base64=${value} what="binary" />`;
  if (Array.isArray(value)) {
    const typeAt = (index) => (type?.name === "tuple" ? type.fields?.[index]?.type : type?.element);
    return html`<${Entries} label="list" pairs=${value.map((each, index) => [index, each, typeAt(index)])} />`;
  }
  if (typeof value === "object") {
    const typeOf = (name) => (type?.name === "struct" ? type.fields?.find((field) => field.name === name)?.type : type?.element);
    return html`<${Entries} label=${type?.name === "map" ? "map" : "row"} pairs=${Object.entries(value).map(([name, each]) => [name, each, typeOf(name)])} />`;
  }
  return html`<${Scalar} value=${value} type=${type} />`;
}

function Scalar({ value, type }) {
  if (typeof value === "boolean") return html`<span class="v-bool">${String(value)}</span>`;
  if (typeof value === "number" || typeof value === "bigint") return html`<span class="v-number">${String(value)}</span>`;
  switch (type?.name) {
    case "timestamp": case "instant": {
      const local = new Date(value);
      const known = !Number.isNaN(local.getTime());
      return html`<time datetime=${value} class="v-time">${value.replace("T", " ")}</time>${known ? html` <span class="v-type">${local.toLocaleString()} here</span>` : null}`;
    }
    case "timestamp_ntz": return html`<span class="v-time">${value.replace("T", " ")}</span> <span class="v-type">no zone</span>`;
    case "date": case "time": return html`<span class="v-time">${value}</span>`;
    case "decimal": case "big_int": case "double": case "float": return html`<span class="v-number">${value}</span>`;
    default: return value === "" ? html`<span class="quiet">empty text</span>` : html`<span class="v-text">${value}</span>`;
  }
}

/** A value in one line, cut by the cell around it. */
export function brief(value, type) {
  if (value === undefined) return "–";
  if (typeof value === "string") return value;
  const opaque = opaqueIn(value, type);
  return opaque ? `${opaque.what}, ${bytes(bytesOf(opaque.base64).bytes.length)}` : toJson(value);
}

/** The numbers of a value that a chart can follow: itself, or the fields of a row. */
export function numbersIn(value) {
  const numeric = (each) => typeof each === "number" || typeof each === "bigint" || (typeof each === "string" && /^-?\d+(\.\d+)?$/.test(each));
  if (numeric(value)) return { value: Number(value) };
  if (value === null || typeof value !== "object" || Array.isArray(value)) return {};
  return Object.fromEntries(Object.entries(value).filter(([, each]) => numeric(each)).slice(0, 3).map(([name, each]) => [name, Number(each)]));
}
