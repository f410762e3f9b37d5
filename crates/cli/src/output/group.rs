//! Groups of the agent, and proposals, as tables and for programs.

use std::fmt::Write as _;

use nodeward_agent::wire::{WireGroup, WireGroups, WireMember};
use nodeward_model::units::format_bytes;
use nodeward_model::{Escape as _, GroupName};
use serde_json::{Value, json};

use super::balance::by_node;
use crate::results::{ObservedTouches, ProposedGroup, ProposedGroups};

/// Groups whose memory one group touches, at most so many of them are told.
const SHARES_MAX: usize = 3;

/// Formats groups, with a line for each of their members.
pub fn text(list: &WireGroups, page_bytes: u64) -> String {
    if list.groups.is_empty() {
        return "no group is known; make one by nodeward group create, or by [group.NAME] in the \
                settings\n"
            .to_owned();
    }
    let mut text: String = list.groups.iter().map(|group| group_text(group, page_bytes)).collect();
    if let Some(why) = &list.starts_unseen {
        let why = why.escaped();
        let _ = writeln!(text, "threads that members start may be missing in their groups: {why}");
    }
    text
}

/// Formats groups for programs.
pub fn json(list: &WireGroups, page_bytes: u64) -> Value {
    json!({
        "schema": "nodeward.groups/1",
        "page_bytes": page_bytes,
        "groups": list.groups,
        "starts_unseen": list.starts_unseen,
    })
}

/// Formats a new group for programs.
pub fn created_json(number: u32, name: &GroupName) -> Value {
    json!({ "schema": "nodeward.group/1", "group": number, "name": name })
}

/// Formats proposals as tables of a settings file.
pub fn proposed_text(proposed: &ProposedGroups) -> String {
    let mut text = format!(
        "# Proposed for process {} by the names of its threads; put what you want into a settings \
         file.\n{}",
        proposed.pid,
        proposed.touches.as_ref().map_or_else(String::new, observed_text)
    );
    for (number, group) in proposed.groups.iter().enumerate() {
        let _ = write!(
            text,
            "\n# {} thread{}{}\n[group.{}]\nmatch = [{:?}]\nmemory = [\"touched\"]\n",
            group.threads,
            if group.threads == 1 { "" } else { "s" },
            touches_text(proposed, number),
            group.name,
            term(proposed, group),
        );
    }
    text
}

fn observed_text(touches: &ObservedTouches) -> String {
    let ObservedTouches { source, blind_to, touched } = touches;
    let block = format_bytes(touched.block_bytes);
    format!(
        "# Their accesses were observed by {source}, in blocks of {block}; not seen: {blind_to}.\n"
    )
}

/// Says whose memory a group touches, the most first.
fn touches_text(proposed: &ProposedGroups, number: usize) -> String {
    let Some(touches) = &proposed.touches else { return String::new() };
    let of_group = &touches.touched.groups[number];
    let Some(shares) = of_group.shares_ppm() else {
        return format!("; {} samples do not tell whose memory they touch", of_group.samples);
    };
    let share = |(owner, ppm): (usize, u64)| {
        let name = if owner == number { "themselves" } else { &proposed.groups[owner].name };
        format!("{name} {} %", ppm / 10_000)
    };
    let shares: Vec<String> = shares.into_iter().take(SHARES_MAX).map(share).collect();
    let samples = of_group.samples;
    format!("; who touches their memory most: {} ({samples} samples)", shares.join(", "))
}

/// Formats proposals for programs.
pub fn proposed_json(proposed: &ProposedGroups) -> Value {
    let groups = proposed.groups.iter().enumerate().map(|(number, group)| {
        let mut value = json!({
            "name": group.name,
            "match": [term(proposed, group)],
            "memory": ["touched"],
            "threads": group.threads,
        });
        if let Some(touches) = &proposed.touches {
            let of_group = &touches.touched.groups[number];
            value["samples"] = json!(of_group.samples);
            value["touches_ppm"] = of_group.shares_ppm().map_or(Value::Null, |shares| {
                let named =
                    |(owner, ppm): (usize, u64)| (proposed.groups[owner].name.clone(), json!(ppm));
                shares.into_iter().map(named).collect()
            });
        }
        value
    });
    let groups: Vec<Value> = groups.collect();
    let mut value =
        json!({ "schema": "nodeward.proposed-groups/1", "pid": proposed.pid, "groups": groups });
    if let Some(touches) = &proposed.touches {
        value["source"] = json!(touches.source.name());
        value["block_bytes"] = json!(touches.touched.block_bytes);
    }
    value
}

fn term(proposed: &ProposedGroups, group: &ProposedGroup) -> String {
    format!("command:{} thread:{}", proposed.command, group.thread)
}

fn group_text(group: &WireGroup, page_bytes: u64) -> String {
    let number = group.group.map_or_else(|| "rule".to_owned(), |number| number.to_string());
    let is_at = match &group.nodes {
        Some(nodes) if !nodes.is_empty() => {
            let nodes: Vec<_> = nodes.iter().map(ToString::to_string).collect();
            format!("at home on {}", nodes.join(","))
        }
        _ => "without a home".to_owned(),
    };
    let asked = group.home.as_ref().map_or_else(String::new, |home| format!(", asked for {home}"));
    let reasons: Vec<&str> =
        [&group.reason, &group.memory_reason].into_iter().flatten().map(String::as_str).collect();
    let why = if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join(", ")) };
    let memory = by_node(&group.pages, |&pages| format_bytes(pages * page_bytes));
    let threads = by_node(&group.threads, ToString::to_string);
    let mut text = format!(
        "group {number} {}: {is_at}{asked}{why}\n  threads on nodes {threads}; memory on nodes \
         {memory}\n",
        group.name.escaped()
    );
    group.members.iter().for_each(|member| text += &member_text(member));
    text
}

fn member_text(member: &WireMember) -> String {
    let threads = match (member.all_threads, member.threads.len()) {
        (true, _) => "all threads".to_owned(),
        (false, 1) => "1 thread".to_owned(),
        (false, count) => format!("{count} threads"),
    };
    let memory: Vec<String> = member.memory.iter().map(|it| it.escaped().to_string()).collect();
    let memory = if memory.is_empty() { "no memory".to_owned() } else { memory.join(", ") };
    let own: Vec<String> = member.self_moved.iter().map(|it| it.escaped().to_string()).collect();
    let own =
        if own.is_empty() { String::new() } else { format!("; moves itself {}", own.join(", ")) };
    format!("  process {}: {threads}; {memory}{own}\n", member.pid)
}

#[cfg(test)]
mod tests {
    use nodeward_machine::AccessSourceKind;
    use nodeward_model::{NodeId, Pid};

    use super::*;
    use crate::results::touched_memory::{GroupTouches, TouchedMemory};

    fn example() -> WireGroups {
        let member = |pid, threads: &[u32], memory: &[&str]| WireMember {
            pid: Pid::new(pid).unwrap(),
            all_threads: threads.is_empty(),
            threads: threads.to_vec(),
            memory: memory.iter().map(ToString::to_string).collect(),
            self_moved: memory
                .iter()
                .filter(|it| it.contains('-'))
                .map(ToString::to_string)
                .collect(),
        };
        let called = WireGroup {
            group: Some(1),
            name: "kv".into(),
            uid: Some(1000),
            home: Some("auto".into()),
            members: vec![
                member(4711, &[], &["heap", "anonymous"]),
                member(4712, &[4712, 4713], &["7f0000000000-7f0000200000"]),
                member(4713, &[4713], &[]),
            ],
            nodes: Some(vec![NodeId(1)]),
            home_pages: Some([(NodeId(1), 3 << 18)].into()),
            verdict: Some("stays".into()),
            reason: Some("memory-there".into()),
            threads_reason: None,
            memory_reason: Some("all-home".into()),
            threads_brought: Some(0),
            pages_brought: Some(0),
            threads: [(NodeId(0), 1), (NodeId(1), 11)].into(),
            pages: [(NodeId(1), 3 << 18)].into(),
        };
        let rule = WireGroup {
            group: None,
            name: "wal\x1b".into(),
            uid: None,
            home: None,
            members: Vec::new(),
            nodes: None,
            home_pages: None,
            verdict: Some("left".into()),
            reason: Some("no-threads".into()),
            threads_reason: None,
            memory_reason: None,
            threads_brought: Some(0),
            pages_brought: Some(0),
            threads: [].into(),
            pages: [].into(),
        };
        WireGroups {
            groups: vec![called, rule],
            starts_unseen: Some("it is not known who starts which thread: run as root".into()),
        }
    }

    #[test]
    fn groups_for_people() {
        insta::assert_snapshot!(text(&example(), 4096));
        insta::assert_snapshot!(text(&WireGroups::default(), 4096));
    }

    #[test]
    fn groups_for_programs() {
        insta::assert_snapshot!(serde_json::to_string_pretty(&json(&example(), 4096)).unwrap());
    }

    fn proposed(touches: Option<ObservedTouches>) -> ProposedGroups {
        let group = |name: &str, thread: &str, threads| ProposedGroup {
            name: name.into(),
            thread: thread.into(),
            threads,
        };
        ProposedGroups {
            pid: Pid::new(7).unwrap(),
            command: "java".into(),
            groups: vec![group("gc-thread", "GC?Thread#*", 8), group("vm", "VM*", 1)],
            touches,
        }
    }

    #[test]
    fn proposals_are_a_settings_file() {
        insta::assert_snapshot!(proposed_text(&proposed(None)));
        insta::assert_snapshot!(proposed_json(&proposed(None)).to_string());
    }

    /// Goal: what was observed is told of each group, the owner of most memory first, or that it
    /// does not tell: of 3 blocks that the collector touches it owns 2, 66 %.
    #[test]
    fn proposals_tell_what_was_observed() {
        let collector = GroupTouches { samples: 80, owners: [(0, 2), (1, 1)].into() };
        let few = GroupTouches { samples: 3, owners: [(1, 1)].into() };
        let touched = TouchedMemory { block_bytes: 4 << 20, groups: vec![collector, few] };
        let source = AccessSourceKind::Registers;
        let proposed = proposed(Some(ObservedTouches { source, blind_to: "much", touched }));
        insta::assert_snapshot!(proposed_text(&proposed));
        insta::assert_snapshot!(proposed_json(&proposed).to_string());
    }
}
