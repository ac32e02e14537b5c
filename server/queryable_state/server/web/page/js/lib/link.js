// The state of the connection to the server: when it last answered, and whether it does now.

const listeners = new Set();
let state = { lost: false, since: 0, heardAt: 0 };

function change(next) {
  const told = next.lost !== state.lost;
  state = next;
  if (told) listeners.forEach((listener) => listener(state));
}

export function heard() {
  change({ lost: false, since: 0, heardAt: Date.now() });
}

export function unheard() {
  change({ ...state, lost: true, since: state.lost ? state.since : Date.now() });
}

export function linkState() {
  return state;
}

export function onLink(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
