// Entry of the page.

import { html, render } from "./lib/view.js";
import { Shell } from "./views/shell.js";

render(html`<${Shell} />`, document.getElementById("app"));
