// The paths that this server offers, by its OpenAPI document: the page hides what is missing.

import { ask } from "./api.js";
import { createContext, useContext } from "./view.js";

function shape(path) {
  return path.replace(/^\/?(api\/v1\/)?/, "").replace(/\{[^}]*\}/g, "{}").replace(/\/$/, "");
}

/** Reads the document; without one everything counts as offered, and an error says the rest. */
export async function readOffers(signal) {
  try {
    const document = await ask("openapi.json", { signal });
    return new Set(Object.keys(document.paths ?? {}).map(shape));
  } catch (error) {
    if (error.name === "AbortError" || [0, 401].includes(error.status)) throw error;
    return null;
  }
}

export const Offers = createContext(null);

/** A function that tells whether a path such as "jobs/{job}/hot-keys" is offered. */
export function useOffers() {
  const offers = useContext(Offers);
  return (path) => offers === null || offers.has(shape(path));
}
