// Hash routes: every view has an address, `#/jobs/NAME/states/STATE/key?key=...`.

const PATTERNS = [
  ["jobs", []],
  ["servers", ["servers"]],
  ["job", ["jobs", ":job"]],
  ["state", ["jobs", ":job", "states", ":state"]],
  ["key", ["jobs", ":job", "states", ":state", "key"]],
  ["explain", ["jobs", ":job", "states", ":state", "explain"]],
  ["compare", ["jobs", ":job", "states", ":state", "compare"]],
];

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** The view of a hash, with its names and its query; `view` is "unknown" if there is none. */
export function parseRoute(hash) {
  const [path, query = ""] = hash.replace(/^#/, "").split(/\?(.*)/s);
  const parts = path.split("/").filter(Boolean).map(decoded);
  if (parts.length === 1 && parts[0] === "jobs") parts.pop();
  const search = Object.fromEntries(new URLSearchParams(query));
  for (const [view, pattern] of PATTERNS) {
    if (pattern.length !== parts.length) continue;
    const names = {};
    const fits = pattern.every((expected, index) => {
      if (!expected.startsWith(":")) return expected === parts[index];
      names[expected.slice(1)] = parts[index];
      return true;
    });
    if (fits) return { view, ...names, search };
  }
  return { view: "unknown", search };
}

/** The hash of a view. */
export function linkTo(view, names = {}, search = {}) {
  const pattern = PATTERNS.find(([each]) => each === view)[1];
  const path = pattern.map((part) => encodeURIComponent(part.startsWith(":") ? names[part.slice(1)] : part));
  const given = Object.entries(search).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const query = new URLSearchParams(given).toString();
  return `#/${path.join("/")}${query ? `?${query}` : ""}`;
}

export function go(hash) {
  window.location.hash = hash;
}
