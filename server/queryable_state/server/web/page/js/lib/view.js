// Preact with tagged templates: the only place that names the vendored file.
export {
  html, render, createContext,
  useState, useEffect, useLayoutEffect, useRef, useMemo, useCallback, useContext,
} from "../../vendor/htm/standalone.module.js";
