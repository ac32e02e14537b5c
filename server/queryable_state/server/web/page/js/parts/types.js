// The types of a state for people: an example of a key, and how a key is written in an address.

import { toJson } from "../lib/json.js";
import { parseType } from "../lib/type_text.js";

const EXAMPLES = {
  boolean: true, float: 1.5, double: 1.5, decimal: "1.50", string: "sensor_1", binary: "c2Vuc29y",
  date: "2013-01-31", timestamp: "2013-01-31T10:00:00Z", instant: "2013-01-31T10:00:00Z",
  timestamp_ntz: "2013-01-31T10:00:00", time: "10:00:00", big_int: "12345678901234567890",
};
// Their JSON is a string, which may be written without its quotes.
const WORDS = new Set(["string", "binary", "date", "timestamp", "instant", "timestamp_ntz", "time"]);

function exampleOf(type) {
  if (type?.name === "struct") return Object.fromEntries(type.fields.map((field) => [field.name, exampleOf(field.type)]));
  if (type?.name === "tuple") return type.fields.map((field) => exampleOf(field.type));
  return EXAMPLES[type?.name] ?? 7;
}

/** A key of a type as one would type it. */
export function exampleKey(type) {
  const example = exampleOf(type);
  return WORDS.has(type?.name) ? example : toJson(example);
}

/** The text of a key for the search field and for addresses: its JSON, or the plain word. */
export function keyText(value) {
  if (typeof value !== "string") return toJson(value);
  // A word that begins with a quote is read as JSON, and so is the word null.
  return value === "" || value === "null" || value.startsWith('"') ? toJson(value) : value;
}

// Nothing to see or to click on, or characters that change how the text around them reads.
const UNSEEN = /^$|^null$|^\s|\s$|\p{Cc}|[\u2028-\u202e\u2066-\u2069]/u;

function escaped(sign) {
  return `\\u${sign.codePointAt(0).toString(16).padStart(4, "0")}`;
}

/** The key of an address as people read it: without needless quotes, as JSON if it would not be seen. */
export function shownKey(text) {
  let word = text;
  try {
    if (text.startsWith('"')) word = JSON.parse(text);
  } catch {
    return text;
  }
  if (!UNSEEN.test(word) || word === "null" && text === word) return word;
  return toJson(word).replace(/[\u007f-\u009f\u2028-\u202e\u2066-\u2069]/gu, escaped);
}

/** The type of a whole answer: of a list state all elements, of a map state all entries. */
export function valueType(state) {
  const element = parseType(state?.value_type);
  switch (state?.kind) {
    case "LIST": case "OPERATOR_LIST": case "OPERATOR_UNION":
      return { name: "array", element, text: `array<${element?.text}>` };
    case "MAP": case "BROADCAST":
      return { name: "map", key: parseType(state.map_key_type), element, text: `map<${state.map_key_type},${element?.text}>` };
    default:
      return element;
  }
}
