//! An override has the effect of the same value in the file, before anything is checked.

use nodeward_model::NodeId;
use nodeward_scenario::{
    ActionKind, Bug, Error, MemoryPlacement, Scenario, SchedulerKind, WorkloadKind,
};

fn with(sets: &[(&str, &str)]) -> Result<Scenario, Error> {
    Scenario::find_with("two-socket", sets)
}

#[test]
fn every_table_can_be_reached() {
    let scenario = with(&[
        ("time", "4s"),
        ("scheduler", "home"),
        ("report", "[\"memory\", \"curves\"]"),
        ("distances", "[[10, 30], [30, 10]]"),
        ("machine.latency", "100ns"),
        ("machine.batch", "1"),
        ("machine.shootdown", "broadcast"),
        ("node.1.memory", "4GiB"),
        ("workload.stream.processes", "12"),
        ("workload.stream.parallel", "1.5"),
        ("workload.stream.place", "interleave:0-1"),
        ("action.0.at", "500ms"),
        ("action.0.times", "3"),
        ("faults.pinned", "10"),
        ("faults.until", "2s"),
        ("faults.bug", "lose-page"),
    ])
    .unwrap();
    assert_eq!((scenario.time_ns, scenario.scheduler), (4_000_000_000, SchedulerKind::HomeAware));
    assert_eq!(scenario.report, ["memory", "curves"]);
    assert_eq!(scenario.machine.distances, [[10, 30], [30, 10]]);
    let params = &scenario.machine.params;
    assert_eq!((params.latency_ns, params.batch_pages, params.shootdown), (100, 1, 1));
    assert_eq!(params.sources["latency"], "--set");
    assert_eq!(scenario.machine.nodes[1].memory_bytes, 4 << 30);
    let stream = &scenario.workloads[0];
    assert_eq!(stream.processes, 12);
    assert_eq!(stream.placement, MemoryPlacement::Interleave("0-1".parse().unwrap()));
    assert!(
        matches!(stream.kind, WorkloadKind::Triad { access, .. } if access.parallel_milli == 1500)
    );
    let action = &scenario.actions[0];
    let there_and_back = ActionKind::Migrate { from: NodeId(1), to: NodeId(0), times: 3 };
    assert_eq!((action.at_ns, &action.kind), (500_000_000, &there_and_back));
    let faults = scenario.faults.unwrap();
    assert_eq!((faults.pinned_milli, faults.allocation_milli), (10, 0));
    assert_eq!((faults.until_ns, faults.bug), (Some(2_000_000_000), Some(Bug::LosePage)));
}

/// `cpus = 8` is a count and `cpus = "0-7"` a list; both can be set.
#[test]
fn counts_stay_counts_and_lists_lists() {
    let counts = with(&[("node.0.cpus", "16"), ("node.1.cpus", "16")]).unwrap();
    assert_eq!(counts.machine.nodes[1].cpus.to_string(), "16-31");
    let lists = with(&[("node.0.cpus", "0-15"), ("node.1.cpus", "\"16-31\"")]).unwrap();
    assert_eq!(lists.machine.nodes, counts.machine.nodes);
}

/// One override alone would put CPUs on two nodes.
#[test]
fn overrides_are_checked_together() {
    assert!(with(&[("node.0.cpus", "16")]).is_err());
}

#[test]
fn the_last_of_two_counts() {
    let twice = with(&[("time", "4s"), ("time", "5s")]).unwrap();
    assert_eq!(twice.time_ns, 5_000_000_000);
}

#[test]
fn a_machine_without_parameters_can_be_given_some() {
    let bare = Scenario::find_with("two-nodes", &[("machine.latency", "100ns")]).unwrap();
    assert_eq!(bare.machine.latency_ns(0, 1), 210); // 100 ns x 21 / 10
}

#[test]
fn actions_are_sorted_by_time_and_faults_of_them_keep_their_lines() {
    let two = |first: &str, second: &str| {
        format!(
            "[[node]]\nid = 0\ncpus = 1\nmemory = \"1GiB\"\n\
            [[workload]]\nname = \"w\"\nkind = \"hog\"\nmemory = \"1MiB\"\n\
            [[action]]\nat = \"{first}\"\nworkload = \"w\"\ndo = \"kill\"\n\
            [[action]]\nat = \"{second}\"\nworkload = \"w\"\ndo = \"migrate-on-fault\"\n"
        )
    };
    let sorted = Scenario::parse("two", &two("5ms", "2ms")).unwrap();
    let times: Vec<_> = sorted.actions.iter().map(|action| action.at_ns).collect();
    assert_eq!(times, [2_000_000, 5_000_000]);
    assert_eq!(Scenario::parse("two", &two("5ms", "2s")).unwrap_err().line(), Some(14));
    let mut unsorted = sorted;
    unsorted.actions.swap(0, 1);
    let told = unsorted.check().unwrap_err().to_string();
    assert_eq!(told, "two: action[1].at: is before the action above; expected the order of time");
}

/// Goal: actions on the machine need no workload, and their keys can be set.
#[test]
fn machines_change_and_processes_fork() {
    let text = "[[node]]\nid = 0\ncpus = 4\nmemory = \"1GiB\"\n\
        [[node]]\nid = 1\ncpus = 0\nmemory = \"1GiB\"\n\
        [[workload]]\nname = \"w\"\nkind = \"hog\"\nmemory = \"1MiB\"\n\
        [[action]]\nat = \"1ms\"\ndo = \"cpus-off\"\ncpus = \"2-3\"\n\
        [[action]]\nat = \"2ms\"\ndo = \"cpus-on\"\ncpus = 2\n\
        [[action]]\nat = \"3ms\"\ndo = \"memory-off\"\nnode = 1\n\
        [[action]]\nat = \"4ms\"\ndo = \"memory-on\"\nnode = 1\n\
        [[action]]\nat = \"5ms\"\ndo = \"fork\"\nworkload = \"w\"\nfor = \"10ms\"\n\
        [faults]\n";
    let sets = [("action.0.cpus", "1-3"), ("action.2.node", "0"), ("action.4.for", "7ms")];
    let scenario = Scenario::with("changing", text, &sets).unwrap();
    let kinds: Vec<_> = scenario.actions.iter().map(|action| action.kind.clone()).collect();
    let (off, on) = ("1-3".parse().unwrap(), "2".parse().unwrap());
    let changes = [
        ActionKind::CpusOff { cpus: off },
        ActionKind::CpusOn { cpus: on },
        ActionKind::MemoryOff { node: NodeId(0) },
        ActionKind::MemoryOn { node: NodeId(1) },
        ActionKind::Fork { for_ns: 7_000_000 },
    ];
    assert_eq!(kinds, changes);
    let whose: Vec<_> = scenario.actions.iter().map(|action| action.workload.as_str()).collect();
    assert_eq!(whose, ["", "", "", "", "w"]);
    // With an empty table the simulator keeps the state that checkers need, and no fault occurs.
    assert_eq!(scenario.faults.unwrap().rates().map(|(_, milli)| milli), [0; 5]);
}
