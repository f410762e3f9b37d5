//! Groups of threads and memory that are placed as one, after the groups of 2012 (sched/numa,
//! `sys_numa_tbind` and `sys_numa_mbind`).
//!
//! A [`GroupSpec`] is a rule: it says which threads and which memory of which processes belong
//! together, and where. What names a process, a thread or a file is a [`NamePattern`].

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{Escape as _, Mapping, MappingKind, Name, Nodemask, Pid, Range};

/// Bytes of a group's name at most.
const NAME_BYTES_MAX: usize = 64;
/// Bytes of a pattern at most.
const PATTERN_BYTES_MAX: usize = 4096;

/// The name of a group: 1 to 64 ASCII letters, digits, `.`, `_`, `-`, of which the first is no `-`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct GroupName(String);

/// The reasons for which a text is not the name, pattern, home or memory of a group.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum GroupError {
    /// The text is not the name of a group.
    #[error(
        "{0:?} is no group name: give 1 to 64 letters, digits, '.', '_', '-', and not digits \
         alone, which are the number of a group"
    )]
    Name(String),
    /// The text is not a pattern.
    #[error("a pattern is 1 to {PATTERN_BYTES_MAX} bytes long")]
    Pattern,
    /// The text is a pattern that matches nothing, because it is malformed.
    #[error("{0:?} is no pattern: {1}")]
    Syntax(String, String),
    /// The text is not a kind or a range of memory.
    #[error(
        "{0:?} is no memory: give heap, stack, anonymous, shared, huge, touched, file:PATTERN or \
         a range START-END in hexadecimal"
    )]
    Memory(String),
    /// The text is not a term about threads.
    #[error(
        "{0:?} says nothing of threads: give terms such as command:NAME, thread:NAME, \
         cgroup:PATH, user:ID, pid:PID"
    )]
    Term(String),
    /// The text gives a term twice.
    #[error("{0:?} is there twice: give each term once, or two patterns of which either may fit")]
    Twice(String),
    /// The text is not a home of a group.
    #[error("{0:?} is no home: give auto, nodes such as 0-1, or spread:NODES")]
    Home(String),
}

/// The nodes on which a group is to be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GroupHome {
    /// The nodes that the balancer finds best.
    #[default]
    Auto,
    /// One of these nodes, or several of them if the group is larger than each.
    Nodes(Nodemask),
    /// The threads on any of these nodes, the memory evenly on all of them.
    Spread(Nodemask),
}

/// A pattern of names: `*` is any text without `/`, `**` any text, `?` one character, `[a-z]` one
/// of these, `{a,b}` either.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NamePattern(String);

/// A rule that makes a group: its threads and its memory, by patterns over all processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupSpec {
    /// The name of the group.
    pub name: GroupName,
    /// The nodes on which the group is to be.
    pub home: GroupHome,
    /// Patterns of threads; a thread that one of them matches is in the group.
    pub members: Vec<MemberPattern>,
    /// Selectors of memory in the processes of the group's threads.
    pub memory: Vec<MemorySelector>,
}

/// A pattern of threads. A thread matches if every term is true of the thread or of its process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberPattern {
    /// The control group (version 2) of the process, or one above it.
    pub cgroup: Option<PathBuf>,
    /// The name of the process.
    pub command: Option<NamePattern>,
    /// The name of the thread.
    pub thread: Option<NamePattern>,
    /// The id of the user that the process runs as.
    pub user: Option<u32>,
    /// The id of the process.
    pub pid: Option<Pid>,
}

/// Memory of a process that belongs to a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemorySelector {
    /// All mappings of this kind.
    Kind(MappingKind),
    /// Mappings of files with such a path, also of shared memory that has one.
    File(NamePattern),
    /// The memory at these addresses.
    Range(Range),
    /// The memory that the threads of the group access most, if accesses are known.
    Touched,
}

/// Facts about a process that patterns test, and by which its program is recognized.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessTraits {
    /// The id of the user that the process runs as, if known.
    pub user: Option<u32>,
    /// The control group (version 2) of the process, if it has one.
    pub cgroup: Option<PathBuf>,
    /// The path of its program, also if that was deleted or replaced since; `None` if it is not
    /// known.
    pub executable: Option<PathBuf>,
    /// The names of the process's threads, in ascending order of thread ids.
    pub threads: Vec<(u32, Name)>,
}

impl GroupName {
    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for GroupName {
    type Err = GroupError;

    fn from_str(text: &str) -> Result<Self, GroupError> {
        let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let is_name = (1..=NAME_BYTES_MAX).contains(&text.len())
            && !text.starts_with('-')
            && !text.bytes().all(|byte| byte.is_ascii_digit())
            && text.bytes().all(is_good);
        match is_name {
            true => Ok(Self(text.to_owned())),
            false => Err(GroupError::Name(text.to_owned())),
        }
    }
}

impl TryFrom<String> for GroupName {
    type Error = GroupError;

    fn try_from(text: String) -> Result<Self, GroupError> {
        text.parse()
    }
}

impl From<GroupName> for String {
    fn from(name: GroupName) -> Self {
        name.0
    }
}

impl TryFrom<String> for NamePattern {
    type Error = GroupError;

    fn try_from(text: String) -> Result<Self, GroupError> {
        text.parse()
    }
}

impl From<NamePattern> for String {
    fn from(pattern: NamePattern) -> Self {
        pattern.0
    }
}

impl fmt::Display for GroupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for NamePattern {
    type Err = GroupError;

    fn from_str(text: &str) -> Result<Self, GroupError> {
        if !(1..=PATTERN_BYTES_MAX).contains(&text.len()) {
            return Err(GroupError::Pattern);
        }
        match fast_glob::validate(text) {
            Ok(()) => Ok(Self(text.to_owned())),
            Err(error) => Err(GroupError::Syntax(text.to_owned(), error.to_string())),
        }
    }
}

impl fmt::Display for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl NamePattern {
    /// Returns whether the pattern matches a name.
    pub fn matches(&self, name: &Name) -> bool {
        fast_glob::glob_match(&self.0, name.as_bytes())
    }
}

impl FromStr for GroupHome {
    type Err = GroupError;

    fn from_str(text: &str) -> Result<Self, GroupError> {
        let nodes = |text: &str| text.parse().ok().filter(|nodes: &Nodemask| !nodes.is_empty());
        let home = match text.strip_prefix("spread:") {
            Some(text) => nodes(text).map(Self::Spread),
            None if text == "auto" => Some(Self::Auto),
            None => nodes(text).map(Self::Nodes),
        };
        home.ok_or_else(|| GroupError::Home(text.to_owned()))
    }
}

impl GroupHome {
    /// Returns the nodes that it names, if it names any.
    pub fn named_nodes(&self) -> Option<&Nodemask> {
        match self {
            Self::Auto => None,
            Self::Nodes(nodes) | Self::Spread(nodes) => Some(nodes),
        }
    }
}

impl fmt::Display for GroupHome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Nodes(nodes) => write!(f, "{nodes}"),
            Self::Spread(nodes) => write!(f, "spread:{nodes}"),
        }
    }
}

/// Terms are separated by blanks: `command:NAME`, `thread:NAME`, `cgroup:PATH`, `user:ID`,
/// `pid:PID`, each once at most, and one at least.
impl FromStr for MemberPattern {
    type Err = GroupError;

    fn from_str(text: &str) -> Result<Self, GroupError> {
        let mut found = Self::default();
        let mut seen = Vec::new();
        for term in text.split_ascii_whitespace() {
            let wrong = || GroupError::Term(term.to_owned());
            let (key, value) = term.split_once(':').ok_or_else(wrong)?;
            match key {
                "command" => found.command = Some(value.parse()?),
                "thread" => found.thread = Some(value.parse()?),
                "cgroup" if value.starts_with('/') => found.cgroup = Some(value.into()),
                "user" => found.user = Some(value.parse().map_err(|_| wrong())?),
                "pid" => found.pid = Some(value.parse().map_err(|_| wrong())?),
                _ => return Err(wrong()),
            }
            if seen.contains(&key) {
                return Err(GroupError::Twice(key.to_owned()));
            }
            seen.push(key);
        }
        match seen.is_empty() {
            true => Err(GroupError::Term(text.to_owned())),
            false => Ok(found),
        }
    }
}

impl fmt::Display for MemberPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cgroup, command, thread, user, pid } = self;
        let terms = [
            cgroup.as_ref().map(|path| format!("cgroup:{}", path.escaped())),
            command.as_ref().map(|pattern| format!("command:{pattern}")),
            thread.as_ref().map(|pattern| format!("thread:{pattern}")),
            user.map(|user| format!("user:{user}")),
            pid.map(|pid| format!("pid:{pid}")),
        ];
        f.write_str(&terms.into_iter().flatten().collect::<Vec<_>>().join(" "))
    }
}

impl FromStr for MemorySelector {
    type Err = GroupError;

    fn from_str(text: &str) -> Result<Self, GroupError> {
        if let Some(pattern) = text.strip_prefix("file:") {
            return pattern.parse().map(Self::File);
        }
        let kinds = || MappingKind::ALL.into_iter().filter(|kind| *kind != MappingKind::File);
        let range = || {
            let (start, end) = text.split_once('-')?;
            let parse = |text| u64::from_str_radix(text, 16).ok();
            Some(Range::new(parse(start)?, parse(end)?)).filter(|range| !range.is_empty())
        };
        match kinds().find(|kind| kind.name() == text) {
            Some(kind) => Ok(Self::Kind(kind)),
            None if text == "touched" => Ok(Self::Touched),
            None => range().map(Self::Range).ok_or_else(|| GroupError::Memory(text.to_owned())),
        }
    }
}

impl fmt::Display for MemorySelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kind(kind) => write!(f, "{kind}"),
            Self::File(pattern) => write!(f, "file:{pattern}"),
            Self::Range(range) => write!(f, "{range}"),
            Self::Touched => f.write_str("touched"),
        }
    }
}

impl MemorySelector {
    /// Returns the part of a mapping that is selected. In a mapping of huge pages a range is
    /// widened to these: the kernel moves none in pieces.
    pub fn part_of(&self, mapping: &Mapping) -> Option<Range> {
        match self {
            Self::Kind(kind) => (mapping.kind == *kind).then_some(mapping.range),
            Self::File(pattern) => {
                let is_it = !mapping.path.is_empty() && pattern.matches(&mapping.path);
                is_it.then_some(mapping.range)
            }
            Self::Range(range) => {
                let widened = mapping.huge_page_bytes.map(|bytes| range.whole_pages(bytes));
                widened.unwrap_or(*range).intersection(mapping.range)
            }
            Self::Touched => None,
        }
    }
}

impl MemberPattern {
    /// Returns whether threads of this process may match.
    pub fn matches_process(&self, pid: Pid, name: &Name, traits: &ProcessTraits) -> bool {
        let is_below = |above: &PathBuf| {
            traits.cgroup.as_ref().is_some_and(|cgroup| cgroup.starts_with(above))
        };
        self.cgroup.as_ref().is_none_or(is_below)
            && self.command.as_ref().is_none_or(|pattern| pattern.matches(name))
            && self.user.is_none_or(|user| traits.user == Some(user))
            && self.pid.is_none_or(|own| own == pid)
    }

    /// Returns whether a thread of a matching process matches by its name.
    pub fn matches_thread(&self, name: &Name) -> bool {
        self.thread.as_ref().is_none_or(|pattern| pattern.matches(name))
    }
}

impl GroupSpec {
    /// The threads of a process that belong to the group, in ascending order.
    pub fn threads_of(&self, pid: Pid, name: &Name, traits: &ProcessTraits) -> Vec<u32> {
        let of_process = |one: &&MemberPattern| one.matches_process(pid, name, traits);
        let patterns: Vec<_> = self.members.iter().filter(of_process).collect();
        let is_one = |(_, name): &&(u32, Name)| patterns.iter().any(|it| it.matches_thread(name));
        traits.threads.iter().filter(is_one).map(|(tid, _)| *tid).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Option<GroupName> {
        text.parse().ok()
    }

    /// Goal: a name is what a file name and an option can hold without quotes.
    #[test]
    fn names_are_simple() {
        let long = "x".repeat(64);
        assert!([&long, "kv", "a.b_c-9", ".x"].iter().all(|text| name(text).is_some()));
        let longer = "x".repeat(65);
        for text in [&longer, "", "-v", "a b", "a/b", "ä", "a\n", "1", "07"] {
            assert_eq!(name(text), None, "{text:?}");
        }
    }

    /// Goal: patterns are of bytes, also of those that are no text; a star ends at a slash, two do
    /// not.
    #[test]
    fn patterns_match_bytes() {
        let matches = |pattern: &str, name: &[u8]| {
            pattern.parse::<NamePattern>().unwrap().matches(&Name::from(name))
        };
        assert!(matches("wal*", b"walwriter") && matches("w?l*", b"walwriter"));
        assert!(!matches("wal", b"walwriter") && !matches("wal*", b"a walwriter"));
        assert!(matches("a*", b"a\xff\xfe"));
        assert!(!matches("/dev/*", b"/dev/shm/x") && matches("/dev/**", b"/dev/shm/x"));
        assert!(matches("{io,wal}-*", b"io-3") && matches("[0-9]x", b"7x"));
        assert_eq!("".parse::<NamePattern>(), Err(GroupError::Pattern));
    }

    /// Goal: a pattern that could match nothing is refused, wherever it is a part of.
    #[test]
    fn malformed_patterns_are_refused() {
        for text in ["[ab", "{a,b", "a\\"] {
            let refused = text.parse::<NamePattern>().unwrap_err().to_string();
            assert!(refused.contains("is no pattern"), "{text}: {refused}");
            assert!(format!("command:{text}").parse::<MemberPattern>().is_err(), "{text}");
            assert!(format!("file:{text}").parse::<MemorySelector>().is_err(), "{text}");
        }
        assert!("a\\[b".parse::<NamePattern>().unwrap().matches(&Name::from(&b"a[b"[..])));
    }

    /// Goal: the text of a selector parses to the same selector.
    #[test]
    fn memory_is_read_as_it_is_written() {
        for text in ["heap", "stack", "anonymous", "shared", "huge", "touched", "file:/a/*.db"] {
            assert_eq!(text.parse::<MemorySelector>().unwrap().to_string(), text);
        }
        let range = MemorySelector::Range(Range::new(0x7000, 0x9000));
        assert_eq!("7000-9000".parse(), Ok(range));
        for text in ["", "file", "file:", "Heap", "9000-7000", "7000-7000", "x-y", "7000"] {
            assert!(text.parse::<MemorySelector>().is_err(), "{text:?}");
        }
    }

    /// Goal: homes and terms are written as they are read; what is none is named.
    #[test]
    fn homes_and_terms_are_read_as_they_are_written() {
        for text in ["auto", "1", "0-1", "spread:0-3"] {
            assert_eq!(text.parse::<GroupHome>().unwrap().to_string(), text);
        }
        for text in ["", "spread:", "node", "spread", "-1"] {
            assert_eq!(text.parse::<GroupHome>(), Err(GroupError::Home(text.to_owned())));
        }
        let all = "cgroup:/a.slice command:db* thread:wal-? user:7 pid:99";
        assert_eq!(all.parse::<MemberPattern>().unwrap().to_string(), all);
        for (text, wrong) in
            [("", ""), ("db", "db"), ("thread:a pid:x", "pid:x"), ("cgroup:a", "cgroup:a")]
        {
            let error = GroupError::Term(wrong.to_owned());
            assert_eq!(text.parse::<MemberPattern>(), Err(error), "{text:?}");
        }
        let twice = Err(GroupError::Twice("pid".to_owned()));
        assert_eq!("pid:1 pid:2".parse::<MemberPattern>(), twice);
    }

    /// Goal: all terms of a pattern must be true, any pattern of a group is enough, and only the
    /// threads whose names fit are in.
    #[test]
    fn threads_are_found_by_terms() {
        let pid = Pid::new(7).unwrap();
        let threads = [(7, "db"), (8, "wal-1"), (9, "io-1"), (11, "wal-2")];
        let traits = ProcessTraits {
            user: Some(1000),
            cgroup: Some("/app.slice/db.service".into()),
            executable: None,
            threads: threads.map(|(tid, name)| (tid, name.into())).into(),
        };
        let threads = |members: Vec<MemberPattern>| {
            let name = name("g").unwrap();
            let spec = GroupSpec { name, home: GroupHome::Auto, members, memory: Vec::new() };
            spec.threads_of(pid, &"db".into(), &traits)
        };
        let any = MemberPattern::default();
        let wal = MemberPattern { thread: Some("wal*".parse().unwrap()), ..any.clone() };
        assert_eq!(threads(vec![any.clone()]), [7, 8, 9, 11]);
        assert_eq!(threads(vec![wal.clone()]), [8, 11]);
        let other = MemberPattern { user: Some(0), ..wal.clone() };
        let io = MemberPattern { thread: Some("io-?".parse().unwrap()), ..any.clone() };
        assert_eq!(threads(vec![other, io]), [9]);
        let here = MemberPattern { cgroup: Some("/app.slice".into()), ..wal.clone() };
        assert_eq!(threads(vec![here]), [8, 11]);
        let there = MemberPattern { cgroup: Some("/app.sl".into()), ..wal };
        assert_eq!(threads(vec![there]), Vec::<u32>::new(), "a part of a name is no group above");
        assert_eq!(threads(vec![MemberPattern { pid: Pid::new(8).ok(), ..any }]), []);
    }
}
