// Keeps an open page true: it asks again, counts ages, and covers the page while there is no answer.
const silence = 30000; // how long an answer may take, in milliseconds
let skew = 0; // of the clock of the server, against this one
let lost = 0; // since when there is no answer; 0: there is

const main = () => document.getElementById("main");

// unit is a duration in one unit, as the server writes it.
function unit(ms) {
  const s = Math.max(0, ms) / 1000;
  if (s < 120) return Math.floor(s) + " s";
  if (s < 7200) return Math.floor(s / 60) + " min";
  if (s < 172800) return Math.floor(s / 3600) + " h";
  return Math.floor(s / 86400) + " days";
}

function ago(at) {
  const passed = Date.now() + skew - at;
  return passed < -1000 ? "in " + unit(-passed) : unit(passed) + " ago";
}

function say(id, text) {
  const e = document.getElementById(id);
  if (e && e.textContent !== text) e.textContent = text;
}

function tick() {
  for (const t of document.querySelectorAll("time[data-ago]")) {
    const text = ago(Date.parse(t.dateTime));
    if (t.textContent !== text) t.textContent = text;
  }
  const looked = main().dataset.looked;
  const age = looked ? "Looked " + ago(Date.parse(looked)) : "";
  say("age", age);
  if (lost) say("stale", looked ? ago(Date.parse(looked)) : "before");
}

// morph makes one element like another, and keeps what is the same: focus, scrolled tables and open details stay.
function morph(to, from) {
  for (const { name } of [...to.attributes]) {
    if (!from.hasAttribute(name) && !(name === "open" && to.nodeName === "DETAILS")) to.removeAttribute(name);
  }
  for (const { name, value } of from.attributes) {
    if (to.getAttribute(name) !== value) to.setAttribute(name, value);
  }
  if (to.nodeName === "INPUT") return;
  const wanted = [...from.childNodes];
  for (let i = 0; i < wanted.length; i++) {
    const have = to.childNodes[i], want = wanted[i];
    if (!have) to.append(want);
    else if (have.nodeType !== want.nodeType || have.nodeName !== want.nodeName || have.id !== want.id) have.replaceWith(want);
    else if (have.nodeType === Node.ELEMENT_NODE) morph(have, want);
    else if (have.nodeValue !== want.nodeValue) have.nodeValue = want.nodeValue;
  }
  while (to.childNodes.length > wanted.length) to.lastChild.remove();
}

function cover(why) {
  lost = lost || Date.now();
  say("why", why);
  document.getElementById("cover").hidden = false;
  main().inert = true;
  tick();
}

function uncover() {
  lost = 0;
  document.getElementById("cover").hidden = true;
  main().inert = false;
}

// dress adds a button to each command that can be copied, and the page's title to the window.
function dress() {
  document.title = main().dataset.title + " - Quorate";
  document.documentElement.dataset.level = main().dataset.level;
  skew = Date.parse(main().dataset.now) - Date.now();
  if (!navigator.clipboard) return;
  for (const code of document.querySelectorAll("code[data-copy]")) {
    const button = document.createElement("button");
    button.className = "copy";
    button.type = "button";
    button.textContent = "Copy";
    button.setAttribute("aria-label", "Copy " + code.textContent);
    button.addEventListener("click", () => navigator.clipboard.writeText(code.textContent).then(() => { button.textContent = "Copied"; }));
    code.after(button);
  }
}

async function look() {
  let answer, text;
  try {
    answer = await fetch(location.href, { headers: { "Quorate-Part": "1" }, cache: "no-store", signal: AbortSignal.timeout(silence) });
    text = await answer.text();
  } catch {
    cover("quorate dashboard does not answer. It may have been ended.");
    return;
  }
  const page = new DOMParser().parseFromString(text, "text/html");
  const fresh = page.getElementById("main");
  if (!answer.ok || !fresh) {
    cover(page.querySelector(".problem, [role=alert]")?.textContent.trim() || "The answer was " + answer.status + ".");
    return;
  }
  const had = document.activeElement?.matches?.("button.copy") ? document.activeElement.previousElementSibling?.textContent : "";
  document.querySelectorAll("button.copy").forEach((b) => b.remove());
  morph(main(), fresh);
  dress();
  if (had) [...document.querySelectorAll("code[data-copy]")].find((c) => c.textContent === had)?.nextElementSibling?.focus();
  uncover();
  tick();
}

async function keep() {
  for (;;) {
    const every = Number(main().dataset.every);
    if (!every) return;
    await new Promise((done) => setTimeout(done, every));
    if (document.hidden) await new Promise((done) => document.addEventListener("visibilitychange", done, { once: true }));
    await look();
  }
}

dress();
tick();
setInterval(tick, 1000);
keep();
