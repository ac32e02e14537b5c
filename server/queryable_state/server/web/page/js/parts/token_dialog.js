// The question for a token, asked when the server refuses a request without a valid one.

import { setToken } from "../lib/token.js";
import { html, useEffect, useRef, useState } from "../lib/view.js";

export function TokenDialog({ message }) {
  const dialog = useRef(null);
  const [text, setText] = useState("");
  useEffect(() => dialog.current.showModal(), []);
  const submit = (event) => {
    event.preventDefault();
    if (text.trim()) setToken(text.trim());
  };
  return html`<dialog ref=${dialog} aria-labelledby="token-title" aria-describedby="token-why" onCancel=${(event) => event.preventDefault()}>
    <form onSubmit=${submit}>
      <h2 id="token-title">This server needs a token</h2>
      <p id="token-why" role="alert">${message}</p>
      <label for="token">Token of the access file, or a JWT</label>
      <input id="token" type="password" autocomplete="off" spellcheck="false" value=${text} onInput=${(event) => setText(event.target.value)} autofocus required />
      <p class="quiet">It stays in this tab until you close it, and goes to this server only. <code>queryable-state token</code> makes one.</p>
      <div class="buttons"><button class="primary">Continue</button></div>
    </form>
  </dialog>`;
}
