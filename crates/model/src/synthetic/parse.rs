//! Parses one-line descriptions and reports the column of a mistake.

use std::collections::BTreeSet;
use std::str::FromStr;

use super::{CacheRule, DEFAULT_DISTANCES, DistanceRule, HugeRule, NodeGroup, Sharing, Synthetic};
use crate::topology::CacheKind;
use crate::units::parse_bytes;
use crate::{CpuId, Id, NodeId, Nodemask};

/// The column of a mistake in a description and the expected text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: found '{found}', wanted {expected}")]
pub struct SyntheticError {
    /// The column of the mistake in characters, counted from 1.
    pub column: usize,
    /// The text found.
    pub found: String,
    /// The expected text.
    pub expected: String,
}

const EXPECTED_TOKENS: &str = "a word such as 2n, 4c, 2t, 16GiB, free:1GiB, huge:2MiB*512, \
                               dist:10/20, L3:32MiB, snc:2, split or +";

impl FromStr for Synthetic {
    type Err = SyntheticError;

    fn from_str(text: &str) -> Result<Self, SyntheticError> {
        let mut reader = SyntheticParser::default();
        for word in tokens(text) {
            reader.accept(word)?;
        }
        let end = Token { column: text.chars().count() + 1, text: "" };
        reader.finish(end)
    }
}

#[derive(Clone, Copy)]
struct Token<'a> {
    column: usize,
    text: &'a str,
}

impl<'a> Token<'a> {
    fn expected(self, wanted: impl Into<String>) -> SyntheticError {
        let found = if self.text.is_empty() { "the end" } else { self.text };
        SyntheticError { column: self.column, found: found.to_owned(), expected: wanted.into() }
    }

    /// Returns the text after `prefix`, with its own column; `None` without that prefix.
    fn strip_prefix(self, prefix: &str) -> Option<Self> {
        let text = self.text.strip_prefix(prefix)?;
        Some(Self { column: self.column + prefix.chars().count(), text })
    }

    /// Returns the parts between the separators, each with its own column.
    fn split(self, separator: char) -> impl Iterator<Item = Self> {
        let mut column = self.column;
        self.text.split(separator).map(move |text| {
            let part = Token { column, text };
            column += text.chars().count() + 1;
            part
        })
    }

    fn split_once(self, separator: char) -> (Self, Option<Token<'a>>) {
        match self.text.split_once(separator) {
            None => (self, None),
            Some((left, right)) => {
                let column = self.column + left.chars().count() + 1;
                (Token { text: left, ..self }, Some(Token { column, text: right }))
            }
        }
    }

    fn number(self, least: u32, most: u32, what: &str) -> Result<u32, SyntheticError> {
        let digits = self.text.bytes().all(|b| b.is_ascii_digit());
        let number = self.text.parse().ok().filter(|n| digits && (least..=most).contains(n));
        number.ok_or_else(|| self.expected(format!("{what} from {least} to {most}")))
    }

    fn bytes(self) -> Result<u64, SyntheticError> {
        parse_bytes(self.text)
            .ok()
            .filter(|&bytes| bytes > 0)
            .ok_or_else(|| self.expected("a size above zero, such as 64KiB or 4GiB"))
    }
}

/// Returns the words of a line; a column counts characters from 1.
fn tokens(text: &str) -> impl Iterator<Item = Token<'_>> {
    let whole = Token { column: 1, text };
    let spaced = whole.split(' ');
    spaced.flat_map(|word| word.split('\t')).filter(|word| !word.text.is_empty())
}

#[derive(Default)]
struct SyntheticParser<'a> {
    groups: Vec<NodeGroup>,
    current_group: Option<NodeGroup>,
    used_ids: Nodemask,
    seen_keys: BTreeSet<String>,
    distances: Option<(Token<'a>, DistanceRule)>,
    caches: Vec<CacheRule>,
    nodes_per_package: Option<u32>,
    split_threads: bool,
}

impl<'a> SyntheticParser<'a> {
    fn accept(&mut self, word: Token<'a>) -> Result<(), SyntheticError> {
        if word.text == "+" {
            return self.finish_group(word);
        }
        if self.current_group.is_none() {
            self.current_group = Some(self.group(word)?);
            return Ok(());
        }
        if self.machine_token(word)? {
            return Ok(());
        }
        self.group_token(word)
    }

    fn finish_group(&mut self, word: Token<'_>) -> Result<(), SyntheticError> {
        let group = self
            .current_group
            .take()
            .ok_or_else(|| word.expected("a group of nodes, such as 2n"))?;
        let is_empty = group.cores == 0 && group.memory_bytes == 0;
        if is_empty {
            return Err(word.expected("cores such as 4c or memory such as 16GiB for the group"));
        }
        if group.free_bytes.is_some_and(|free| free > group.memory_bytes) {
            return Err(word.expected("no more free memory than the node has"));
        }
        let set_aside = group.huge.iter().map(|h| u128::from(h.page_bytes) * u128::from(h.pages));
        if set_aside.sum::<u128>() > u128::from(group.memory_bytes) {
            return Err(word.expected("no more huge pages than the memory of the node holds"));
        }
        self.groups.push(group);
        self.seen_keys.retain(|name| name.starts_with(':'));
        Ok(())
    }

    fn group(&mut self, word: Token<'_>) -> Result<NodeGroup, SyntheticError> {
        let (count, ids) = word.split_once('@');
        let digits = count.text.strip_suffix('n').unwrap_or("");
        let count =
            Token { text: digits, ..count }.number(1, NodeId::LIMIT, "a number of nodes").map_err(
                |e| word.expected(format!("nodes such as 2n or 2n@0,4 ({})", e.expected)),
            )?;
        let ids = match ids {
            None => {
                self.ids_from(self.used_ids.last().map_or(0, |last| last.0 + 1), count, word)?
            }
            Some(list) => explicit_ids(list, count)?,
        };
        for &id in &ids {
            if !self.used_ids.insert(NodeId(id)) {
                return Err(word.expected(format!("an id other than {id}, which is taken")));
            }
        }
        Ok(NodeGroup { ids, cores: 0, threads: 1, memory_bytes: 0, free_bytes: None, huge: vec![] })
    }

    fn ids_from(
        &self,
        first: u32,
        count: u32,
        word: Token<'_>,
    ) -> Result<Vec<u32>, SyntheticError> {
        if first + count > NodeId::LIMIT {
            return Err(word.expected(format!("node ids below {}", NodeId::LIMIT)));
        }
        Ok((first..first + count).collect())
    }

    /// Records an option by name, and refuses a second one of that name.
    fn reject_duplicate(&mut self, name: &str, word: Token<'_>) -> Result<(), SyntheticError> {
        match self.seen_keys.insert(name.to_owned()) {
            true => Ok(()),
            false => Err(word.expected("each thing only once")),
        }
    }

    fn machine_token(&mut self, word: Token<'a>) -> Result<bool, SyntheticError> {
        if word.text == "split" {
            self.reject_duplicate(":split", word)?;
            self.split_threads = true;
        } else if let Some(rule) = word.strip_prefix("dist:") {
            self.reject_duplicate(":dist", word)?;
            self.distances = Some((rule, distance_rule(rule)?));
        } else if let Some(nodes) = word.strip_prefix("snc:") {
            self.reject_duplicate(":snc", word)?;
            self.nodes_per_package = Some(nodes.number(1, NodeId::LIMIT, "nodes in a package")?);
        } else if let Some(cache) = word.strip_prefix("L") {
            let rule = cache_rule(cache)?;
            self.reject_duplicate(&format!(":L{}{}", rule.level, rule.kind.suffix()), word)?;
            self.caches.push(rule);
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn group_token(&mut self, word: Token<'_>) -> Result<(), SyntheticError> {
        let counted = |suffix| word.text.strip_suffix(suffix).map(|text| Token { text, ..word });
        if let Some(cores) = counted('c') {
            let cores = cores.number(1, CpuId::LIMIT, "a number of cores")?;
            self.reject_duplicate("cores", word)?;
            self.update_group(|group| group.cores = cores);
        } else if let Some(threads) = counted('t') {
            let threads = threads.number(1, 64, "threads of a core")?;
            self.reject_duplicate("threads", word)?;
            self.update_group(|group| group.threads = threads);
        } else if let Some(free) = word.strip_prefix("free:") {
            let free = free.bytes()?;
            self.reject_duplicate("free", word)?;
            self.update_group(|group| group.free_bytes = Some(free));
        } else if let Some(huge) = word.strip_prefix("huge:") {
            let huge = huge_rule(huge)?;
            self.reject_duplicate(&format!("huge {}", huge.page_bytes), word)?;
            self.update_group(|group| group.huge.push(huge));
        } else {
            let memory = word.bytes().map_err(|_| word.expected(EXPECTED_TOKENS))?;
            self.reject_duplicate("memory", word)?;
            self.update_group(|group| group.memory_bytes = memory);
        }
        Ok(())
    }

    fn update_group(&mut self, change: impl FnOnce(&mut NodeGroup)) {
        if let Some(group) = &mut self.current_group {
            change(group);
        }
    }

    fn finish(mut self, end: Token<'a>) -> Result<Synthetic, SyntheticError> {
        self.finish_group(end)?;
        let cpus: u64 = self.groups.iter().map(cpus_of).sum();
        if cpus > u64::from(CpuId::LIMIT) {
            return Err(end.expected(format!("at most {} CPUs, not {cpus}", CpuId::LIMIT)));
        }
        for group in &mut self.groups {
            group.huge.sort_by_key(|huge| huge.page_bytes);
        }
        self.caches.sort_by_key(|cache| (cache.level, cache.kind));
        Ok(Synthetic {
            distances: checked_distances(self.distances, self.used_ids.len())?,
            groups: self.groups,
            caches: self.caches,
            nodes_per_package: self.nodes_per_package.unwrap_or(1),
            split_threads: self.split_threads,
        })
    }
}

fn cpus_of(group: &NodeGroup) -> u64 {
    u64::from(group.count()) * u64::from(group.cores) * u64::from(group.threads)
}

fn explicit_ids(list: Token<'_>, count: u32) -> Result<Vec<u32>, SyntheticError> {
    let ids = list
        .split(',')
        .map(|id| id.number(0, NodeId::LIMIT - 1, "a node id"))
        .collect::<Result<Vec<_>, _>>()?;
    let rises = ids.is_sorted_by(|a, b| a < b);
    match rises && ids.len() == count as usize {
        true => Ok(ids),
        false => Err(list.expected(format!("{count} node ids in rising order, such as 0,4"))),
    }
}

fn distance_rule(word: Token<'_>) -> Result<DistanceRule, SyntheticError> {
    let number = |part: Token<'_>| part.number(1, 255, "a distance");
    match word.text {
        "none" => return Ok(DistanceRule::Unknown),
        "ring" => return Ok(DistanceRule::Ring),
        _ => {}
    }
    if let (local, Some(remote)) = word.split_once('/') {
        return Ok(DistanceRule::Flat { local: number(local)?, remote: number(remote)? });
    }
    let rows = word.split(';').map(|row| row.split(',').map(number).collect());
    Ok(DistanceRule::Matrix(rows.collect::<Result<_, _>>()?))
}

fn checked_distances(
    rule: Option<(Token<'_>, DistanceRule)>,
    nodes: usize,
) -> Result<DistanceRule, SyntheticError> {
    let Some((word, rule)) = rule else { return Ok(DEFAULT_DISTANCES) };
    match &rule {
        DistanceRule::Matrix(rows)
            if rows.len() != nodes || rows.iter().any(|row| row.len() != nodes) =>
        {
            Err(word.expected(format!("{nodes} rows of {nodes} distances")))
        }
        _ => Ok(rule),
    }
}

fn cache_rule(word: Token<'_>) -> Result<CacheRule, SyntheticError> {
    let (name, size) = word.split_once(':');
    let size = size.ok_or_else(|| word.expected("a cache such as L2:1MiB or L3:32MiB/4c"))?;
    let (digits, kind) = match name.text.char_indices().last() {
        Some((at, 'd')) => (&name.text[..at], CacheKind::Data),
        Some((at, 'i')) => (&name.text[..at], CacheKind::Instruction),
        _ => (name.text, CacheKind::Unified),
    };
    let level = Token { text: digits, ..name }.number(1, 9, "a cache level")?;
    let (size, sharing) = size.split_once('/');
    let sharing = sharing.map_or(Ok(Sharing::default_for(level)), sharing_rule)?;
    Ok(CacheRule { level, kind, size_bytes: size.bytes()?, sharing })
}

fn sharing_rule(word: Token<'_>) -> Result<Sharing, SyntheticError> {
    match word.text.strip_suffix('c') {
        None if word.text == "n" => Ok(Sharing::Node),
        None => Err(word.expected("who shares it: cores such as 4c, or n for the node")),
        Some(text) => {
            Token { text, ..word }.number(1, CpuId::LIMIT, "a number of cores").map(Sharing::Cores)
        }
    }
}

fn huge_rule(word: Token<'_>) -> Result<HugeRule, SyntheticError> {
    let (size, pages) = word.split_once('*');
    let pages = pages.ok_or_else(|| word.expected("huge pages such as 2MiB*512"))?;
    let count = pages.number(0, u32::MAX, "a number of huge pages")?;
    Ok(HugeRule { page_bytes: size.bytes()?, pages: u64::from(count) })
}
