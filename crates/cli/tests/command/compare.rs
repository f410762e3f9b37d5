//! `nodeward sim compare`: nodeward reaches its goals, and the documentation is current.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::outcome::{NODEWARD, is_long};

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");

fn run(words: &[&str]) -> Output {
    Command::new(NODEWARD).args(["sim", "compare", "--quiet"]).args(words).output().unwrap()
}

/// Runs a command that ends with this code. Returns its output as JSON.
fn json(code: i32, words: &[&str]) -> Value {
    let output = run(words);
    let stderr = String::from_utf8(output.stderr).unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(code), "{words:?}: {stderr}{told}");
    serde_json::from_str(&told).unwrap_or_else(|_| panic!("{stderr}"))
}

/// Returns the goals of a load: their quantity, and whether they are reached.
fn goals(case: &Value) -> Vec<(&str, bool)> {
    let goals = case["goals"].as_array().unwrap().iter();
    goals.map(|goal| (goal["what"].as_str().unwrap(), goal["reached"] == true)).collect()
}

const BESIDE: [&str; 5] = ["local", "local-as-kernel", "home-as-kernel", "pages-of-kernel", "work"];

/// Loads that are simulated quickly, of which `make test` takes the first; SPEC.md has figures of
/// all of them.
const QUICK: [&str; 5] = ["2012-wrong", "2012-split", "wide", "shared", "sides"];

/// Goal: in the case of 2012 with wrong or split memory, at least 95 % of lines become local, as
/// local as under the kernel's NUMA balancing, as soon, with at most as many pages moved, or half
/// where threads can move; so many become local of the program wider than a node, too; no load
/// loses work. The page in docs/ has these tables.
#[test]
fn goals_are_reached_and_the_page_is_current() {
    let written = tempfile::tempdir().unwrap();
    let docs = ["--json", "--docs", written.path().to_str().unwrap()];
    let loads = if is_long() { &QUICK[..] } else { &QUICK[..1] };
    let told = json(0, &[loads, &docs].concat());
    assert_eq!(told["schema"], "nodeward.sim.compare/1");
    let cases = told["cases"].as_array().unwrap();
    assert_eq!(cases.len(), loads.len());
    for case in cases {
        let name = case["name"].as_str().unwrap();
        let expected = match name {
            "2012-wrong" | "2012-split" => &BESIDE[..],
            "wide" => &["local", "work"],
            _ => &["work"],
        };
        let expected: Vec<_> = expected.iter().map(|&what| (what, true)).collect();
        assert_eq!(goals(case), expected, "{name}: {case:#}");
    }
    current(written.path());
}

/// Checks that the pictures of the documentation are those that the command draws, and that its
/// page contains the command's text for these loads.
fn current(written: &Path) {
    for entry in fs::read_dir(written).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let committed = fs::read_to_string(Path::new(DOCS).join(name)).unwrap_or_default();
        let text = fs::read_to_string(&path).unwrap();
        let is_current = match name.ends_with(".md") {
            true => text.lines().all(|line| committed.lines().any(|other| other == line)),
            false => text == committed,
        };
        assert!(
            is_current,
            "docs/{name} is old: `nodeward sim compare --docs docs` writes it anew"
        );
    }
}

/// Returns the parts of each cell of the table of loads, by load and column. The text after the
/// name of a load describes it.
fn cells(text: &str) -> BTreeMap<(String, String), Vec<String>> {
    let table = text.lines().skip_while(|line| !line.starts_with("| load |"));
    let words = |row: &str| -> Vec<String> {
        let row = row.replace("**", "");
        row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let rows: Vec<_> = table.take_while(|line| line.starts_with('|')).map(words).collect();
    let mut cells = BTreeMap::new();
    for row in rows.iter().skip(2) {
        let load = row[0].split(':').next().unwrap();
        for (column, cell) in rows[0].iter().zip(row).skip(1) {
            let parts = cell.split(", ").map(str::to_owned).collect();
            cells.insert((load.to_owned(), column.clone()), parts);
        }
    }
    cells
}

/// Goal: README.md has every load of the page's table, and its cells have only values from there.
#[test]
fn the_readme_has_figures_of_the_same_table() {
    let read = |name: &str| cells(&fs::read_to_string(Path::new(DOCS).join(name)).unwrap());
    let (page, readme) = (read("balance-sim.md"), read("../README.md"));
    let loads = |cells: &BTreeMap<(String, String), Vec<String>>| -> BTreeSet<String> {
        cells.keys().map(|(load, _)| load.clone()).collect()
    };
    assert!(loads(&page).len() > 9, "{page:?}");
    assert_eq!(loads(&readme), loads(&page));
    for (place, parts) in &readme {
        let whole = &page[place];
        assert!(parts.iter().all(|part| whole.contains(part)), "{place:?}: {parts:?}, {whole:?}");
    }
}

/// Goal: on drawn machines with constant loads, no page moves once memory is at home; and on some
/// of them it had to come home.
#[test]
fn what_is_at_home_stays_there() {
    let told = json(0, &["--figure", "static", "--seeds", "6"]);
    assert_eq!((&told["measured"], &told["restless"]), (&0.into(), &Value::Array(Vec::new())));
    assert!(told["machines"].as_u64().unwrap() >= 5, "{told}");
    assert!(told["came_home"].as_u64().unwrap() >= 3, "{told}");
}

/// Goal: such a machine can be printed as a scenario, on which the balancer, run by hand, moves as
/// many pages. Other figures have no machines of their own.
#[test]
fn a_machine_is_printed_as_a_scenario() {
    let seed = "251";
    let one = ["--figure", "static", "--from", seed, "--seeds", "1"];
    let told = json(0, &one);
    assert_eq!(told["came_home"], 1, "{told}: choose another seed");
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("machine.toml");
    let printed = run(&[&one[..], &["--print"]].concat()).stdout;
    let text = String::from_utf8(printed).unwrap();
    assert!(
        text.starts_with("# nodeward balance --machine sim:FILE --seed 251 --for 140s "),
        "{text}"
    );
    fs::write(&file, text).unwrap();
    let machine = format!("sim:{}", file.display());
    let words = ["balance", "--machine", &machine, "--seed", seed, "--for", "140s", "--json"];
    let rounds = Command::new(NODEWARD).args(words).output().unwrap().stdout;
    let moved = |line: &str| serde_json::from_str::<Value>(line).unwrap()["moved_pages"].as_u64();
    let moved: u64 = String::from_utf8(rounds).unwrap().lines().filter_map(moved).sum();
    assert_eq!(Some(moved), told["pages_before"].as_u64());
    assert_eq!(run(&["--figure", "work", "--print"]).status.code(), Some(2));
}

/// Goal: a figure of SPEC.md uses the runs that it needs, and is the worst of the named loads.
#[test]
fn a_figure_is_that_of_the_worst_load() {
    let figures = ["local", "work", "kernel-work", "pages", "beside-work", "beside-pages"];
    for figure in figures {
        let told = json(0, &["wide", "2012-wrong", "--limit", "2s", "--figure", figure]);
        assert_eq!(told["unit"].as_str(), (figure == "local").then_some("%"), "{told}");
        let cases = told["cases"].as_object().unwrap();
        assert_eq!(cases.keys().collect::<Vec<_>>(), ["2012-wrong", "wide"], "{told}");
        let values: Vec<_> = cases.values().map(|value| value.as_f64().unwrap()).collect();
        let worst = match figure {
            "pages" | "beside-pages" => values.into_iter().fold(0.0, f64::max),
            _ => values.into_iter().fold(f64::INFINITY, f64::min),
        };
        assert_eq!(told["measured"].as_f64(), Some(worst));
    }
}

/// Two programs whose memory lies on the node where they do not begin; the kernel balances, unless
/// a balancer says otherwise.
const OWN: &str = r#"
about = "two of mine"
distances = [[10, 21], [21, 10]]
time = "4s"
numa-balancing = true

[[node]]
id = 0
cpus = "0-1"
memory = "1GiB"

[[node]]
id = 1
cpus = "2-3"
memory = "1GiB"

[[workload]]
name = "mine"
kind = "triad"
processes = 2
threads = 2
memory = "32MiB"
populated = true
place = "away"
"#;

/// Goal: a scenario of one's own is compared like any load, without goals: with several seeds
/// medians and spans, under the balancers that are named, of which the scenario is none.
#[test]
fn a_load_of_ones_own() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("mine.toml");
    fs::write(&file, OWN).unwrap();
    let file = file.to_str().unwrap();
    let balancers = ["--balancers", "nothing,kernel,nodeward"];
    let told = json(0, &[&["--json", file, "--seeds", "3"], &balancers[..]].concat());
    let case = &told["cases"][0];
    assert_eq!((&case["name"], &case["about"]), (&file.into(), &"two of mine".into()));
    assert_eq!(case["goals"], Value::Array(Vec::new()));
    let [nothing, kernel, ours] = case["entries"].as_array().unwrap().as_slice() else {
        panic!("three balancers: {case:#}");
    };
    assert_eq!((&nothing["pages"], &nothing["work_milli"]), (&0.into(), &1000.into()));
    assert!(kernel["pages"].as_u64().unwrap() > 0, "the kernel balances: {kernel:#}");
    // Work is relative to what is done without a balancer, so then it is not known.
    let alone = json(0, &["--json", file, "--balancers", "kernel"]);
    assert_eq!(alone["cases"][0]["entries"][0]["work_milli"], Value::Null, "{alone:#}");
    assert!(kernel["command"].as_str().unwrap().ends_with("--set numa-balancing=true"));
    let span = |figure: &str| {
        let at = |end: &str| ours["span"][end][figure].as_u64().unwrap();
        [at("least"), ours[figure].as_u64().unwrap(), at("most")]
    };
    assert_eq!(ours["span"]["runs"], 3);
    assert!(span("local_milli").is_sorted() && span("pages").is_sorted(), "{ours:#}");
    assert!(ours["local_milli"].as_u64() > nothing["local_milli"].as_u64(), "{case:#}");
    let text = String::from_utf8(run(&[file, "--balancers", "nothing"]).stdout).unwrap();
    assert!(text.contains("mine.toml: two of mine, 4 s\n"), "{text}");
}

/// Goal: nodeward decides by the settings of a file, and by those alone: with threads only it moves
/// no page, for processes of another name it does nothing, and a mistake in the file, or a node
/// that the load does not have, is told.
#[test]
fn settings_of_ones_own() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str, text: &str| {
        let file = directory.path().join(name);
        fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let load = path("mine.toml", OWN);
    let under = |name: &str, settings: &str| {
        let file = path(name, settings);
        // One half of the memory of each program lies on either node.
        let split = ["--set", "workload.mine.place=left:0-1", "--balancers", "nothing,nodeward"];
        let told = json(0, &[&[&load, "--json", "--settings", &file], &split[..]].concat());
        assert_eq!(told["settings"], *file);
        let ours = &told["cases"][0]["entries"][1];
        [&ours["pages"], &ours["local_milli"]].map(|figure| figure.as_u64().unwrap())
    };
    let [pages, local] = under("empty.toml", "");
    assert!(pages > 0, "by its defaults");
    assert_eq!(under("threads.toml", "[balance]\nmove-memory = false\n")[0], 0);
    let [pages, elsewhere] = under("others.toml", "[balance]\nnames = ['of-others']\n");
    assert!(pages == 0 && elsewhere < local, "of others: {pages} pages, {elsewhere}");
    for (text, expected) in [
        ("[balance]\nintervals = '1s'\n", "line 2 (balance.intervals)"),
        ("[balance]\ninterval = '1ms'\n", "balance.interval is below 100ms"),
        (
            "[balance]\nkeep-empty = '7'\n",
            "balance.keep-empty names node 7; the nodes here are 0-1",
        ),
    ] {
        let output = run(&[&load, "--settings", &path("wrong.toml", text)]);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}: {stderr}");
        assert!(stderr.contains(expected), "{text}: {stderr}");
    }
}

/// Goal: the scenario that nodeward writes of this machine is one that can be compared, whatever
/// machine the test runs on; and somebody who wants it in a way that there is not is told so.
#[test]
fn this_machine_is_a_load() {
    let written = Command::new(NODEWARD).args(["sim", "--of-this-machine"]).output().unwrap();
    assert_eq!(written.status.code(), Some(0), "{written:?}");
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("this.toml");
    fs::write(&file, &written.stdout).unwrap();
    let file = file.to_str().unwrap();
    let told = json(0, &[file, "--json", "--limit", "10ms", "--balancers", "nothing"]);
    let about = told["cases"][0]["about"].as_str().unwrap();
    assert!(about.starts_with("this machine: nodes "), "{about}");
    let odd = Command::new(NODEWARD).args(["sim", "--of-this-machine", "--json"]).output().unwrap();
    assert_eq!(odd.status.code(), Some(2), "{odd:?}");
}

/// Goal: mistakes in a load of one's own are told before anything runs: a value that its scenario
/// does not have, a machine without programs, no such file, no seeds, or a page of it.
#[test]
fn a_load_that_cannot_be_compared() {
    let directory = tempfile::tempdir().unwrap();
    let idle = directory.path().join("idle.toml");
    fs::write(&idle, OWN.split("[[workload").next().unwrap()).unwrap();
    let idle = idle.to_str().unwrap();
    let cases: [(&[&str], &str); 6] = [
        (&["balance-2012", "--set", "workload.nobody.threads=2"], "nobody"),
        (&[idle], "nothing to balance"),
        (&["./nothing-here.toml"], "no such scenario"),
        (&["2012-split", "--seeds", "0"], "--seeds"),
        (&["2012-split", "--balancers", "numad"], "nothing, patches, kernel, hand, nodeward"),
        (&[idle, "--docs", "."], "idle.toml is none"),
    ];
    for (words, expected) in cases {
        let output = run(words);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {stderr}");
        assert!(stderr.contains(expected), "{words:?}: {stderr}");
    }
}

/// Goal: an unknown load is refused with the known ones; a run too short to reach any goal ends
/// with the code for that, and names what was missed.
#[test]
fn what_is_missed_is_told() {
    let output = run(&["2013"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr.contains("2012-split") && stderr.contains("crowded"), "{stderr}");
    let output = run(&["2012-wrong", "--limit", "1s"]);
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(8), "{stdout}");
    assert!(stdout.contains("NOT REACHED") && stdout.contains("by hand"), "{stdout}");
}

/// Goal: the decision is measured at the size that SPEC.md states, in its unit.
#[test]
fn a_decision_is_measured() {
    let bench = ["bench", "balance", "--figure", "decision", "--runs", "1"];
    let output = Command::new(NODEWARD).args(bench).output().unwrap();
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&told["unit"], &told["threads"]), (&"ms".into(), &10_000.into()));
    assert_eq!((&told["cpus"], &told["nodes"]), (&1024.into(), &16.into()));
    assert!(told["measured"].as_f64().unwrap() > 0.0);
}

/// Goal: a balancer that is named twice is run once, and a time below a second is told.
#[test]
fn a_balancer_is_run_once() {
    let words = ["home-2012", "--balancers", "nothing,kernel,nothing", "--limit", "20ms"];
    let output = run(&words);
    let told = String::from_utf8(output.stdout).unwrap();
    assert_eq!(told.lines().next().unwrap().rsplit(", ").next(), Some("20.0 ms"), "{told}");
    let names: Vec<_> = told.lines().skip(2).filter_map(|line| line.split(' ').nth(2)).collect();
    assert_eq!(names, ["nothing", "kernel"], "{told}");
}
