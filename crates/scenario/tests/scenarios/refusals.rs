//! Invalid scenarios are refused with the line, what is wrong there, and what was expected. Most
//! cases are in refusals.txt.

use nodeward_scenario::{ErrorLocation, Scenario};

/// A valid machine with a workload and an action; each test spoils it.
const GOOD: &str = r#"about = "a machine"
distances = [[10, 21], [21, 10]]
time = "2s"
sample = "10ms"

[[node]]
id = 0
cpus = 4
memory = "2GiB"

[[node]]
id = 2
cpus = "4-7"
memory = "2GiB"
threads-per-core = 2

[[link]]
from = 0
to = 2
latency = "200ns"

[machine]
latency = { value = "85ns", source = "a guess" }
bandwidth = "50GB/s"

[[workload]]
name = "stream"
kind = "triad"
processes = 2
memory = "256MiB"
place = "bind:0"

[[action]]
at = "1s"
workload = "stream"
do = "migrate"
from = 0
to = 2
"#;

/// A case of refusals.txt.
#[derive(Debug, Default)]
struct RefusalCase {
    old: String,
    new: String,
    message: String,
}

fn cases() -> Vec<RefusalCase> {
    let mut cases = Vec::new();
    let mut case = RefusalCase::default();
    for line in include_str!("refusals.txt").lines() {
        let text = line.get(2..).unwrap_or_default();
        match line.get(..1) {
            Some("-") => case.old = text.replace("\\n", "\n"),
            Some("+") => case.new = text.replace("\\n", "\n"),
            Some("=") => {
                case.message = format!("bad.toml:{text}");
                cases.push(std::mem::take(&mut case));
            }
            _ => {}
        }
    }
    cases
}

#[test]
fn what_is_spoiled_is_refused_with_its_place_and_what_was_expected() {
    let cases = cases();
    for RefusalCase { old, new, message: told } in &cases {
        assert_eq!(GOOD.matches(old).count(), 1, "{old}");
        let text = GOOD.replace(old, new);
        let error = Scenario::parse("bad.toml", &text).unwrap_err();
        assert_eq!(error.to_string(), *told, "{old} -> {new}");
    }
    assert_eq!(cases.len(), 138);
}

#[test]
fn the_text_is_good_unless_it_is_spoiled() {
    let scenario = Scenario::parse("dir/good.toml", GOOD).unwrap();
    assert_eq!(scenario.name, "good");
    assert_eq!(scenario.machine.params.sources["latency"], "a guess");
    assert_eq!(scenario.check(), Ok(()));
}

/// Goal: folios are a power of two of base pages, and smaller than huge pages.
#[test]
fn folios_between_base_and_huge_pages() {
    let parsed = |pages: &str| {
        let text = format!(
            "[[node]]\nid = 0\ncpus = 1\nmemory = \"1GiB\"\n\
            [[workload]]\nname = \"w\"\nkind = \"hog\"\nmemory = \"4MiB\"\npages = \"{pages}\"\n"
        );
        Scenario::parse("folios", &text).map(|scenario| scenario.workloads[0].folio_bytes)
    };
    assert_eq!(parsed("base"), Ok(0));
    assert_eq!(parsed("8KiB"), Ok(8 << 10));
    assert_eq!(parsed("1MiB"), Ok(1 << 20));
    for refused in ["4KiB", "12KiB", "2MiB"] {
        let error = parsed(refused).unwrap_err().to_string();
        assert!(error.starts_with("folios:9: workload 'w': folios of "), "{error}");
        assert!(error.ends_with("a power of two between a page of 4KiB and 2MiB"), "{error}");
    }
    let error = parsed("large").unwrap_err().to_string();
    assert!(error.contains("the size of a folio"), "{error}");
}

/// A node of memory only and a node of CPUs only.
#[test]
fn nodes_that_lack_what_is_asked_of_them() {
    let machine = "[[node]]\nid = 0\ncpus = 2\nmemory = \"1GiB\"\n\
        [[node]]\nid = 1\ncpus = 0\nmemory = \"1GiB\"\n\
        [[node]]\nid = 2\ncpus = 2\nmemory = \"0\"\n\
        [[workload]]\nname = \"w\"\nkind = \"hog\"\nmemory = \"1MiB\"\n";
    for (more, wanted) in [
        ("nodes = \"0-1\"", "17: workload 'w': node 1 has no CPUs; expected nodes with CPUs: 0,2"),
        ("home = 1", "17: workload 'w': node 1 has no CPUs; expected nodes with CPUs: 0,2"),
        (
            "place = \"bind:2\"",
            "17: workload 'w': node 2 has no memory; expected nodes with memory: 0-1",
        ),
        (
            "[[action]]\nat = \"0\"\nworkload = \"w\"\ndo = \"migrate\"\nfrom = 0\nto = 2",
            "22: there is no memory on node 2; expected one of the nodes with memory: 0-1",
        ),
        (
            "[[action]]\nat = \"0\"\nworkload = \"w\"\ndo = \"home\"\nto = 1",
            "21: workload 'w': node 1 has no CPUs; expected nodes with CPUs: 0,2",
        ),
        (
            "[[action]]\nat = \"0\"\ndo = \"memory-off\"\nnode = 2",
            "20: there is no memory on node 2; expected one of the nodes with memory: 0-1",
        ),
        (
            "[[action]]\nat = \"0\"\ndo = \"cpus-on\"\ncpus = \"1-5\"",
            "20: there is no CPU 4; expected some of the CPUs 0-3",
        ),
        (
            "[[action]]\nat = \"0\"\nworkload = \"w\"\ndo = \"cpus-off\"\ncpus = \"1\"",
            "19: unknown key 'workload'; expected one of at, do, cpus",
        ),
        (
            "[faults]\nlate-ipi = 1001",
            "18: `late-ipi` is 1001; expected a number of thousandths, \
            1000 at most",
        ),
        (
            "[faults]\nstart = \"2s\"\nuntil = \"1s\"",
            "19: faults end at 1s; expected a time \
            after `start`, 2s",
        ),
        (
            "[faults]\nbug = \"none\"",
            "18: `bug` is 'none'; expected one of skip-flush, lose-page, \
            double-count, over-capacity, stale-copy",
        ),
    ] {
        let error = Scenario::parse("bad.toml", &format!("{machine}{more}\n")).unwrap_err();
        assert_eq!(error.to_string(), format!("bad.toml:{wanted}"), "{more}");
    }
}

#[test]
fn machines_of_nothing() {
    let nothing = "expected at least one table [[node]] with id, cpus and memory";
    for (text, wanted) in [
        ("", format!("bad:1: the machine has no node; {nothing}")),
        ("time = \"1s\"\n", format!("bad:1: the machine has no node; {nothing}")),
        (
            "[[node]]\nid = 0\ncpus = 0\nmemory = \"1GiB\"\n",
            "bad:3: the machine has no CPU; expected a CPU at least".to_owned(),
        ),
        (
            "[[node]]\nid = 0\ncpus = 1\nmemory = \"0\"\n",
            "bad:4: the machine has 0B of memory; expected some, and 64TiB at most".to_owned(),
        ),
    ] {
        assert_eq!(Scenario::parse("bad", text).unwrap_err().to_string(), wanted);
    }
}

/// Counts whose bounds are not reached by mistake.
#[test]
fn more_than_there_may_be() {
    let nodes = |count: u32| {
        let node = |id| format!("[[node]]\nid = {id}\ncpus = 1\nmemory = \"1GiB\"\n");
        (0..count).map(node).collect::<String>()
    };
    let workloads = |count: u32| {
        let workload =
            |at| format!("[[workload]]\nname = \"w{at}\"\nkind = \"hog\"\nmemory = \"1MiB\"\n");
        (0..count).map(workload).collect::<String>()
    };
    let why = |text: &str| Scenario::parse("bad", text).unwrap_err().to_string();
    assert!(Scenario::parse("good", &nodes(64)).is_ok());
    // The id of the 65th node is in line 64 * 4 + 2.
    assert_eq!(why(&nodes(65)), "bad:258: 65 nodes; expected 64 at most");
    assert!(Scenario::parse("good", &(nodes(1) + &workloads(256))).is_ok());
    // Four lines of the node, 256 * 4 of workloads, and the name in the second line of the next.
    assert_eq!(why(&(nodes(1) + &workloads(257))), "bad:1030: 257 workloads; expected 256 at most");
    let links = "[[link]]\nfrom = 0\nto = 1\nlatency = \"1us\"\n".repeat(4033);
    // Eight lines of nodes, 4032 * 4 of links.
    let told = "bad:16138: 4033 links; expected 4032 at most";
    assert_eq!(why(&(nodes(2) + &links)), told);
    let long = " ".repeat(1 << 20) + " ";
    assert_eq!(why(&long), "bad: 1048577 bytes are too many; expected a scenario of 1 MiB at most");
}

/// Messages are printed on terminals.
#[test]
fn messages_have_no_control_characters_and_an_end() {
    let told = |key: &str| Scenario::parse("bad", &format!("\"{key}\" = 1\n")).unwrap_err().problem;
    assert_eq!(told("a\\u001b[31m"), "unknown key 'a\\u{1b}[31m'");
    // 500 letters, 13 of which are "unknown key '", and three points.
    assert_eq!(told(&"a".repeat(1000)), format!("unknown key '{}...", "a".repeat(487)));
}

/// Returns the message for an override of the valid text.
fn told_of(key: &str, value: &str) -> String {
    let error = Scenario::with("good.toml", GOOD, &[(key, value)]).unwrap_err();
    assert_eq!(error.location, ErrorLocation::Override(format!("{key}={value}")), "{error}");
    let told = error.to_string();
    told.strip_prefix(&format!("good.toml: --set {key}={value}: ")).unwrap().to_owned()
}

#[test]
fn overrides_that_name_nothing_or_make_no_sense() {
    for (key, value, wanted) in [
        (
            "tme",
            "1s",
            "no key 'tme'; expected one of about, distances, symmetric, scheduler, numa-balancing, \
                time, sample, report (did you mean 'time'?), or a key of a table: \
                machine.latency, node.0.memory, workload.NAME.threads, \
                link.0-1.latency, action.0.at, faults.pinned",
        ),
        (
            "machine.latancy",
            "1us",
            "no key 'machine.latancy'; expected one of latency, balance, llc-latency, batch, \
                balance-nodes, dispatch and 70 others (did you mean 'latency'?)",
        ),
        (
            "machine.latency",
            "fast",
            "`latency` is 'fast'; expected a time such as 250us, from 1ns to 60s",
        ),
        ("machine.latency", "0", "`latency` is 0; expected a time such as 250us, from 1ns to 60s"),
        ("node.1.memory", "1GiB", "there is no node '1'; expected one of 0, 2"),
        (
            "node.2.memroy",
            "1GiB",
            "no key 'node.2.memroy'; expected one of id, cpus, memory, threads-per-core, \
                latency, bandwidth (did you mean 'memory'?)",
        ),
        ("node.2.cpus", "3-6", "CPU 3 is on node 2 and on node 0; expected every CPU on one node"),
        ("workload.steam.threads", "2", "there is no workload 'steam'; expected 'stream'"),
        (
            "workload.stream.threats",
            "2",
            "no key 'workload.stream.threats'; expected one of name, kind, processes, \
                threads, pools, memory, pages, place, nodes, begins, home, start, groups, \
                cpuset, parallel, compute, writes, shared, shared-in-order, passes, populated, \
                works, rests, bound, scattered, one-segment (did you mean 'threads'?)",
        ),
        (
            "workload.stream.memory",
            "3GiB",
            "workload 'stream': with it, workloads map 6GiB on nodes 0; expected 2GiB at \
                most, which these nodes have",
        ),
        ("link.2-0.latency", "1us", "there is no link '2-0'; expected '0-2'"),
        ("action.1.at", "1s", "there is no action '1'; expected '0'"),
        ("action.0.at", "5s", "an action at 5s, when the run is over; expected a time before 2s"),
        (
            "edge.0.latency",
            "1us",
            "no key 'edge.0.latency'; expected a key of a table: machine.latency, \
                node.0.memory, workload.NAME.threads, link.0-1.latency, \
                action.0.at, faults.pinned",
        ),
        (
            "",
            "",
            "no key ''; expected one of about, distances, symmetric, scheduler, numa-balancing, \
                time, \
                sample, report, or a key of a table: machine.latency, \
                node.0.memory, workload.NAME.threads, link.0-1.latency, \
                action.0.at, faults.pinned",
        ),
    ] {
        assert_eq!(told_of(key, value), wanted, "{key}={value}");
    }
}
