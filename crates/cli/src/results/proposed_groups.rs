//! Groups that are proposed for a process, by the names of its threads.

use std::collections::BTreeMap;

use nodeward_machine::AccessSourceKind;
use nodeward_model::{Name, Pid, ProcessTraits};

use super::touched_memory::TouchedMemory;

/// Groups at most: what has more kinds of threads is told apart by hand.
const GROUPS_MAX: usize = 64;

/// The proposals for a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProposedGroups {
    /// The process.
    pub pid: Pid,
    /// Its name, as a pattern.
    pub command: String,
    /// Those with most threads first.
    pub groups: Vec<ProposedGroup>,
    /// Which of them touches which memory, if that was observed.
    pub touches: Option<ObservedTouches>,
}

/// What groups touch, and how that was observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedTouches {
    /// The source of the samples.
    pub source: AccessSourceKind,
    /// What it cannot see, in a line.
    pub blind_to: &'static str,
    /// What each group touches, in the order of the groups.
    pub touched: TouchedMemory,
}

/// A group of threads whose names differ in their numbers only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProposedGroup {
    /// The name of the group.
    pub name: String,
    /// The pattern of the names of its threads.
    pub thread: String,
    /// Number of threads at present.
    pub threads: usize,
}

impl ProposedGroups {
    /// Proposes groups.
    pub fn of(pid: Pid, name: &Name, traits: &ProcessTraits) -> Self {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for (_, name) in &traits.threads {
            *counts.entry(pattern(name, true)).or_default() += 1;
        }
        let mut found: Vec<_> = counts.into_iter().collect();
        found.sort_by_key(|(pattern, threads)| (std::cmp::Reverse(*threads), pattern.clone()));
        found.truncate(GROUPS_MAX);
        let mut groups: Vec<ProposedGroup> = Vec::new();
        for (thread, threads) in found {
            let name = unused_name(&thread, &groups);
            groups.push(ProposedGroup { name, thread, threads });
        }
        Self { pid, command: pattern(name, false), groups, touches: None }
    }

    /// Returns the number of the group of each thread that is in one.
    pub fn of_threads(&self, traits: &ProcessTraits) -> BTreeMap<u32, usize> {
        let group_of = |name: &Name| {
            let thread = pattern(name, true);
            self.groups.iter().position(|group| group.thread == thread)
        };
        let all = traits.threads.iter();
        all.filter_map(|(tid, name)| Some((*tid, group_of(name)?))).collect()
    }
}

/// Returns the pattern of a name: numbers are any text, and what has a meaning in patterns or ends
/// a term is any character.
fn pattern(name: &Name, any_number: bool) -> String {
    let mut text = String::new();
    for &byte in name.as_bytes() {
        match byte {
            b'0'..=b'9' if any_number && text.ends_with('*') => {}
            b'0'..=b'9' if any_number => text.push('*'),
            b'[' | b']' | b'{' | b'}' | b'*' | b'?' | b'!' | b'\\' => text.push('?'),
            byte if byte.is_ascii_graphic() => text.push(char::from(byte)),
            _ => text.push('?'),
        }
    }
    text
}

fn unused_name(pattern: &str, groups: &[ProposedGroup]) -> String {
    let kept = pattern.chars().map(|it| if it.is_ascii_alphanumeric() { it } else { '-' });
    let kept: String = kept.collect();
    let words: Vec<&str> = kept.split('-').filter(|word| !word.is_empty()).collect();
    let name = if words.is_empty() { "threads".to_owned() } else { words.join("-").to_lowercase() };
    let is_free = |name: &String| !groups.iter().any(|group| group.name == *name);
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    std::iter::once(name.clone()).chain(numbered).find(is_free).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proposed(names: &[&[u8]]) -> ProposedGroups {
        let threads = (1..).zip(names.iter().map(|&name| Name::from(name))).collect();
        let traits = ProcessTraits { threads, ..ProcessTraits::default() };
        ProposedGroups::of(Pid::new(7).unwrap(), &"my db".into(), &traits)
    }

    /// Goal: threads whose names differ in numbers are one group, the largest first, and each
    /// pattern matches its names.
    #[test]
    fn names_with_numbers_are_one_group() {
        let names: [&[u8]; 6] =
            [b"GC Thread#0", b"GC Thread#12", b"wal-1", b"\xff[x]", b"GC Thread#3", b"wal-2"];
        let told = proposed(&names);
        assert_eq!(told.command, "my?db");
        let shown: Vec<_> = told
            .groups
            .iter()
            .map(|it| format!("{} {} {}", it.name, it.thread, it.threads))
            .collect();
        assert_eq!(shown, ["gc-thread GC?Thread#* 3", "wal wal-* 2", "x ??x? 1"]);
        for (name, at) in names.iter().zip([0, 0, 1, 2, 0, 1]) {
            let pattern: nodeward_model::NamePattern = told.groups[at].thread.parse().unwrap();
            assert!(pattern.matches(&Name::from(*name)), "{pattern}");
        }
    }

    /// Goal: names of groups differ, and are names of groups.
    #[test]
    fn names_of_groups_differ() {
        let told = proposed(&[b"a b", b"a-b", b"\xfe", b"..."]);
        let names: Vec<_> = told.groups.iter().map(|group| group.name.as_str()).collect();
        assert_eq!(names, ["threads", "threads-2", "a-b", "a-b-2"]);
        assert!(names.iter().all(|name| name.parse::<nodeward_model::GroupName>().is_ok()));
    }
}
