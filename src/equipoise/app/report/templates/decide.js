(function () {
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent).decide;
  if (!data || !byId("decide-miss")) return;
  const CASES = 1000, Z = 1.96;
  const [LEFT, RIGHT, TOP, BOTTOM] = [56, 400, 12, 280];
  const share = (value) => {
    const decimals = value >= 0.01 || value === 0 ? 1 : 2;
    return (Math.floor(100 * 10 ** decimals * value + 0.5) / 10 ** decimals).toFixed(decimals) + "%";
  };
  const amount = (value) =>
    value < 9.95 ? (Math.floor(10 * value + 0.5) / 10).toFixed(1) : Math.floor(value + 0.5).toLocaleString("en-US");
  const short = (value, digits) => String(Number(value.toPrecision(digits)));

  function wilson(hits, trials) {
    const p = hits / trials, square = Z * Z;
    const middle = (p + square / (2 * trials)) / (1 + square / trials);
    const half = Z / (1 + square / trials) * Math.sqrt(p * (1 - p) / trials + square / (4 * trials * trials));
    return { value: p, low: Math.min(Math.max(middle - half, 0), p), high: Math.max(Math.min(middle + half, 1), p) };
  }

  function sum(rates, weights, plus) { // MOVER, as in operating_points.py
    let value = plus, down = 0, up = 0;
    rates.forEach((rate, place) => {
      const weight = weights[place];
      const [below, above] = [rate.value - rate.low, rate.high - rate.value];
      value += weight * rate.value;
      down += (weight * (weight > 0 ? below : above)) ** 2;
      up += (weight * (weight > 0 ? above : below)) ** 2;
    });
    return { value, low: Math.max(value - Math.sqrt(down), 0), high: value + Math.sqrt(up) };
  }

  function next(estimate, spread) { // as for_next in intervals.py
    const { value, low, high } = estimate;
    const luck = value > 0 ? Z * spread / Math.sqrt(CASES * value) : 0;
    const down = Math.hypot(value - low, luck * Math.sqrt(low)), up = Math.hypot(high - value, luck * Math.sqrt(high));
    return { low: Math.max(value - down, 0), high: value + up };
  }

  function spreadOf(name, now, miss) { // as case_spreads in decide_texts.py
    const missed = now.missed.value / CASES, alarms = now.alarms.value / CASES, own = now[name].value / CASES;
    const variance = name === "cost" ? miss ** 2 * missed + alarms - (miss * missed + alarms) ** 2 : own * (1 - own);
    return CASES * Math.sqrt(Math.max(variance, 0));
  }

  function precisionOf(recall, rate, prevalence) {
    if (recall.value === 0 && rate.value === 0) return null;
    const odds = (1 - prevalence) / prevalence;
    if (recall.value === 0) return { value: 0, low: 0, high: 1 / (1 + odds * rate.low / recall.high) };
    const product = recall.value * rate.value;
    const part = (end, of) => end * (2 * of.value - end);
    const below = part(rate.low, rate), above = part(rate.high, rate);
    const less = part(recall.low, recall), more = part(recall.high, recall);
    const root = (inner) => Math.sqrt(Math.max(inner, 0));
    const bottom = below > 0 ? below / (product + root(product * product - below * more)) : 0;
    const top = (product + root(product * product - above * less)) / less;
    const at = (ratio) => 1 / (1 + odds * ratio);
    return { value: at(rate.value / recall.value), low: at(top), high: at(bottom) };
  }

  function placeOf(one, threshold, prevalence, budget) {
    let found = 0;
    one.thresholds.forEach((each, place) => {
      const named = prevalence * one.found[place] / one.positives + (1 - prevalence) * one.alarms[place] / one.negatives;
      if (each >= threshold && named <= budget + 1e-12) found = place;
    });
    return found;
  }

  function choose(one, miss, prevalence, budget) {
    const odds = prevalence / (1 - prevalence) * (1 - one.prior) / one.prior;
    const threshold = 1 / (1 + miss * odds);
    const place = placeOf(one, threshold, prevalence, budget / CASES);
    const limited = place < placeOf(one, threshold, prevalence, 1);
    const recall = wilson(one.found[place], one.positives), rate = wilson(one.alarms[place], one.negatives);
    const mine = CASES * prevalence, others = CASES * (1 - prevalence), rates = [recall, rate];
    let equivalent = miss;
    if (limited) {
      const middle = (Math.min(one.thresholds[place], 1) + one.thresholds[place + 1]) / 2;
      equivalent = Math.max(Number(((1 - middle) / middle / odds).toPrecision(4)), 0.001);
    }
    return {
      place, limited, recall, rate, equivalent, precision: precisionOf(recall, rate, prevalence),
      found: sum(rates, [mine, 0], 0), missed: sum(rates, [-mine, 0], mine), alarms: sum(rates, [0, others], 0),
      reviews: sum(rates, [mine, others], 0), cost: sum(rates, [-miss * mine, others], miss * mine),
    };
  }

  function sentence(one, now) {
    const limit = now.limited ? " The review budget sets the limit." : "";
    if (now.precision === null) return "No case is predicted as " + one.name + ": all are missed." + limit;
    const span = (each) => "(" + share(each.low) + " to " + share(each.high) + ")";
    return "At a threshold of " + share(one.thresholds[now.place]) + ", " + share(now.recall.value) + " of " + one.noun + " " +
      one.name + " is found " + span(now.recall) + "; " + share(now.precision.value) + " of these predictions are right " +
      span(now.precision) + ", and " + share(now.rate.value) + " of the others are false alarms." + limit;
  }

  const quote = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : "'" + text.replaceAll("'", "'\"'\"'") + "'");

  function priorFlag(one, prevalence) {
    if (prevalence === one.prior) return "";
    if (!data.names.length) return " --prior prior.json";
    const shares = data.names.map((name, place) => {
      if (name === one.name) return name + "=" + short(prevalence, 6);
      const rest = data.multilabel ? data.shares[place] : data.shares[place] * (1 - prevalence) / (1 - one.prior);
      return name + "=" + short(rest, 6);
    });
    return " --prior " + quote(shares.join(","));
  }

  function lines(one, now, cost, prevalence, budget) {
    const name = JSON.stringify(one.name), asked = one.asked;
    const own = asked && cost === asked.miss && prevalence === asked.prevalence && budget === CASES;
    const prior = prevalence === one.prior ? "" : ", class_prior={" + name + ": " + short(prevalence, 6) + "}";
    const byBudget = now.limited && one.rarer;
    const flag = byBudget ? "--review " + budget + "/" + CASES : "--cost " + quote("miss:" + one.name + "=" + now.equivalent);
    const rule = own ? asked.rule : byBudget
      ? "ReviewBudget(" + budget + ", per=" + CASES + prior + ")"
      : "Costs(miss={" + name + ": " + now.equivalent + "}" + prior + ")";
    return {
      command: own ? data.own + asked.flags : data.begun + " " + flag + priorFlag(one, prevalence),
      python: "from equipoise.decisions import " + rule.split("(")[0] + "\nclf.predict(X, decision=" + rule + ")",
    };
  }

  const x = (value) => (LEFT + (RIGHT - LEFT) * value).toFixed(1);
  const y = (value) => (BOTTOM - (BOTTOM - TOP) * value).toFixed(1);
  const path = (spots) => "M" + spots.map(([across, up]) => x(across) + " " + y(up)).join("L");

  function draw(id, guide, spots, across, up) {
    const part = (name) => document.querySelector("#decide-" + id + " ." + name);
    part("guide").setAttribute("d", path(guide));
    part("curve").setAttribute("d", path(spots));
    part("spread").setAttribute("d", "M" + x(across.low) + " " + y(up.value) + "H" + x(across.high) + "M" + x(across.value) + " " + y(up.low) + "V" + y(up.high));
    part("point").setAttribute("cx", x(across.value));
    part("point").setAttribute("cy", y(up.value));
  }

  function plots(one, now, prevalence) {
    const recall = one.found.map((count) => count / one.positives), rate = one.alarms.map((count) => count / one.negatives);
    const named = recall.map((value, place) => prevalence * value + (1 - prevalence) * rate[place]);
    const curve = recall.map((value, place) => [value, prevalence * value / named[place]]).filter((_, place) => named[place] > 0);
    draw("pr", [[0, prevalence], [1, prevalence]], curve, now.recall, now.precision || { value: 1, low: 0, high: 1 });
    draw("roc", [[0, 0], [1, 1]], recall.map((value, place) => [rate[place], value]), now.rate, now.recall);
  }

  const [picker, miss, prevalence, budget] = ["class", "miss", "prevalence", "budget"].map((id) => byId("decide-" + id));
  const current = () => data.classes[picker ? Number(picker.value) : 0];

  function tell(input, text) {
    byId(input.id + "-now").textContent = text;
    input.setAttribute("aria-valuetext", text);
  }

  function unbroken(text) {
    const part = document.createElement("span");
    part.className = "whole";
    part.textContent = text;
    return part;
  }

  function show() {
    const one = current();
    const cost = one.misses[Number(miss.value)], common = one.prevalences[Number(prevalence.value)];
    const most = data.budgets[Number(budget.value)];
    const now = choose(one, cost, common, most);
    tell(miss, cost + " false alarm" + (cost === 1 ? "" : "s"));
    tell(prevalence, share(common) + (common === one.own ? ", as held out" : ""));
    tell(budget, most === CASES ? "no limit" : most + " of 1,000 cases");
    byId("decide-said").textContent = sentence(one, now);
    const [first, second, third] = [miss, prevalence, budget].map((input) => byId(input.id + "-now").textContent);
    byId("decide-settings").textContent = "For " + one.name + ". Cost of a miss: " + first + ". Prevalence: " + second + ". Review budget: " + third + ".";
    byId("decide-basis").textContent = "From " + one.positives.toLocaleString("en-US") + " held-out of " + one.name + " and " + one.negatives.toLocaleString("en-US") + " others";
    for (const name of ["found", "missed", "alarms", "reviews", "cost"]) {
      byId("decide-" + name).textContent = amount(now[name].value);
      const ahead = next(now[name], spreadOf(name, now, cost));
      byId("decide-" + name + "-span").textContent = amount(now[name].low) + " to " + amount(now[name].high);
      byId("decide-" + name + "-next").textContent = amount(ahead.low) + " to " + amount(ahead.high);
    }
    const copied = lines(one, now, cost, common, most);
    byId("decide-command").replaceChildren(...copied.command.split(/(?= --)/).map(unbroken));
    byId("decide-python").textContent = copied.python;
    plots(one, now, common);
  }

  function reset() {
    const one = current();
    miss.max = one.misses.length - 1;
    miss.value = one.start;
    prevalence.max = one.prevalences.length - 1;
    prevalence.value = one.common;
    show();
  }

  function copier(button) {
    const label = button.textContent;
    button.hidden = false;
    button.addEventListener("click", async () => {
      const code = byId(button.dataset.copy), range = document.createRange();
      range.selectNodeContents(code);
      window.getSelection().removeAllRanges();
      window.getSelection().addRange(range);
      let copied = false;
      try { await navigator.clipboard.writeText(code.textContent); copied = true; } catch (error) { copied = document.execCommand("copy"); }
      button.textContent = copied ? "Copied" : "Selected";
      setTimeout(() => { button.textContent = label; }, 2000);
    });
  }

  for (const input of [miss, prevalence, budget]) input.addEventListener("input", show);
  if (picker) picker.addEventListener("change", reset);
  document.querySelectorAll("[data-copy]").forEach(copier);
  reset();
})();
