// SPDX-License-Identifier: BSL-1.0
// Browsers start no Worker for a page that is opened from disk. There, the site's search worker runs in a hidden frame. The name
// IFrameWorker is what Material for MkDocs' worker looks for in the frame's parent.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      const inside = frame.contentWindow;
      const load = (source) =>
        new Promise((resolve, reject) => {
          const script = inside.document.createElement("script");
          script.src = new URL(source, document.baseURI).href;
          script.onload = resolve;
          script.onerror = reject;
          inside.document.body.appendChild(script);
        });
      inside.importScripts = (...sources) => Promise.all(sources.map(load));
      inside.postMessage = (data) => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        this.onmessage?.(event);
      };
      this._inside = inside;
      this._ready = load(url);
    }
    postMessage(data) {
      this._ready.then(() => this._inside.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {
      this._inside.frameElement.remove();
    }
  };
  window.Worker = window.IFrameWorker;
}
