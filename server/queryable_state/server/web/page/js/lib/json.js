// JSON whose integers stay exact: those that a double cannot hold become BigInt.

function exact(_name, value, context) {
  if (typeof value !== "number" || Number.isSafeInteger(value)) return value;
  const source = context?.source;
  return source !== undefined && /^-?\d+$/.test(source) ? BigInt(source) : value;
}

/** Parses JSON text; throws SyntaxError. */
export function parseJson(text) {
  return JSON.parse(text, exact);
}

/** The value of a field such as `value_json`; undefined if it is empty. */
export function parseField(text) {
  if (text === undefined || text === null || text === "") return undefined;
  if (typeof text !== "string") return text;
  try {
    return parseJson(text);
  } catch {
    return text;
  }
}

/** JSON text of a parsed value, BigInt as a plain integer. */
export function toJson(value, indent) {
  const integers = [];
  const text = JSON.stringify(value, (_name, each) => {
    if (typeof each !== "bigint") return each;
    integers.push(each.toString());
    return `\u0000${integers.length - 1}\u0000`;
  }, indent);
  return text?.replace(/"\\u0000(\d+)\\u0000"/g, (_all, index) => integers[Number(index)]);
}

/** The text of a base64 string if it is printable UTF-8, else null; and its bytes. */
export function bytesOf(base64) {
  let binary;
  try {
    binary = atob(base64);
  } catch {
    return { bytes: new Uint8Array(), text: null };
  }
  const bytes = Uint8Array.from(binary, (each) => each.charCodeAt(0));
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return { bytes, text: /^[\P{C}\n\t]*$/u.test(text) ? text : null };
  } catch {
    return { bytes, text: null };
  }
}
