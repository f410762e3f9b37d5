//! Tests of whole pages: each is well-formed, refers to nothing outside, and escapes names.

use nodeward_model::{
    Account, MappingKind, Name, NodeId, Pid, ProcessIdentity, SkipReason, Synthetic, Topology,
};
use nodeward_policy::rank::{self, Candidate};
use nodeward_records::ledger::{
    Header, MovedPages, MovedRuns, Operation, OperationCause, OperationEnd, OperationState,
};
use roxmltree::{Document, ParsingOptions};

use super::*;
use crate::results::observation::{
    AgentDecision, ByNode, DecisionChange, FollowedProcess, MemoryLook, SeenDecisions,
    UnfollowedProcesses, Unseen, WatchEnd, WatchMoment,
};

const SECOND: u64 = 1_000_000_000;
const MIB: u64 = 1 << 20;
const BEGAN_UNIX_MS: u64 = 1_795_308_303_000;

fn topology(nodes: u32) -> Topology {
    format!("{nodes}n 2c 1t 4GiB dist:10/21").parse::<Synthetic>().unwrap().topology()
}

fn pid(number: u32) -> Pid {
    Pid::new(number).unwrap()
}

fn on(bytes: &[u64]) -> ByNode {
    (0..).map(NodeId).zip(bytes.iter().copied()).collect()
}

/// A watch of four seconds of a machine on which nothing was seen.
fn nothing(nodes: u32) -> WatchReport {
    WatchReport {
        subject: None,
        scenario: None,
        began_unix_ms: BEGAN_UNIX_MS,
        asked_ns: 4 * SECOND,
        watched_ns: 4 * SECOND,
        interval_ns: SECOND,
        end: WatchEnd::Time,
        topology: topology(nodes),
        moments: Vec::new(),
        processes: Vec::new(),
        unfollowed: UnfollowedProcesses::default(),
        moves: Vec::new(),
        decisions: None,
        estimate: None,
        undecided: None,
        access_sources: Vec::new(),
        unseen: Vec::new(),
    }
}

/// A process whose 100 MiB went from node 0 to node 1, where it ran.
fn moved_process(number: u32, name: &Name) -> FollowedProcess {
    let look = |at_ns, bytes: [u64; 2]| MemoryLook {
        at_ns,
        bytes: on(&bytes),
        kinds: [(MappingKind::Heap, on(&bytes)), (MappingKind::Stack, on(&[0, 4096]))].into(),
    };
    let looks = [(0, [100, 0]), (2, [40, 60]), (4, [1, 99])];
    let looks = looks.map(|(at, [a, b])| look(at * SECOND, [a * MIB, b * MIB]));
    let candidate = Candidate {
        pid: pid(number),
        name: name.clone(),
        bytes: looks[2].bytes.clone(),
        cpu_time_ns: on(&[0, SECOND]),
        active: true,
    };
    let distance = |from: NodeId, to: NodeId| Some(if from == to { 10 } else { 21 });
    let gain = rank::rank(vec![candidate], &topology(2).nodes_with_memory(), &distance).pop();
    FollowedProcess {
        pid: pid(number),
        name: name.clone(),
        started_ticks: 5,
        began_ns: 0,
        ended_ns: None,
        cpu_ns: on(&[0, 4 * SECOND]),
        threads: on(&[0, 2]),
        looks: looks.into(),
        obstacle: None,
        gain,
    }
}

fn moments() -> Vec<WatchMoment> {
    let moment = |second: u64, local_ppm, pages| WatchMoment {
        at_ns: second * SECOND,
        node_used_bytes: on(&[300 * MIB - 20 * second * MIB, 200 * MIB + 20 * second * MIB]),
        cpu_ns: on(&[0, SECOND]),
        threads: on(&[0, 2]),
        migrated_pages: Some(pages),
        balancing_pages: Some(pages / 10),
        stalled_ns: Some(SECOND / 10 * second),
        local_ppm,
    };
    vec![moment(0, None, 0), moment(2, Some(600_000), 15_360), moment(4, Some(990_000), 10_240)]
}

/// A move of 99 MiB by the balancer, from the first second to the fourth.
fn balanced(process: &FollowedProcess, explanation: &str) -> Operation {
    let mut runs = MovedRuns::new(4096);
    runs.push(0x1000, 99 * 256, NodeId(0), NodeId(1));
    let identity = ProcessIdentity {
        pid: process.pid,
        name: process.name.clone(),
        boot_id: String::new(),
        started_ticks: process.started_ticks,
        auxv_checksum: 1,
    };
    let account =
        Account { moved: 99 * 256, already_there: 0, skipped: [(SkipReason::Pinned, 256)].into() };
    let ended_unix_ms = BEGAN_UNIX_MS + 4_000;
    Operation {
        id: "3".parse().unwrap(),
        header: Header {
            page_bytes: 4096,
            began_unix_ms: BEGAN_UNIX_MS + 1_000,
            command: ["nodeward", "balance"].map(Name::from).into(),
            processes: vec![identity],
            undoes: None,
        },
        cause: Some(OperationCause {
            requested_by: "balance".to_owned(),
            reason: "pays".to_owned(),
            explanation: explanation.to_owned(),
        }),
        processes: vec![MovedPages { moved: runs, open: MovedRuns::new(4096) }],
        state: OperationState::Ended(OperationEnd { account, interrupted: false, ended_unix_ms }),
        is_complete: true,
        damage: None,
    }
}

/// A watch of a process that the balancer moves.
fn watched(name: &Name) -> WatchReport {
    let process = moved_process(154, name);
    let decision = AgentDecision {
        pid: process.pid,
        name: name.to_string(),
        verdict: "settles".to_owned(),
        reason: "memory-there".to_owned(),
        threads_reason: None,
        memory_reason: Some("pays".to_owned()),
        home: Some(vec![NodeId(1)]),
    };
    let decisions = SeenDecisions {
        last: [(process.pid, decision.clone())].into(),
        changes: vec![DecisionChange { at_ns: SECOND, decision }],
        ..SeenDecisions::default()
    };
    let why = "needs CAP_SYS_PTRACE".to_owned();
    WatchReport {
        subject: Some(process.pid),
        moments: moments(),
        moves: vec![balanced(&process, "saves 2 s for 1 s")],
        processes: vec![process],
        decisions: Some(decisions),
        unseen: vec![Unseen { what: "3 processes of others".to_owned(), why }],
        ..nothing(2)
    }
}

/// Returns the page, which is checked: it is well-formed, no element runs or loads anything, and
/// each picture has a name.
fn checked(seen: &WatchReport) -> String {
    let page = html(seen);
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    let parsed = Document::parse_with_options(&page, options).unwrap();
    for node in parsed.descendants().filter(|node| node.is_element()) {
        let name = node.tag_name().name();
        let loads = ["script", "link", "img", "iframe", "object", "embed", "image", "use", "a"];
        assert!(!loads.contains(&name), "{name}");
        for attribute in node.attributes() {
            let name = attribute.name();
            assert!(!name.starts_with("on") && !["src", "href", "style"].contains(&name), "{name}");
        }
        if node.attribute("role") == Some("img") {
            let has_title = node.children().any(|child| child.has_tag_name("title"));
            assert!(has_title, "a picture without a name");
        }
    }
    for outside in ["http:", "https:", "url(", "@import", "//"] {
        assert!(!page.contains(outside), "{outside}");
    }
    page
}

/// Returns what a reader sees.
fn text(page: &str) -> String {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    let parsed = Document::parse_with_options(page, options).unwrap();
    let body = parsed.descendants().find(|node| node.has_tag_name("body")).unwrap();
    body.descendants().filter_map(|node| node.text().filter(|_| node.is_text())).collect()
}

/// Goal: the page of a process that moved, whole.
#[test]
fn a_process_that_moved() {
    let page = checked(&watched(&"postgres".into()));
    let (_, body) = page.split_once("</head>").unwrap();
    insta::assert_snapshot!(body);
}

/// Goal: the page of a machine has its processes in a table, and says what it has not.
#[test]
fn a_machine() {
    let processes = vec![moved_process(7, &"db".into()), moved_process(8, &"web".into())];
    let page = checked(&WatchReport { moments: moments(), processes, ..nothing(2) });
    let told = text(&page);
    for words in ["db (7)", "web (8)", "The ledger has no move", "The machine", "about 100 MiB"] {
        assert!(told.contains(words), "{words} is missing in {told}");
    }
}

/// Goal: without any data there is a page all the same, on one node and on many.
#[test]
fn nothing_was_seen() {
    for nodes in [1, 2, 64] {
        for subject in [None, Some(pid(7))] {
            let told = text(&checked(&WatchReport { subject, ..nothing(nodes) }));
            assert!(told.contains("The machine"), "{told}");
        }
    }
}

/// Goal: 64 nodes have seven colours and one for the others, and the page stays small.
#[test]
fn many_nodes() {
    let used: Vec<u64> = (1..=64).map(|node| node * MIB).collect();
    let moment = |at| WatchMoment {
        at_ns: at * SECOND,
        node_used_bytes: on(&used),
        ..WatchMoment::default()
    };
    let page = checked(&WatchReport { moments: (0..600).map(moment).collect(), ..nothing(64) });
    assert!(text(&page).contains("57 other nodes"), "64 - 7");
    assert!(page.len() < 200_000, "{} bytes", page.len());
}

/// Goal: of ten thousand processes the largest are shown and the rest is summed, so that the page
/// stays small.
#[test]
fn many_processes() {
    let processes = (1..=10_000).map(|number| moved_process(number, &"worker".into())).collect();
    let page = checked(&WatchReport { moments: moments(), processes, ..nothing(2) });
    // 10,000 - 40 rows, of 100 MiB each, of which one is misplaced.
    let rest = "9960 further processes have 973 GiB of memory, of which 9.73 GiB is misplaced";
    assert!(text(&page).contains(rest), "{}", text(&page));
    assert!(page.len() < 400_000, "{} bytes", page.len());
}

/// Goal: names and words of others are text, wherever they are shown: in headings, tables, pictures
/// and the title of the page.
#[test]
fn hostile_names() {
    let name = Name::from(&b"</title><script>\x1b\"'&\n\xff"[..]);
    let mut seen = watched(&name);
    seen.moves[0].cause.as_mut().unwrap().explanation = "<img src=x onerror=y>&".to_owned();
    seen.unseen[0].what = "\u{202e}<style>".to_owned();
    let of_process = checked(&seen);
    let of_machine = checked(&WatchReport { subject: None, ..seen });
    for page in [of_process, of_machine] {
        assert!(!page.contains("<script") && !page.contains("<img"), "{page}");
        let told = text(&page);
        assert!(told.contains(r#"</title><script>\x1b"'&\x0a\xff"#), "{told}");
        assert!(told.contains("<img src=x onerror=y>&"), "{told}");
    }
}

/// Goal: the page says so if a watch ended early, and why.
#[test]
fn an_early_end_is_told() {
    let seen = WatchReport { asked_ns: 3600 * SECOND, ..watched(&"db".into()) };
    let stopped = text(&checked(&WatchReport { end: WatchEnd::Stopped, ..seen.clone() }));
    assert!(stopped.contains("stopped before its time: it was to last 1 h"), "{stopped}");
    let gone = text(&checked(&WatchReport { end: WatchEnd::Gone, ..seen }));
    assert!(gone.contains("ended, or called exec, after 4 s; the watch was to last 1 h"), "{gone}");
}

/// Goal: JSON has the same, with its schema, and names that are not UTF-8 as bytes, too.
#[test]
fn the_json_names_its_schema() {
    let json = json(&watched(&Name::from(&b"\xff"[..])));
    assert_eq!((&json["schema"], &json["ended"]), (&"nodeward.report/1".into(), &"time".into()));
    assert_eq!(json["processes"][0]["name_bytes"], serde_json::json!([255]));
    assert_eq!(json["processes"][0]["looks"][1]["kinds"]["heap"]["1"], 60 * MIB);
    assert_eq!(json["moves"][0]["processes"][0]["moved"]["by_nodes"][0]["pages"], 99 * 256);
    assert_eq!(json["moments"].as_array().map(Vec::len), Some(3));
}
