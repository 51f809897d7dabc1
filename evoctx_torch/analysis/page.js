"use strict";
// The browser of single trajectories. All text enters the page as text nodes, never as markup.
const data = JSON.parse(document.getElementById("data").textContent);
const items = [...document.querySelectorAll("#list > li")];
const detail = document.getElementById("detail");
const controls = ["search", "outcome", "action"].map((id) => document.getElementById(id));

function node(tag, className, ...children) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}
const fixed = (value, digits = 3) => (typeof value === "number" ? value.toFixed(digits) : String(value));
const plural = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
const field = (name, content) => node("div", "field", node("span", "name", name), content);
const badge = (action) => node("span", `badge ${action.toLowerCase()}`, action);

function longText(text) {
  if (text.length < 700) return node("p", "text", text);
  return node("details", "", node("summary", "", `${text.slice(0, 160).trim()}…`), node("p", "text", text));
}

function passageList(passages) {
  return node("ul", "passages", ...passages.map((passage) => {
    const title = passage.title || passage.id;
    const score = passage.score === null ? null : node("span", "score", fixed(passage.score));
    const contents = data.contents[passage.id];
    if (contents === undefined) return node("li", "", title, score);
    const body = contents.startsWith(`${title}\n`) ? contents.slice(title.length + 1) : contents;
    return node("li", "", node("details", "", node("summary", "", title, score), node("p", "", body)));
  }));
}

// Each distance as a bar on a scale from 0 to 1, its threshold as a tick.
function distances(round) {
  const bars = node("div", "bars");
  for (const [name, label] of Object.entries(data.signals)) {
    const value = round.signals[name];
    const threshold = data.thresholds[name];
    const fill = node("i");
    fill.style.width = `${100 * Math.max(0, Math.min(1, Number(value) || (value === "inf" ? 1 : 0)))}%`;
    fill.style.background = `var(--${name})`;
    const bar = node("div", "bar", fill);
    let figure = fixed(value);
    if (threshold !== undefined) {
      const tick = node("b");
      tick.style.left = `${100 * Math.min(1, threshold)}%`;
      bar.append(tick);
      figure += ` of ${threshold}`;
    }
    bar.setAttribute("role", "img");
    bar.setAttribute("aria-label", `${label} distance ${figure}`);
    bars.append(node("span", "", label), bar, node("span", value >= threshold ? "beyond" : "", figure));
  }
  return bars;
}

function roundCard(round, index) {
  const card = node("section", "round", node("h4", "", `Round ${index + 1}`, round.action ? badge(round.action) : Object.keys(round.notes).length ? "" : "not finished"));
  if (round.reason) card.append(node("p", "because", `${round.reason[0].toUpperCase()}${round.reason.slice(1)}.`));
  if (Object.keys(round.signals).length) {
    card.append(distances(round), node("p", "small", `Score ${fixed(round.score)}, against ${plural(round.boundary, "text")} of the boundary`));
  }
  if (round.trace) card.append(field("Trace", longText(round.trace)));
  if (round.probe) card.append(field("Measured text", longText(round.probe)));
  if (round.subquery) card.append(field("Sub-query", node("p", "text", round.subquery)));
  if (round.query) card.append(field("Search query", longText(round.query)));
  if (round.passages.length) card.append(field("New passages", passageList(round.passages)));
  else if (round.query) card.append(field("New passages", "none"));
  for (const [key, value] of Object.entries(round.notes)) {
    const name = key.replaceAll("_", " ");
    const text = typeof value === "string" ? value : JSON.stringify(value);
    card.append(field(name[0].toUpperCase() + name.slice(1), text.length < 80 ? text : longText(text)));
  }
  return card;
}

function facts(pairs) {
  const list = node("dl", "facts");
  for (const [name, value] of pairs) if (value) list.append(node("dt", "", name), node("dd", "", value));
  return list;
}

function summary(row, trajectory) {
  const recall = typeof row.evidence_recall === "number" ? `, evidence recall ${fixed(row.evidence_recall, 2)}` : "";
  const roles = trajectory ? Object.entries(trajectory.roles).map(([role, count]) => `${role} ${count}`).join(", ") : "";
  const raw = row.raw_answer && row.raw_answer.trim() !== row.prediction ? longText(row.raw_answer) : null;
  return facts([
    ["Answer", row.prediction || "(empty)"],
    ["Expected", row.golden_answers.join(" or ")],
    ["Outcome", node("span", "", node("span", `outcome ${row.outcome}`, row.outcome), ` – EM ${row.em}, F1 ${fixed(row.f1, 2)}, Acc ${row.acc}${recall}; finished by ${row.finish_reason}`)],
    ["Error", row.error],
    ["Reply", raw],
    ["Cost", `${plural(row.llm_calls, "model call")}${roles ? ` (${roles})` : ""}, ${plural(row.retrieval_calls, "retrieval")}, ${plural(row.retrieved_passages, "passage")} (${row.unique_passages} different), ${plural(row.prompt_tokens, "prompt token")}, ${row.completion_tokens.toLocaleString("en")} written`],
    ["Dropped", trajectory && trajectory.dropped.length ? `passages ${trajectory.dropped.join(", ")}: the prompt was too long` : ""],
  ]);
}

function show(index) {
  const row = data.rows[index];
  const trajectory = data.trajectories[index];
  detail.replaceChildren(node("p", "small", `${index + 1} of ${data.rows.length.toLocaleString("en")} · id ${row.id}`), node("h3", "", row.question), summary(row, trajectory));
  if (!trajectory) {
    detail.append(node("p", "small", "The rounds of this question are not in this page; `evoctx replay` tells them."));
  } else {
    const { query, passages } = trajectory.bootstrap;
    if (passages.length) {
      const start = node("section", "round", node("h4", "", "First retrieval"));
      if (query && query !== row.question) start.append(field("Search query", longText(query)));
      start.append(field("Passages", passageList(passages)));
      detail.append(start);
    }
    detail.append(...trajectory.rounds.map(roundCard));
  }
  for (const button of document.querySelectorAll("#list [aria-current]")) button.removeAttribute("aria-current");
  items[index].firstElementChild.setAttribute("aria-current", "true");
}

function choose(index, focus) {
  show(index);
  history.replaceState(null, "", `#q=${encodeURIComponent(data.rows[index].id)}`);
  if (focus) detail.focus({ preventScroll: window.innerWidth > 900 });
}

const haystacks = data.rows.map((row) => [row.question, row.prediction, row.id, ...row.golden_answers].join("\n").toLowerCase());

function filter() {
  const [search, outcome, action] = controls.map((control) => (control ? control.value : ""));
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const [mode, wanted] = action.split(" ");
  let shown = 0;
  items.forEach((item, index) => {
    const actions = item.dataset.actions.split(" ").filter(Boolean);
    const kept = words.every((word) => haystacks[index].includes(word))
      && (!outcome || item.dataset.outcome === outcome)
      && (mode !== "with" || actions.includes(wanted))
      && (mode !== "only" || (actions.length > 0 && actions.every((taken) => taken === wanted)));
    item.hidden = !kept;
    shown += kept;
  });
  document.getElementById("shown").textContent = shown === items.length ? plural(shown, "question") : `${shown.toLocaleString("en")} of ${plural(items.length, "question")}`;
}

function fromAddress() {
  if (!location.hash.startsWith("#q=")) return false;
  const wanted = location.hash.slice(3);
  const index = data.rows.findIndex((row) => encodeURIComponent(row.id) === wanted);
  if (index < 0) return false;
  show(index);
  items[index].scrollIntoView({ block: "nearest" });
  document.getElementById("questions").scrollIntoView();
  return true;
}

items.forEach((item, index) => item.firstElementChild.addEventListener("click", () => choose(index, true)));
for (const control of controls) if (control) control.addEventListener("input", filter);
document.getElementById("filters").addEventListener("submit", (event) => event.preventDefault());
window.addEventListener("hashchange", fromAddress);
if (!fromAddress() && items.length) show(0);
