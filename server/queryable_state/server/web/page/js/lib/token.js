// The caller's token: kept for this browser tab only, never in an address.

const NAME = "queryable-state-token";
const listeners = new Set();
let refused = null;

export function token() {
  return sessionStorage.getItem(NAME);
}

export function setToken(text) {
  if (text) sessionStorage.setItem(NAME, text);
  else sessionStorage.removeItem(NAME);
  refused = null;
  listeners.forEach((listener) => listener());
}

/** The server's words, if it has refused a request for lack of a valid token; else null. */
export function refusal() {
  return refused;
}

/** Called when the server answers 401 to a request that was sent with `sent`. */
export function refuse(message, sent) {
  if (sent !== token() || refused === message) return;
  refused = message;
  listeners.forEach((listener) => listener());
}

export function onToken(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
