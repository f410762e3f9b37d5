//! Parses one-line descriptions and reports the column of a mistake.

use std::collections::BTreeSet;
use std::str::FromStr;

use super::{CacheRule, DistanceRule, Group, HugeRule, Sharing, Synthetic, USUAL_DISTANCES};
use crate::topology::CacheKind;
use crate::units::parse_bytes;
use crate::{CpuId, Id, NodeId, Nodemask};

/// The column of a mistake in a description and the expected text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: found '{found}', wanted {wanted}")]
pub struct SyntheticError {
    /// The column of the mistake in characters, counted from 1.
    pub column: usize,
    /// The text found.
    pub found: String,
    /// The expected text.
    pub wanted: String,
}

const WORDS: &str = "a word such as 2n, 4c, 2t, 16GiB, free:1GiB, huge:2MiB*512, dist:10/20, \
                     L3:32MiB, snc:2, split or +";

impl FromStr for Synthetic {
    type Err = SyntheticError;

    fn from_str(text: &str) -> Result<Self, SyntheticError> {
        let mut reader = Reader::default();
        for word in words(text) {
            reader.take(word)?;
        }
        let end = Word { column: text.chars().count() + 1, text: "" };
        reader.finish(end)
    }
}

#[derive(Clone, Copy)]
struct Word<'a> {
    column: usize,
    text: &'a str,
}

impl<'a> Word<'a> {
    fn wanted(self, wanted: impl Into<String>) -> SyntheticError {
        let found = if self.text.is_empty() { "the end" } else { self.text };
        SyntheticError { column: self.column, found: found.to_owned(), wanted: wanted.into() }
    }

    /// Returns the text after `prefix`, with its own column; `None` without that prefix.
    fn after(self, prefix: &str) -> Option<Self> {
        let text = self.text.strip_prefix(prefix)?;
        Some(Self { column: self.column + prefix.chars().count(), text })
    }

    /// Returns the parts between the separators, each with its own column.
    fn split(self, separator: char) -> impl Iterator<Item = Self> {
        let mut column = self.column;
        self.text.split(separator).map(move |text| {
            let part = Word { column, text };
            column += text.chars().count() + 1;
            part
        })
    }

    fn cut(self, separator: char) -> (Self, Option<Word<'a>>) {
        match self.text.split_once(separator) {
            None => (self, None),
            Some((left, right)) => {
                let column = self.column + left.chars().count() + 1;
                (Word { text: left, ..self }, Some(Word { column, text: right }))
            }
        }
    }

    fn number(self, least: u32, most: u32, what: &str) -> Result<u32, SyntheticError> {
        let digits = self.text.bytes().all(|b| b.is_ascii_digit());
        let number = self.text.parse().ok().filter(|n| digits && (least..=most).contains(n));
        number.ok_or_else(|| self.wanted(format!("{what} from {least} to {most}")))
    }

    fn bytes(self) -> Result<u64, SyntheticError> {
        parse_bytes(self.text)
            .ok()
            .filter(|&bytes| bytes > 0)
            .ok_or_else(|| self.wanted("a size above zero, such as 64KiB or 4GiB"))
    }
}

/// Returns the words of a line; a column counts characters from 1.
fn words(text: &str) -> impl Iterator<Item = Word<'_>> {
    let whole = Word { column: 1, text };
    let spaced = whole.split(' ');
    spaced.flat_map(|word| word.split('\t')).filter(|word| !word.text.is_empty())
}

#[derive(Default)]
struct Reader<'a> {
    groups: Vec<Group>,
    open: Option<Group>,
    taken: Nodemask,
    said: BTreeSet<String>,
    distances: Option<(Word<'a>, DistanceRule)>,
    caches: Vec<CacheRule>,
    nodes_per_package: Option<u32>,
    split_threads: bool,
}

impl<'a> Reader<'a> {
    fn take(&mut self, word: Word<'a>) -> Result<(), SyntheticError> {
        if word.text == "+" {
            return self.close(word);
        }
        if self.open.is_none() {
            self.open = Some(self.group(word)?);
            return Ok(());
        }
        if self.machine_word(word)? {
            return Ok(());
        }
        self.group_word(word)
    }

    fn close(&mut self, word: Word<'_>) -> Result<(), SyntheticError> {
        let group = self.open.take().ok_or_else(|| word.wanted("a group of nodes, such as 2n"))?;
        let is_empty = group.cores == 0 && group.memory_bytes == 0;
        if is_empty {
            return Err(word.wanted("cores such as 4c or memory such as 16GiB for the group"));
        }
        if group.free_bytes.is_some_and(|free| free > group.memory_bytes) {
            return Err(word.wanted("no more free memory than the node has"));
        }
        let set_aside = group.huge.iter().map(|h| u128::from(h.page_bytes) * u128::from(h.pages));
        if set_aside.sum::<u128>() > u128::from(group.memory_bytes) {
            return Err(word.wanted("no more huge pages than the memory of the node holds"));
        }
        self.groups.push(group);
        self.said.retain(|name| name.starts_with(':'));
        Ok(())
    }

    fn group(&mut self, word: Word<'_>) -> Result<Group, SyntheticError> {
        let (count, ids) = word.cut('@');
        let digits = count.text.strip_suffix('n').unwrap_or("");
        let count = Word { text: digits, ..count }
            .number(1, NodeId::LIMIT, "a number of nodes")
            .map_err(|e| word.wanted(format!("nodes such as 2n or 2n@0,4 ({})", e.wanted)))?;
        let ids = match ids {
            None => self.ids_from(self.taken.last().map_or(0, |last| last.0 + 1), count, word)?,
            Some(list) => given_ids(list, count)?,
        };
        for &id in &ids {
            if !self.taken.insert(NodeId(id)) {
                return Err(word.wanted(format!("an id other than {id}, which is taken")));
            }
        }
        Ok(Group { ids, cores: 0, threads: 1, memory_bytes: 0, free_bytes: None, huge: vec![] })
    }

    fn ids_from(&self, first: u32, count: u32, word: Word<'_>) -> Result<Vec<u32>, SyntheticError> {
        if first + count > NodeId::LIMIT {
            return Err(word.wanted(format!("node ids below {}", NodeId::LIMIT)));
        }
        Ok((first..first + count).collect())
    }

    /// Records an option by name, and refuses a second one of that name.
    fn once(&mut self, name: &str, word: Word<'_>) -> Result<(), SyntheticError> {
        match self.said.insert(name.to_owned()) {
            true => Ok(()),
            false => Err(word.wanted("each thing only once")),
        }
    }

    fn machine_word(&mut self, word: Word<'a>) -> Result<bool, SyntheticError> {
        if word.text == "split" {
            self.once(":split", word)?;
            self.split_threads = true;
        } else if let Some(rule) = word.after("dist:") {
            self.once(":dist", word)?;
            self.distances = Some((rule, distance_rule(rule)?));
        } else if let Some(nodes) = word.after("snc:") {
            self.once(":snc", word)?;
            self.nodes_per_package = Some(nodes.number(1, NodeId::LIMIT, "nodes in a package")?);
        } else if let Some(cache) = word.after("L") {
            let rule = cache_rule(cache)?;
            self.once(&format!(":L{}{}", rule.level, rule.kind.suffix()), word)?;
            self.caches.push(rule);
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn group_word(&mut self, word: Word<'_>) -> Result<(), SyntheticError> {
        let counted = |suffix| word.text.strip_suffix(suffix).map(|text| Word { text, ..word });
        if let Some(cores) = counted('c') {
            let cores = cores.number(1, CpuId::LIMIT, "a number of cores")?;
            self.once("cores", word)?;
            self.set(|group| group.cores = cores);
        } else if let Some(threads) = counted('t') {
            let threads = threads.number(1, 64, "threads of a core")?;
            self.once("threads", word)?;
            self.set(|group| group.threads = threads);
        } else if let Some(free) = word.after("free:") {
            let free = free.bytes()?;
            self.once("free", word)?;
            self.set(|group| group.free_bytes = Some(free));
        } else if let Some(huge) = word.after("huge:") {
            let huge = huge_rule(huge)?;
            self.once(&format!("huge {}", huge.page_bytes), word)?;
            self.set(|group| group.huge.push(huge));
        } else {
            let memory = word.bytes().map_err(|_| word.wanted(WORDS))?;
            self.once("memory", word)?;
            self.set(|group| group.memory_bytes = memory);
        }
        Ok(())
    }

    fn set(&mut self, change: impl FnOnce(&mut Group)) {
        if let Some(group) = &mut self.open {
            change(group);
        }
    }

    fn finish(mut self, end: Word<'a>) -> Result<Synthetic, SyntheticError> {
        self.close(end)?;
        let cpus: u64 = self.groups.iter().map(cpus_of).sum();
        if cpus > u64::from(CpuId::LIMIT) {
            return Err(end.wanted(format!("at most {} CPUs, not {cpus}", CpuId::LIMIT)));
        }
        for group in &mut self.groups {
            group.huge.sort_by_key(|huge| huge.page_bytes);
        }
        self.caches.sort_by_key(|cache| (cache.level, cache.kind));
        Ok(Synthetic {
            distances: checked_distances(self.distances, self.taken.len())?,
            groups: self.groups,
            caches: self.caches,
            nodes_per_package: self.nodes_per_package.unwrap_or(1),
            split_threads: self.split_threads,
        })
    }
}

fn cpus_of(group: &Group) -> u64 {
    u64::from(group.count()) * u64::from(group.cores) * u64::from(group.threads)
}

fn given_ids(list: Word<'_>, count: u32) -> Result<Vec<u32>, SyntheticError> {
    let ids = list
        .split(',')
        .map(|id| id.number(0, NodeId::LIMIT - 1, "a node id"))
        .collect::<Result<Vec<_>, _>>()?;
    let rises = ids.is_sorted_by(|a, b| a < b);
    match rises && ids.len() == count as usize {
        true => Ok(ids),
        false => Err(list.wanted(format!("{count} node ids in rising order, such as 0,4"))),
    }
}

fn distance_rule(word: Word<'_>) -> Result<DistanceRule, SyntheticError> {
    let number = |part: Word<'_>| part.number(1, 255, "a distance");
    match word.text {
        "none" => return Ok(DistanceRule::Unknown),
        "ring" => return Ok(DistanceRule::Ring),
        _ => {}
    }
    if let (local, Some(remote)) = word.cut('/') {
        return Ok(DistanceRule::Flat { local: number(local)?, remote: number(remote)? });
    }
    let rows = word.split(';').map(|row| row.split(',').map(number).collect());
    Ok(DistanceRule::Matrix(rows.collect::<Result<_, _>>()?))
}

fn checked_distances(
    rule: Option<(Word<'_>, DistanceRule)>,
    nodes: usize,
) -> Result<DistanceRule, SyntheticError> {
    let Some((word, rule)) = rule else { return Ok(USUAL_DISTANCES) };
    match &rule {
        DistanceRule::Matrix(rows)
            if rows.len() != nodes || rows.iter().any(|row| row.len() != nodes) =>
        {
            Err(word.wanted(format!("{nodes} rows of {nodes} distances")))
        }
        _ => Ok(rule),
    }
}

fn cache_rule(word: Word<'_>) -> Result<CacheRule, SyntheticError> {
    let (name, size) = word.cut(':');
    let size = size.ok_or_else(|| word.wanted("a cache such as L2:1MiB or L3:32MiB/4c"))?;
    let (digits, kind) = match name.text.char_indices().last() {
        Some((at, 'd')) => (&name.text[..at], CacheKind::Data),
        Some((at, 'i')) => (&name.text[..at], CacheKind::Instruction),
        _ => (name.text, CacheKind::Unified),
    };
    let level = Word { text: digits, ..name }.number(1, 9, "a cache level")?;
    let (size, sharing) = size.cut('/');
    let sharing = sharing.map_or(Ok(Sharing::usual(level)), sharing_rule)?;
    Ok(CacheRule { level, kind, size_bytes: size.bytes()?, sharing })
}

fn sharing_rule(word: Word<'_>) -> Result<Sharing, SyntheticError> {
    match word.text.strip_suffix('c') {
        None if word.text == "n" => Ok(Sharing::Node),
        None => Err(word.wanted("who shares it: cores such as 4c, or n for the node")),
        Some(text) => {
            Word { text, ..word }.number(1, CpuId::LIMIT, "a number of cores").map(Sharing::Cores)
        }
    }
}

fn huge_rule(word: Word<'_>) -> Result<HugeRule, SyntheticError> {
    let (size, pages) = word.cut('*');
    let pages = pages.ok_or_else(|| word.wanted("huge pages such as 2MiB*512"))?;
    let count = pages.number(0, u32::MAX, "a number of huge pages")?;
    Ok(HugeRule { page_bytes: size.bytes()?, pages: u64::from(count) })
}
