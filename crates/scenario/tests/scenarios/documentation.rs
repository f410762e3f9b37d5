//! docs/reference/scenarios.md agrees with the code: its example can be read, its tables have every
//! key, every parameter and every scenario, and its defaults are those of the code.

use nodeward_scenario::{BUILT_IN, ParamInfo, ParamUnit, Params, Scenario};

const PAGE: &str = include_str!("../../../../docs/reference/scenarios.md");

/// Returns the indented lines below a heading.
fn example(heading: &str) -> String {
    let section = PAGE.split(heading).nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let lines = section.lines().filter(|line| line.starts_with("    ") || line.is_empty());
    lines.map(|line| format!("{}\n", line.trim_start())).collect()
}

#[test]
fn the_full_example_is_a_scenario() {
    let scenario = Scenario::parse("example", &example("## A full example")).unwrap();
    assert_eq!(scenario.machine.nodes.len(), 3);
    assert_eq!(scenario.machine.links.len(), 2);
    assert_eq!(scenario.machine.params.sources.len(), 1);
    assert_eq!((scenario.workloads.len(), scenario.actions.len()), (2, 2));
}

fn unit(info: &ParamInfo) -> String {
    match info.unit {
        ParamUnit::Time => "time".to_owned(),
        ParamUnit::Rate => "rate".to_owned(),
        ParamUnit::Bytes => "size".to_owned(),
        ParamUnit::Count => "number".to_owned(),
        ParamUnit::Milli => "thousandths".to_owned(),
        ParamUnit::Picoseconds => "short time".to_owned(),
        ParamUnit::Word(words) => words.join(", "),
    }
}

fn table() -> String {
    let mut table = "| parameter | unit | default | what it is | where the default comes from |\n\
        |---|---|---|---|---|\n"
        .to_owned();
    for info in Params::TABLE {
        let ParamInfo { name, default, about, source, .. } = info;
        let (unit, default) = (unit(info), info.format_exact(*default));
        table += &format!("| `{name}` | {unit} | {default} | {about} | {source} |\n");
    }
    table
}

#[test]
fn the_table_of_parameters_is_that_of_the_code() {
    let table = table();
    let name = "docs/reference/scenarios.md";
    assert!(PAGE.contains(&table), "{name} should have this table:\n\n{table}");
}

/// Returns the valid keys, from the message about a key that does not exist.
fn keys(text: &str) -> Vec<String> {
    let error = Scenario::parse("keys", text).unwrap_err();
    assert!(error.problem.starts_with("unknown key 'q'"), "{error}");
    let list = error.expected.strip_prefix("one of ").unwrap();
    list.split(", ").map(str::to_owned).collect()
}

/// Returns the rows of kinds: names, and settings such as `writes = 333`.
fn kinds() -> Vec<(&'static str, Vec<&'static str>)> {
    let section = PAGE.split("| kind |").nth(1).unwrap().split("\n\n").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let words = |row: &'static str| row.split('`').skip(1).step_by(2);
    rows.map(|row| {
        let name = words(row).next().unwrap();
        (name, words(row).filter(|word| word.contains(" = ")).collect())
    })
    .collect()
}

#[test]
fn every_key_is_told_of() {
    let node = "[[node]]\nid = 0\ncpus = 1\nmemory = \"1GiB\"\n";
    let mut texts = vec![
        "q = 1\n".to_owned(),
        "[[node]]\nq = 1\n".to_owned(),
        format!("{node}[[link]]\nq = 1\n"),
        format!("{node}[faults]\nq = 1\n"),
    ];
    let actions = ["migrate", "home", "kill", "fork", "cpus-off", "memory-on"];
    texts.extend(actions.map(|what| format!("{node}[[action]]\ndo = \"{what}\"\nq = 1\n")));
    texts.extend(
        kinds().iter().map(|(kind, _)| format!("{node}[[workload]]\nkind = \"{kind}\"\nq = 1\n")),
    );
    let mut seen = 0;
    for key in texts.iter().flat_map(|text| keys(text)) {
        assert!(
            PAGE.contains(&format!("`{key}`")) || PAGE.contains(&format!("`{key} = ")),
            "{key}"
        );
        seen += 1;
    }
    assert!(seen > 100, "{seen} keys");
}

/// A kind with its defaults written out equals the kind without.
#[test]
fn the_defaults_of_kinds_are_those_of_the_code() {
    let kinds = kinds();
    assert_eq!(kinds.len(), 10);
    for (kind, settings) in &kinds {
        let text = format!(
            "[[node]]\nid = 0\ncpus = 1\nmemory = \"1GiB\"\n\
             [[workload]]\nname = \"w\"\nkind = \"{kind}\"\nthreads = 2\nmemory = \"1MiB\"\n"
        );
        let bare = Scenario::parse("kind", &text).unwrap();
        let written = Scenario::parse("kind", &(text + &settings.join("\n"))).unwrap();
        assert_eq!(bare, written, "{kind}");
    }
    // Three of access in six kinds, two of `random`, three of `compile`, `shared` of `triad` and
    // `phases`, one of `moving-set`, two of `ping-pong`, five of `stream`, three of `database`;
    // `populated` in five, `bound` in four, `scattered` in two, `passes`, `one-segment` and
    // `shared-in-order` in one.
    assert_eq!(
        kinds.iter().map(|(_, settings)| settings.len()).sum::<usize>(),
        3 * 6 + 2 + 3 + 2 + 1 + 2 + 5 + 3 + 5 + 4 + 2 + 3
    );
}

#[test]
fn every_built_in_is_told_of() {
    for (name, _) in BUILT_IN {
        assert!(PAGE.contains(&format!("| `{name}` |")), "{name}");
    }
}
