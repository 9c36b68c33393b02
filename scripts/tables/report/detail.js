// One case: its frames with the text that was read on them, the question, the truth and the answer.

/** Show a case of the cell, or why there is none. */
function showDetail(at) {
  const place = document.getElementById("detail");
  if (at === undefined) {
    const gone = `Case ${state.case} is not among these; choose one from the list.`;
    place.replaceChildren(node("p", { class: "empty" }, state.case && matches.length ? gone : "No case to show."));
    return;
  }
  const question = questionOf(state.cell, at);
  const position = matches.indexOf(at) + 1;
  place.replaceChildren(
    node(
      "div",
      { class: "steps" },
      stepButton("Previous", "k", -1, position <= 1),
      stepButton("Next", "j", 1, position >= matches.length),
      node("span", {}, `${position.toLocaleString("en")} of ${matches.length.toLocaleString("en")}`),
    ),
    node("h3", {}, question.question),
    node("p", { class: "key" }, question.key),
    facts(question, at),
    frames(question, at),
  );
}

function stepButton(label, key, by, off) {
  const attributes = { type: "button", disabled: off, "aria-keyshortcuts": key };
  const button = node("button", attributes, `${label} `, node("kbd", {}, key));
  button.addEventListener("click", () => move(by));
  return button;
}

/** Truth, answer, scores and whatever else is known of the case. */
function facts(question, at) {
  const cases = casesOf(state.cell);
  const kind = verdict(at);
  const list = node("dl", { class: "facts" });
  const add = (name, ...value) => list.append(node("dt", {}, name), node("dd", {}, ...value));
  if (question.options) add("Options", options(question));
  const truth = question.answers.join(" / ");
  add("Truth", node("b", {}, question.ground_truth ? `${question.ground_truth}: ${truth}` : truth));
  add("Answer", node("b", {}, cases.answer[at] || "(empty)"), " ", node("span", { class: `badge ${kind}` }, kind));
  if (cases.raw[at] !== null) add("Raw reply", node("pre", {}, cases.raw[at] || "(empty)"));
  const judged = / by /; // told with the judgement
  const scores = Object.entries(cases.metrics).filter(([name, values]) => values[at] !== null && !judged.test(name));
  const shown = scores.map(([name, values]) => score(name, values[at]));
  if (scores.length) add("Scores", node("ul", { class: "scores" }, shown));
  for (const [judge, made] of Object.entries(cases.judged)) {
    if (made[at] && made[at].status !== "no_answer") add(`Judged by ${judge}`, ...judgement(made[at]));
  }
  if (cases.status[at] !== "ok") add("Status", cases.status[at], cases.detail[at] ? `: ${cases.detail[at]}` : "");
  add("Group", [question.category, ...(question.subsets || [])].join(", "));
  if (question.t_question !== undefined) add("Asked at", seconds(question.t_question));
  if (question.t_answer !== undefined) add("Answer seen at", seconds(question.t_answer));
  const spent = cost(cases, at);
  if (spent) add("Given", spent);
  return list;
}

function options(question) {
  const letters = question.options.map((option, i) => [String.fromCharCode(65 + i), option]);
  return node("ol", { class: "options" }, letters.map(([letter, option]) =>
    node("li", { class: letter === question.ground_truth ? "true" : "" }, `${letter}. ${option}`)));
}

function score(name, value) {
  const short = value.toFixed(3).replace(/\.?0+$/, "");
  return node("li", { class: name === state.metric ? "chosen" : "" }, `${name} ${short}`);
}

/** A verdict with its score, or why there is none; what was unusual; and what the judge wrote. */
function judgement({ status, verdict, score, flags = [], detail, raw, raw_repair, again_verdict, again_score }) {
  const told = (word, points) => (points === undefined ? word : `${word}, ${points} of 5`);
  const parts = [node("b", {}, status === "ok" ? told(verdict, score) : `not judged: ${status}`)];
  if (detail) parts.push(` (${detail})`);
  if (flags.length) parts.push(` [${flags.join(", ")}]`);
  if (again_verdict) parts.push(`, judged again: ${told(again_verdict, again_score)}`);
  return [...parts, ...[raw, raw_repair].filter(Boolean).map((text) => node("pre", {}, text))];
}

function cost(cases, at) {
  const [width, height] = cases.size[at];
  const parts = [];
  if (width) parts.push(`${width}×${height} pixels`);
  if (cases.tokens[at] !== null) parts.push(count(cases.tokens[at], "visual token"));
  if (cases.seconds[at]) parts.push(`${cases.seconds[at]} s`);
  return parts.join(", ");
}

/** The frames that the sampler chose, and which of them the model was given. */
function frames(question, at) {
  const cell = load("report").cells[state.cell];
  const plan = (load(`plans:${cell.dataset}/${cell.sampler}`) || [])[casesOf(state.cell).question[at]];
  const list = plan?.frames || [];
  const title = node("h4", {}, `Frames (${cell.sampler}, ${cell.resolution})`);
  if (!list.length) {
    const why = plan ? plan.status || "none sampled" : "not sampled";
    return node("div", {}, title, node("p", { class: "empty" }, `No frames: ${why}.`));
  }
  const read = load(`ocr:${cell.dataset}/${cell.sampler}/${cell.resolution}`);
  const used = casesOf(state.cell).used[at];
  const notes = [
    plan.note,
    used ? `The model was given ${used.length} of these ${list.length}.` : "",
    load("report").problems[`${cell.dataset}/${question.video}`],
    read ? "" : "No text was read on frames of this sampler and resolution: no model of the tables asks for it.",
  ].filter(Boolean);
  const pictures = load(`pictures:${cell.dataset}/${question.video}`) || {};
  const figures = list.map((index, i) =>
    frame({
      index,
      t: plan.times[i],
      picture: pictures[index],
      read: read?.[question.video]?.[index],
      unused: used ? !used.includes(i) : false,
    }),
  );
  const lines = notes.map((note) => node("p", { class: "note" }, note));
  return node("div", {}, title, lines, node("div", { class: "frames" }, figures));
}

function frame({ index, t, picture, read, unused }) {
  const [width, height, boxes] = read || [16, 9, []];
  const view = node("div", { class: "view" });
  if (picture) {
    view.append(node("img", { src: `data:image/jpeg;base64,${picture}`, alt: `Frame at ${seconds(t)}` }));
  } else {
    view.append(node("p", { class: "blank" }, "no picture"));
    view.style.aspectRatio = `${width} / ${height}`;
  }
  const caption = node("figcaption", {}, node("b", {}, seconds(t)), ` frame ${index}`, unused ? ", not given" : "");
  if (boxes.length) view.append(overlay(width, height, boxes));
  const text = boxes.map(([content]) => content).join(" · ");
  return node(
    "figure",
    { class: unused ? "frame unused" : "frame" },
    view,
    caption,
    read ? node("p", { class: "read", title: text }, text || "no text read") : null,
  );
}

/** The boxes of the text, in the source's pixels, laid over the picture whatever its size. */
function overlay(width, height, boxes) {
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", class: "boxes" });
  svg.setAttribute("aria-hidden", "true"); // the text is below the picture as well
  for (const [content, confidence, corners] of boxes) {
    const title = draw("title", {}, `${content} (${Math.round(confidence * 100)} % sure)`);
    const points = corners.join(" ");
    svg.append(draw("polygon", { points, class: "halo" }), draw("polygon", { points }, title));
  }
  return svg;
}
