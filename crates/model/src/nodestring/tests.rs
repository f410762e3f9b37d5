//! Goal: the results of the real library, line by line, and errors with a remedy.
//!
//! The table was captured from libnuma itself; its header says how. Acceptance must agree
//! everywhere, and so must the nodes, except at the four points in the module's header.

use super::*;

const TABLE: &str = include_str!("../../../../fixtures/nodestrings.tsv");

fn mask(text: &str) -> Nodemask {
    text.parse().unwrap()
}

/// `# context existing=0-1 allowed=0-1 highest=1 ...`
fn context_of(line: &str) -> NodestringContext {
    let field = |name: &str| {
        let mut fields = line.split(' ');
        fields.find_map(|f| f.strip_prefix(name)).unwrap_or_else(|| panic!("{name} in {line}"))
    };
    NodestringContext {
        existing: mask(field("existing=")),
        allowed: mask(field("allowed=")),
        highest_possible: NodeId(field("highest=").parse().unwrap()),
    }
}

fn unescape(text: &str) -> String {
    text.replace("\\t", "\t").replace("\\n", "\n")
}

/// The table has numbers of ten digits and more only to show libnuma's result.
fn is_beyond_32_bits(text: &str) -> bool {
    text.split(|c: char| !c.is_ascii_digit()).any(|digits| digits.len() >= 10)
}

/// libnuma's `!` ends at the number of nodes. Where that gives the allowed nodes, the results must
/// be equal.
fn inversion_agrees(context: &NodestringContext) -> bool {
    let last = context.allowed.last().map_or(0, |node| node.0 as usize + 1);
    context.allowed == context.existing && last == context.allowed.len()
}

#[test]
fn every_line_of_the_real_table() {
    let mut context = None;
    let (mut lines, mut exempt) = (0, 0);
    for line in TABLE.lines().filter(|line| !line.is_empty()) {
        if line.starts_with("# context ") {
            context = Some(context_of(line));
        }
        let Some((text, verdict)) = line.split_once('\t').filter(|_| !line.starts_with('#')) else {
            continue;
        };
        let context = context.as_ref().expect("a context before the first line");
        lines += 1;
        let text = unescape(text);
        let (accepted, nodes) = verdict.split_once('\t').unwrap();
        let ours = parse_nodestring(&text, context);
        if is_beyond_32_bits(&text) {
            exempt += 1;
            assert!(ours.is_err(), "{text:?} is refused on purpose, not {ours:?}");
            continue;
        }
        assert_eq!(ours.is_ok(), accepted == "ok", "{text:?} in {context:?}: {ours:?}");
        if text.starts_with('!') && !inversion_agrees(context) {
            exempt += 1;
        } else if let Ok(ours) = ours {
            assert_eq!(ours, mask(nodes), "{text:?} in {context:?}");
        }
    }
    assert!(lines > 1000, "only {lines} lines");
    assert!(exempt * 5 < lines, "{exempt} of {lines} lines exempt from comparison");
}

#[test]
fn inversion_stays_among_the_allowed_nodes() {
    let holes = NodestringContext {
        existing: mask("0,2,5,7"),
        allowed: mask("0,2,5"),
        highest_possible: NodeId(63),
    };
    assert_eq!(parse_nodestring("!0", &holes), Ok(mask("2,5")));
    assert_eq!(parse_nodestring("!+1", &holes), Ok(mask("0,5")));
    assert_eq!(parse_nodestring("!all", &holes), Ok(mask("")));
}

#[test]
fn errors_say_which_part_and_what_is_valid() {
    let machine = NodestringContext {
        existing: mask("0-2"),
        allowed: mask("0-1"),
        highest_possible: NodeId(63),
    };
    let check = |text: &str, message: &str| {
        assert_eq!(parse_nodestring(text, &machine).unwrap_err().to_string(), message, "{text}");
    };
    check("7", "node 7 does not exist; nodes here are 0-1");
    check("0,2", "node 2 is outside cpuset.mems or has no memory; allowed here are 0-1");
    check("64", "there is no node 64; nodes here are 0-1");
    check("+2", "+2 is beyond the allowed nodes; positions run from 0 to 1");
    check("0,!1", "'!' may only stand in front of the whole list, as in !0-1; move it there");
    check("0-", "a node is missing behind '0-'; nodes here are 0-1");
    check("0,", "a node is missing behind '0,'; nodes here are 0-1");
    check(",0", "a node is missing in front of ',0'; nodes here are 0-1");
    check("!", "a node is missing behind the sign; nodes here are 0-1");
    check("0x", "'x' behind '0' cannot be read; separate nodes by a comma or a dash");
    check(
        "eth0",
        "'eth0' is not a node; write numbers such as 0,2 or 0-3, or all; nodes here are 0-1",
    );
    check("-1", "'-1' is not a node; write numbers such as 0,2 or 0-3, or all; nodes here are 0-1");
}

proptest::proptest! {
    /// Goal: any input gives only allowed nodes, and never a panic.
    #[test]
    fn only_allowed_nodes_come_out(text in "[0-9a-fx,!+ alé-]{0,12}", bits in 1u32..256) {
        let allowed: Nodemask = (0..8).filter(|b| bits >> b & 1 == 1).map(NodeId).collect();
        let (existing, highest_possible) = (mask("0-7"), NodeId(63));
        let context = NodestringContext { existing, allowed: allowed.clone(), highest_possible };
        if let Ok(nodes) = parse_nodestring(&text, &context) {
            proptest::prop_assert!(nodes.is_subset(&allowed));
        }
    }
}
