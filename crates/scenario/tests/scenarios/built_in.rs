//! The built-in scenarios can be read, state their purpose, and give the source of each parameter.

use nodeward_scenario::{BUILT_IN, Scenario};

#[test]
fn every_built_in_is_read_and_says_what_it_is_for() {
    for (name, text) in BUILT_IN {
        let scenario = Scenario::find(name).unwrap();
        assert_eq!(scenario.name, *name);
        assert!(!scenario.about.is_empty(), "{name}");
        assert_eq!(Scenario::parse(name, text).unwrap(), scenario);
        assert_eq!(scenario.check(), Ok(()));
    }
}

/// Returns the keys of `[machine]` in a file.
fn parameters(text: &str) -> Vec<String> {
    let section = text.split("[machine]\n").nth(1).unwrap_or_default();
    let lines = section.lines().take_while(|line| !line.starts_with('['));
    let keys = lines.filter_map(|line| line.split_once(" = ")).map(|(key, _)| key.to_owned());
    keys.filter(|key| !key.starts_with('#')).collect()
}

#[test]
fn every_parameter_that_a_built_in_sets_has_a_source() {
    let mut seen = 0;
    for (name, text) in BUILT_IN {
        let params = Scenario::find(name).unwrap().machine.params;
        let keys = parameters(text);
        for key in &keys {
            assert!(params.sources.contains_key(key.as_str()), "{name}: {key}");
        }
        assert_eq!(params.sources.len(), keys.len(), "{name}");
        seen += keys.len();
    }
    assert!(seen > 60, "{seen} parameters were found");
}

/// Numbers that the documentation states about them.
#[test]
fn the_large_ones_are_as_large_as_they_are_said_to_be() {
    let sixteen = Scenario::find("sixteen-nodes").unwrap();
    assert_eq!(sixteen.machine.nodes.len(), 16);
    assert_eq!(sixteen.machine.cpus().len(), 1024);
    assert_eq!(sixteen.machine.memory_bytes(), 4 << 40);
    let tasks: u64 = sixteen.workloads.iter().map(|workload| workload.tasks()).sum();
    assert_eq!(tasks, 2048);

    let fault = Scenario::find("page-fault").unwrap();
    assert_eq!(fault.machine.memory_bytes(), 512 << 30);
    // The n-th threads of all cores are numbered consecutively: CPU 0 and CPU 112 are one core.
    let first: Vec<_> = fault.machine.cores(0)[0].iter().map(|cpu| cpu.0).collect();
    assert_eq!(first, [0, 112]);

    // 100000 pages of 4 KiB, and 195 of 2 MiB.
    let pages = Scenario::find("page-migration-2017").unwrap();
    let bytes: Vec<_> = pages.workloads.iter().map(|workload| workload.memory_bytes).collect();
    assert_eq!(bytes[..2], [100_000 << 12, 195 << 21]);

    // 200 ns x 2.25.
    let wide = Scenario::find("wide-2004").unwrap();
    assert_eq!((wide.machine.latency_ns(0, 0), wide.machine.latency_ns(0, 3)), (200, 450));
}
