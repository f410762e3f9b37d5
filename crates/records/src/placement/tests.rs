//! Goal: what is written is read; anything else is refused, and says why.

use nodeward_model::Range;
use proptest::prelude::*;

use super::*;

fn name(text: &str) -> EscapedName {
    EscapedName::new(text)
}

fn run(at: u64, bytes: u64, node: u32) -> SavedRun {
    SavedRun { at, bytes, node: NodeId(node) }
}

/// A process with a mapping of its own, and one that shows a part of a segment.
fn placement() -> SavedPlacement {
    let own = SavedMapping {
        kind: MappingKind::Heap,
        name: name("[heap]"),
        offset: 0,
        bytes: 0x5000,
        permissions: name("rw-"),
        segment: None,
        runs: vec![run(0, 0x2000, 1), run(0x3000, 0x1000, 0)],
    };
    let shared = SavedMapping {
        kind: MappingKind::Shared,
        name: EscapedName::new(&b"/dev/shm/\xff\n"[..]),
        offset: 0x1000,
        segment: Some(0),
        runs: Vec::new(),
        ..own.clone()
    };
    let threads = [(Some(NodeId(1)), None), (None, Some("0-1,5".parse().unwrap()))];
    let thread = |(node, cpus)| SavedThread { name: name("wal 1"), node, cpus };
    let process = PlacedProcess {
        pid: Pid::new(7).unwrap(),
        name: name("db"),
        executable: Some(name("/usr/bin/db")),
        threads: threads.map(thread).into(),
        mappings: vec![own, shared],
    };
    SavedPlacement::new(1_700_000_000_000, vec![process], vec![vec![run(0, 0x4000, 1)]])
}

fn text() -> String {
    serde_json::to_string(&placement()).unwrap()
}

fn parse(text: &str) -> Result<SavedPlacement, PlacementFileError> {
    SavedPlacement::parse(text.as_bytes(), Path::new("p"))
}

fn refusal(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

/// Goal: the format does not change by accident: it is documented, and people keep such files.
#[test]
fn the_format_is_the_documented_one() {
    let expected = concat!(
        r#"{"schema":"nodeward.placement/1","saved_unix_ms":1700000000000,"processes":[{"pid":7,"#,
        r#""name":"db","executable":"/usr/bin/db","threads":[{"name":"wal 1","node":1,"#,
        r#""cpus":null},{"name":"wal 1","node":null,"cpus":[0,1,5]}],"mappings":[{"kind":"heap","#,
        r#""name":"[heap]","offset":0,"bytes":20480,"permissions":"rw-","runs":[[0,8192,1],"#,
        r#"[12288,4096,0]]},{"kind":"shared","name":"/dev/shm/\\xff\\x0a","offset":4096,"#,
        r#""bytes":20480,"permissions":"rw-","segment":0}]}],"segments":[[[0,16384,1]]]}"#,
    );
    assert_eq!(text(), expected);
    assert_eq!(parse(expected).unwrap(), placement());
}

/// Goal: a file that was cut at any byte is told as that, not as another.
#[test]
fn any_beginning_is_cut_short() {
    let text = text();
    for bytes in 0..text.len() {
        let error = parse(&text[..bytes]).unwrap_err();
        assert!(matches!(error, PlacementFileError::CutShort { .. }), "{bytes}: {error}");
    }
}

/// Goal: files of others, and of other versions of nodeward, are told apart.
#[test]
fn other_files_are_refused() {
    for other in ["hello", "[]", "{}", "7", "{\"schema\":\"nodeward.move/1\"}", "\u{1b}[2J"] {
        assert!(refusal(other).starts_with("p is no placement; name a file"), "{other}");
    }
    let newer = text().replace("placement/1", "placement/2");
    assert!(refusal(&newer).contains("has version 2 and this nodeward reads version 1"));
    let long = text().replace("placement/1", &format!("placement/{}", "\\u001b9".repeat(99)));
    assert_eq!(refusal(&long).matches("\\x1b9").count(), 10, "twenty characters, escaped");
}

/// Goal: what cannot be is refused before anything is done with it.
#[test]
fn what_cannot_be_is_refused() {
    for (of, to, told) in [
        ("[0,8192,1]", "[0,0,1]", "the run [0, 0, 1] is not behind the one before"),
        ("[0,8192,1]", "[0,12289,1]", "the run [12288, 4096, 0] is not behind"),
        ("[0,8192,1]", "[18446744073709551615,2,1]", "is not behind"),
        ("[0,16384,1]", "[0,16384,1024]", "no machine has a node 1024"),
        ("\"node\":1", "\"node\":4096", "no machine has a node 4096"),
        ("\"segment\":0", "\"segment\":1", "names segment 1, which is not there"),
        ("[0,1,5]", "[0,1,70000]", "70000"),
        ("\"name\":\"db\"", "\"name\":\"d\\nb\"", "characters that are not escaped"),
        ("\"name\":\"db\"", "\"nick\":\"db\"", "nick"),
        ("\"pid\":7", "\"pid\":0", "process id"),
        ("[0,8192,1]", "[0,-1,1]", "-1"),
    ] {
        let text = text();
        assert!(text.contains(of), "{of}");
        let error = refusal(&text.replacen(of, to, 1));
        assert!(error.starts_with("p is wrong (") && error.contains(told), "{to}: {error}");
    }
    let long = "x".repeat(FILE_BYTES_MAX as usize + 1);
    assert!(refusal(&long).starts_with("p has more than 67108864 bytes"));
    assert!(!refusal(&"[".repeat(1 << 20)).is_empty(), "no stack is used up");
}

/// Goal: a file is written and read; another file that is there stays, and so does a placement
/// where no file can be made.
#[test]
fn only_placements_are_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db.placement");
    let bytes = placement().write(&path).unwrap();
    assert_eq!(bytes, fs::metadata(&path).unwrap().len());
    assert_eq!(SavedPlacement::read(&path).unwrap(), placement());
    SavedPlacement::new(5, Vec::new(), Vec::new()).write(&path).unwrap();
    assert_eq!(SavedPlacement::read(&path).unwrap().saved_unix_ms, 5);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing else is left");
    let other = dir.path().join("letter");
    fs::write(&other, "Dear Ada").unwrap();
    let error = placement().write(&other).unwrap_err().to_string();
    assert!(error.ends_with("is there and is no placement; choose another name"));
    assert_eq!(fs::read(&other).unwrap(), b"Dear Ada");
    for place in [dir.path(), Path::new("/dev/full"), &dir.path().join("no/file")] {
        let error = placement().write(place).unwrap_err();
        assert!(matches!(error, PlacementFileError::Write { .. }), "{error}");
    }
    for place in [dir.path(), &dir.path().join("none")] {
        let error = SavedPlacement::read(place).unwrap_err();
        assert!(matches!(error, PlacementFileError::Read { .. }), "{error}");
    }
}

proptest! {
    /// Goal: any runs of pages are what they were, in order, after they were sorted and joined; and
    /// what overlaps a range is what each of its pages says.
    #[test]
    fn runs_say_the_node_of_each_page(
        nodes in proptest::collection::vec(proptest::option::of(0..3_u32), 0..60),
        (from, to) in (0..70_u64, 0..70_u64),
        seed in any::<u64>(),
    ) {
        let of_page = |(at, node): (u64, &Option<u32>)| node.map(|node| run(at, 1, node));
        let mut pages: Vec<SavedRun> = (0..).zip(&nodes).filter_map(of_page).collect();
        pages.sort_by_key(|run| run.at.wrapping_mul(seed | 1));
        let runs = sort_and_join(pages);
        prop_assert_eq!(saved_run::check(&runs), Ok(()));
        let is_joined = |pair: &[SavedRun]| {
            pair[0].range().end < pair[1].at || pair[0].node != pair[1].node
        };
        prop_assert!(runs.windows(2).all(is_joined));
        let mut told = vec![None; nodes.len()];
        for part in overlapping(&runs, Range::new(from, to)) {
            (part.at..part.range().end).for_each(|at| told[at as usize] = Some(part.node.0));
        }
        for (at, node) in (0..).zip(&nodes) {
            let expected = node.filter(|_| (from..to).contains(&at));
            prop_assert_eq!(told[at as usize], expected);
        }
    }

    /// Goal: any bytes are read or refused.
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(SavedPlacement::parse(&bytes, Path::new("p")).is_err());
    }

    /// Goal: a change of one character gives a placement that holds together, or an error.
    #[test]
    fn any_change_is_read_or_refused(at in any::<prop::sample::Index>(), with in " -~") {
        let mut text = text();
        let at = at.index(text.len());
        text.replace_range(at..=at, &with);
        if let Ok(found) = parse(&text) {
            prop_assert_eq!(parse(&serde_json::to_string(&found).unwrap()).unwrap(), found);
        }
    }
}
