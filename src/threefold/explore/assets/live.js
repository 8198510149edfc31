"use strict";
// Panels that ask their own server: dimensions and cost at a length, and speech as it is heard.
async function ask(name, given) {
  const answer = await fetch(`/api/${name}?${new URLSearchParams(given)}`);
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.error);
  return body;
}

PANELS.dimensions = function (panel) {
  const form = node("form", { class: "fields" }, panel.sliders);
  const fields = {};
  for (const [axis, value] of Object.entries(panel.data.sizes)) {
    const label = node("label", {}, form, `${axis} `);
    fields[axis] = node("input", { type: "number", min: 0, step: 1, value, name: axis, required: "" }, label);
  }
  const show = async () => {
    try {
      const given = Object.fromEntries(Object.entries(fields).map(([axis, field]) => [axis, field.value]));
      const found = await ask("dimensions", given);
      panel.answer.textContent = found.verdict;
      panel.opened = true;
      panel.table(found.header, found.rows);
    } catch (error) { panel.answer.textContent = error.message; }
  };
  form.addEventListener("input", show);
  form.addEventListener("submit", (event) => { event.preventDefault(); show(); });
  show();
};

PANELS.ear = function (panel) {
  const label = node("label", {}, panel.sliders, "a sound file (wav, flac) ");
  const chooser = node("input", { type: "file", accept: "audio/*" }, label);
  const record = node("button", { type: "button" }, panel.sliders, "Record");
  const text = node("p", { class: "heard", lang: panel.data.language || "" }, panel.drawing);
  const send = async (sound) => {
    text.textContent = "";
    panel.answer.textContent = "listening …";
    try {
      const answer = await fetch("/hear", { method: "POST", body: sound });
      if (!answer.ok) throw new Error((await answer.json()).error);
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let rest = "", step = await reader.read(); !step.done; step = await reader.read()) {
        const lines = (rest + step.value).split("\n");
        rest = lines.pop();
        for (const line of lines.filter(Boolean)) {
          const row = JSON.parse(line);
          if (row.error) throw new Error(row.error);
          text.textContent += row.text || "";
          if (row.says) panel.answer.textContent = row.says;
        }
      }
    } catch (error) { panel.answer.textContent = error.message; }
  };
  chooser.addEventListener("change", () => { if (chooser.files.length) send(chooser.files[0]); });
  let stop = null;
  record.addEventListener("click", async () => {
    if (stop) { stop(); return; }
    try { stop = await recording((wav) => { stop = null; record.textContent = "Record"; send(wav); }); record.textContent = "Stop"; }
    catch (error) { panel.answer.textContent = `no microphone: ${error.message}`; }
  });
};

async function recording(done) {
  const stream = await navigator.mediaDevices.getUserMedia({ audio: true });
  const context = new AudioContext(), source = context.createMediaStreamSource(stream);
  const tap = context.createScriptProcessor(4096, 1, 1), pieces = [];
  tap.onaudioprocess = (event) => pieces.push(new Float32Array(event.inputBuffer.getChannelData(0)));
  source.connect(tap); tap.connect(context.destination);
  return () => {
    stream.getTracks().forEach((track) => track.stop());
    const rate = context.sampleRate;
    context.close();
    done(wav(pieces, rate));
  };
}

function wav(pieces, rate) {
  const count = pieces.reduce((n, p) => n + p.length, 0), view = new DataView(new ArrayBuffer(44 + 2 * count));
  const word = (at, text) => [...text].forEach((c, i) => view.setUint8(at + i, c.charCodeAt(0)));
  word(0, "RIFF"); view.setUint32(4, 36 + 2 * count, true); word(8, "WAVEfmt "); view.setUint32(16, 16, true);
  view.setUint16(20, 1, true); view.setUint16(22, 1, true); view.setUint32(24, rate, true); view.setUint32(28, 2 * rate, true);
  view.setUint16(32, 2, true); view.setUint16(34, 16, true); word(36, "data"); view.setUint32(40, 2 * count, true);
  let at = 44;
  for (const piece of pieces) for (const v of piece) { view.setInt16(at, Math.max(-1, Math.min(1, v)) * 32767, true); at += 2; }
  return new Blob([view], { type: "audio/wav" });
}
