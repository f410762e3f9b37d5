//! Reads the page lists of all CPUs from /proc/zoneinfo. What cannot be read is an error, because
//! a length that is taken for 0 would look like a list that is switched off.

use std::path::Path;

use nodeward_machine::Error;
use nodeward_model::{CpuId, NodeId, PageList, ZoneLists};

use super::zoneinfo;

/// Returns every zone that has page lists.
///
/// # Errors
/// If the file cannot be read, or a line of it cannot be understood.
pub fn zones(root: &Path) -> nodeward_machine::Result<Vec<ZoneLists>> {
    let text = zoneinfo::read(root)?;
    parse(&text).map_err(|UnreadableLine { line, expected }| Error::Parse {
        path: zoneinfo::path(root),
        line,
        expected,
    })
}

/// A line that is not what the kernel writes, counted from 1.
#[derive(Debug, PartialEq, Eq)]
struct UnreadableLine {
    line: usize,
    expected: String,
}

/// Parses the file. A zone has `pages free N` and its watermarks (`high N`) first, then, behind
/// `pagesets`, for each CPU `cpu: N` and `count: N`, `high: N`, `batch: N`, in newer kernels (6.18,
/// not 6.12) also `high_min: N` and `high_max: N`. The kernel leaves out CPUs that are offline, and
/// the lists of zones without pages.
fn parse(text: &str) -> Result<Vec<ZoneLists>, UnreadableLine> {
    let mut zones: Vec<ZoneLists> = Vec::new();
    let mut list: Option<ListLines> = None;
    for (line, text) in text.lines().enumerate().map(|(at, text)| (at + 1, text)) {
        let mut words = text.split_ascii_whitespace();
        let (Some(key), Some(value)) = (words.next(), words.next_back()) else { continue };
        let value = Value { line, key, text: value };
        if matches!(key, "Node" | "cpu:") {
            finish(&mut zones, list.take())?;
        }
        match (key, zones.last_mut(), &mut list) {
            ("Node", ..) if text.contains(", zone") => zones.push(zone(text, line)?),
            ("pages", Some(zone), None) => zone.free_pages = value.number()?,
            ("high", Some(zone), None) => zone.high_watermark_pages = value.number()?,
            ("managed", Some(zone), None) => zone.managed_pages = value.number()?,
            ("cpu:", Some(_), _) => list = Some(ListLines::new(&value)?),
            (_, Some(_), Some(list)) => list.read(&value)?,
            _ => {}
        }
    }
    finish(&mut zones, list)?;
    zones.retain(|zone| !zone.lists.is_empty());
    Ok(zones)
}

/// Adds a list to the last zone.
fn finish(zones: &mut [ZoneLists], list: Option<ListLines>) -> Result<(), UnreadableLine> {
    if let (Some(zone), Some(list)) = (zones.last_mut(), list) {
        zone.lists.push(list.finish()?);
    }
    Ok(())
}

/// Parses the first line of a zone: `Node 0, zone   Normal`.
fn zone(text: &str, line: usize) -> Result<ZoneLists, UnreadableLine> {
    let (node, zone) = text.split_once(", zone").unwrap_or_default();
    let node = Value { line, key: "Node", text: node.trim_start_matches("Node ") };
    Ok(ZoneLists {
        node: NodeId(node.small_number()?),
        zone: zone.trim().to_owned(),
        managed_pages: 0,
        free_pages: 0,
        high_watermark_pages: 0,
        lists: Vec::new(),
    })
}

/// The value of a line.
struct Value<'a> {
    line: usize,
    key: &'a str,
    text: &'a str,
}

impl Value<'_> {
    fn number(&self) -> Result<u64, UnreadableLine> {
        self.text.parse().map_err(|_| self.unreadable())
    }

    fn small_number(&self) -> Result<u32, UnreadableLine> {
        self.text.parse().map_err(|_| self.unreadable())
    }

    fn unreadable(&self) -> UnreadableLine {
        let key = self.key.trim_end_matches(':');
        UnreadableLine { line: self.line, expected: format!("a number behind '{key}'") }
    }
}

/// The lines of a list, as far as they are read.
struct ListLines {
    /// The line that begins it.
    line: usize,
    cpu: CpuId,
    count: Option<u64>,
    high: Option<u64>,
    batch: Option<u64>,
    high_min: Option<u64>,
    high_max: Option<u64>,
}

impl ListLines {
    fn new(cpu: &Value<'_>) -> Result<Self, UnreadableLine> {
        let (line, cpu) = (cpu.line, CpuId(cpu.small_number()?));
        Ok(Self { line, cpu, count: None, high: None, batch: None, high_min: None, high_max: None })
    }

    fn read(&mut self, value: &Value<'_>) -> Result<(), UnreadableLine> {
        let field = match value.key {
            "count:" => &mut self.count,
            "high:" => &mut self.high,
            "batch:" => &mut self.batch,
            "high_min:" => &mut self.high_min,
            "high_max:" => &mut self.high_max,
            _ => return Ok(()),
        };
        *field = Some(value.number()?);
        Ok(())
    }

    fn finish(self) -> Result<PageList, UnreadableLine> {
        let (Some(count_pages), Some(high_pages), Some(batch_pages)) =
            (self.count, self.high, self.batch)
        else {
            let expected = format!("count, high and batch of the list of CPU {}", self.cpu);
            return Err(UnreadableLine { line: self.line, expected });
        };
        let (high_min_pages, high_max_pages) = (self.high_min, self.high_max);
        Ok(PageList {
            cpu: self.cpu,
            count_pages,
            high_pages,
            batch_pages,
            high_min_pages,
            high_max_pages,
        })
    }
}

#[cfg(test)]
mod tests;
