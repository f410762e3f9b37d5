//! The files that go with the metrics: their reference, the dashboard, and the alerts.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use nodeward_agent::metrics::{FAMILIES, Family, MetricKind, text, up};
use nodeward_balancer::{BalanceSettings, Balancer};
use nodeward_machine::Machine;
use nodeward_machine::fake::{FakeMachine, FakeProcess, FakeThread};
use nodeward_model::{CpuId, NodeId, Page, Pid, ProcessFilter};
use nodeward_mover::MoveControl;
use serde_json::Value;

const REFERENCE: &str = include_str!("../../../../docs/reference/metrics.md");
const DASHBOARD: &str = include_str!("../../../../packaging/grafana/nodeward.json");
const RULES: &str = include_str!("../../../../packaging/prometheus/nodeward.rules.yml");
const RULE_TESTS: &str = include_str!("../../../../packaging/prometheus/nodeward.test.yml");

/// The row of a metric in the reference.
fn row(family: &Family) -> String {
    let kind = match family.kind {
        MetricKind::Counter => "counter",
        MetricKind::Gauge => "gauge",
        MetricKind::Histogram => "histogram",
    };
    let labels: Vec<String> = family.labels.iter().map(|label| format!("`{label}`")).collect();
    format!("| `{}` | {kind} | {} | {} |", family.name, labels.join(", "), family.help)
}

/// Goal: the reference has each metric with its type, its labels and its help, and no other.
#[test]
fn the_reference_is_complete() {
    let told: BTreeSet<String> = REFERENCE
        .lines()
        .filter(|line| line.starts_with("| `nodeward_"))
        .map(str::to_owned)
        .collect();
    let expected: BTreeSet<String> = FAMILIES.iter().map(row).collect();
    let missing: Vec<_> = expected.difference(&told).collect();
    let wrong: Vec<_> = told.difference(&expected).collect();
    assert!(missing.is_empty() && wrong.is_empty(), "missing {missing:#?}, wrong {wrong:#?}");
}

/// Returns the names of metrics in a text, without what histograms append.
fn names(text: &str) -> BTreeSet<&str> {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c| !is_letter(c)).filter(|word| word.starts_with("nodeward_"));
    words.map(|word| word.strip_suffix("_bucket").unwrap_or(word)).collect()
}

fn unknown<'a>(used: &BTreeSet<&'a str>) -> Vec<&'a str> {
    let is_known = |name: &str| FAMILIES.iter().any(|family| family.name == name);
    used.iter().copied().filter(|name| !is_known(name)).collect()
}

/// All queries of the dashboard.
fn queries(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get("expr").and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|field| queries(field, found));
        }
        Value::Array(items) => items.iter().for_each(|item| queries(item, found)),
        _ => {}
    }
}

/// Goal: the dashboard is JSON, each of its queries has metrics of ours, and its panels have their
/// own numbers and places.
#[test]
fn the_dashboard_knows_our_metrics() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let mut found = Vec::new();
    queries(&dashboard, &mut found);
    assert!(found.len() > 15, "{found:#?}");
    for query in &found {
        let used = names(query);
        assert!(!used.is_empty(), "no metric in {query}");
        assert_eq!(unknown(&used), [""; 0], "{query}");
    }
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64()).collect();
    let places: BTreeSet<String> =
        panels.iter().map(|panel| panel["gridPos"].to_string()).collect();
    assert_eq!((ids.len(), places.len()), (panels.len(), panels.len()));
}

/// Goal: alerts are about our metrics, and each of them is tested.
#[test]
fn alerts_know_our_metrics_and_are_tested() {
    for text in [RULES, RULE_TESTS] {
        assert_eq!(unknown(&names(text)), [""; 0]);
    }
    let alerts: Vec<&str> =
        RULES.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(alerts.len() > 5, "{alerts:?}");
    for alert in alerts {
        let fires = RULE_TESTS.contains(&format!("alertname: {alert}\n        exp_alerts:\n"));
        let is_silent = RULE_TESTS.contains(&format!("alertname: {alert}, exp_alerts: []"));
        assert!(fires && is_silent, "{alert}: fires {fires}, is silent {is_silent}");
    }
}

/// Runs promtool; `None` if it is not installed.
pub fn promtool(words: &[&str], input: &str) -> Option<(bool, String)> {
    let mut command = Command::new("promtool");
    command.args(words).current_dir(packaging());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut child) = command.spawn() else {
        let is_long = std::env::var_os("NODEWARD_TESTS").is_some_and(|extent| extent == "long");
        assert!(!is_long, "promtool is missing: apt-get install prometheus");
        eprintln!("skipped: promtool is not installed (apt-get install prometheus)");
        return None;
    };
    // It need not read what it was not asked about.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let told = [output.stdout, output.stderr].concat();
    Some((output.status.success(), String::from_utf8_lossy(&told).into_owned()))
}

fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/prometheus")
}

/// A text with every kind of metric: of a balancer after some rounds, and of an agent.
fn some_text() -> String {
    let thread = FakeThread::new(CpuId(4), "0-7".parse().unwrap(), 1000);
    let thread = FakeThread { cpu_time_ns: 60_000_000_000, ..thread };
    let process = FakeProcess {
        threads: [(1, thread)].into(),
        ..FakeProcess::with_pages(&[Page::on(NodeId(0)); 4096])
    };
    let machine = Arc::new(FakeMachine::with_topology(true, "2n 4c 1t 4GiB"));
    machine.spawn(Pid::new(7).unwrap(), process);
    let shared: Arc<dyn Machine> = machine.clone();
    let settings = BalanceSettings::default();
    let mut balancer = Balancer::new(shared, &ProcessFilter::default(), settings, None).unwrap();
    for _ in 0..10 {
        let report = balancer.round(&MoveControl::default()).unwrap();
        machine.sleep_ns(report.interval_ns);
    }
    let report = balancer.round(&MoveControl::default()).unwrap();
    up(true) + &text(&report, Some(&Default::default()), &*machine, &[])
}

/// Goal: promtool, Prometheus' own checker, finds nothing to say about the metrics.
#[test]
fn promtool_accepts_the_metrics() {
    if let Some((is_good, told)) = promtool(&["check", "metrics"], &some_text()) {
        assert!(is_good && told.trim().is_empty(), "{told}");
    }
}

/// Goal: it reads the alerts, and each fires when it should and not before.
#[test]
fn promtool_tests_the_alerts() {
    for words in
        [&["check", "rules", "nodeward.rules.yml"], &["test", "rules", "nodeward.test.yml"]]
    {
        if let Some((is_good, told)) = promtool(words, "") {
            assert!(is_good, "{words:?}: {told}");
        }
    }
}
