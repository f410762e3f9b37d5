//! Whatever a text says, it is accepted or refused, and an accepted scenario is within bounds.

use nodeward_scenario::{BUILT_IN, ErrorLocation, Params, Scenario, limits};
use proptest::prelude::*;

/// Words that occur in scenarios, and numbers that are hard on arithmetic.
const WORDS: [&str; 24] = [
    "0",
    "-1",
    "18446744073709551615",
    "99999999999999999999",
    "\"0\"",
    "\"16777215.999TiB\"",
    "\"18446744073s\"",
    "\"0-4095\"",
    "\"4096\"",
    "\"bind:0-1023\"",
    "\"spread\"",
    "\"random\"",
    "\"ping-pong\"",
    "\"moving-set\"",
    "\"phases\"",
    "\"compile\"",
    "true",
    "[]",
    "[[10]]",
    "{ value = 1 }",
    "1.5",
    "\"kill\"",
    "\"home\"",
    "2004-04-06",
];

/// A mutation of a text.
#[derive(Clone, Debug)]
enum Change {
    /// A line is deleted.
    Drop(usize),
    /// A line is duplicated.
    Double(usize),
    /// A line is moved.
    Move(usize, usize),
    /// The value of a line is replaced.
    Value(usize, &'static str),
    /// The text is cut here.
    Cut(usize),
    /// A character is inserted.
    Insert(usize, char),
}

fn change() -> impl Strategy<Value = Change> {
    let at = 0_usize..10_000;
    prop_oneof![
        at.clone().prop_map(Change::Drop),
        at.clone().prop_map(Change::Double),
        (at.clone(), at.clone()).prop_map(|(from, to)| Change::Move(from, to)),
        (at.clone(), prop::sample::select(&WORDS[..]))
            .prop_map(|(at, word)| Change::Value(at, word)),
        at.clone().prop_map(Change::Cut),
        (at, any::<char>()).prop_map(|(at, letter)| Change::Insert(at, letter)),
    ]
}

fn spoil(text: &str, change: &Change) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let count = lines.len().max(1);
    match *change {
        _ if lines.is_empty() => {}
        Change::Drop(at) => drop(lines.remove(at % count)),
        Change::Double(at) => lines.insert(at % count, lines[at % count].clone()),
        Change::Move(from, to) => lines.swap(from % count, to % count),
        Change::Value(at, word) => {
            let line = &mut lines[at % count];
            if let Some((key, _)) = line.split_once('=') {
                *line = format!("{key}= {word}");
            }
        }
        Change::Cut(at) => lines.truncate(at % count),
        Change::Insert(at, letter) => lines[at % count].push(letter),
    }
    lines.join("\n") + "\n"
}

/// Checks the bounds that the simulator relies on.
fn assert_bounded(scenario: &Scenario) {
    assert_eq!(scenario.check(), Ok(()));
    let machine = &scenario.machine;
    assert!((1..=limits::NODES_MAX).contains(&machine.nodes.len()));
    assert!((1..=limits::CPUS_MAX as usize).contains(&machine.cpus().len()));
    assert!((1..=limits::MEMORY_BYTES_MAX).contains(&machine.memory_bytes()));
    let tasks: u64 = scenario.workloads.iter().map(|each| each.tasks()).sum();
    assert!(tasks <= limits::TASKS_MAX);
    let page = machine.params.page_bytes;
    let mapped = scenario.workloads.iter().map(|each| each.mapped_bytes(page).unwrap());
    assert!(mapped.sum::<u64>() <= machine.memory_bytes());
    assert!(scenario.time_ns <= limits::TIME_NS_MAX);
    assert!(scenario.time_ns / scenario.sample_ns <= limits::SAMPLES_MAX);
    for from in 0..machine.nodes.len() {
        let threads: usize = machine.cores(from).iter().map(Vec::len).sum();
        assert_eq!(threads, machine.nodes[from].cpus.len());
        for to in 0..machine.nodes.len() {
            // A minute at most, 25.4 times as far.
            assert!((1..=1_524_000_000_000).contains(&machine.latency_ns(from, to)));
        }
    }
    for info in Params::TABLE {
        assert!(info.range().contains(&machine.params.get(info.name).unwrap()), "{}", info.name);
    }
}

/// Reads a text; a refusal must name a line of it.
fn read(text: &str) {
    match Scenario::parse("any.toml", text) {
        Ok(scenario) => assert_bounded(&scenario),
        Err(error) => {
            let line = error.line().unwrap();
            assert!((1..=text.split('\n').count()).contains(&(line as usize)), "{error}");
            assert!(!error.problem.is_empty() && !error.expected.is_empty(), "{error}");
        }
    }
}

proptest! {
    #[test]
    fn a_spoiled_scenario_is_read_or_refused(
        which in 0..BUILT_IN.len(),
        changes in prop::collection::vec(change(), 1..4),
    ) {
        let text = BUILT_IN[which].1.to_owned();
        read(&changes.iter().fold(text, |text, change| spoil(&text, change)));
    }

    #[test]
    fn any_text_is_read_or_refused(text in ".*") {
        read(&text);
    }

    #[test]
    fn any_override_is_taken_or_refused(
        key in "(machine|node|workload|action|link|time|distances|faults)(\\.[a-z0-9-]{1,8}){0,3}",
        value in "([0-9]{1,20}[a-zA-Z/]{0,4}|.*)",
    ) {
        match Scenario::find_with("two-socket", &[(key, value)]) {
            Ok(scenario) => assert_bounded(&scenario),
            Err(error) => assert_ne!(error.location, ErrorLocation::File),
        }
    }

    /// A value as messages print it can be written into a file.
    #[test]
    fn written_values_read_back(which in 0..Params::TABLE.len(), any in any::<u64>()) {
        let info = &Params::TABLE[which];
        let (least, most) = info.range().into_inner();
        let value = least + any % (most - least + 1);
        assert_eq!(Params::parse(info, &info.format_exact(value)), Ok(value), "{}", info.name);
    }

    #[test]
    fn any_value_of_any_parameter_is_taken_or_refused(
        which in 0..Params::TABLE.len(),
        value in 0_u64..=u64::MAX,
        unit in prop::sample::select(&["", "ns", "s", "GB/s", "TiB"][..]),
    ) {
        let key = format!("machine.{}", Params::TABLE[which].name);
        match Scenario::find_with("sixteen-nodes", &[(key, format!("{value}{unit}"))]) {
            Ok(scenario) => assert_bounded(&scenario),
            Err(error) => assert_ne!(error.location, ErrorLocation::File),
        }
    }
}

/// Defaults are valid values.
#[test]
fn defaults_are_within_their_ranges() {
    for info in Params::TABLE {
        assert!(info.range().contains(&info.default), "{}", info.name);
    }
}
