//! Machines written in one line, for tests, scenarios and the command line.
//!
//! ```text
//! 2n 4c 2t 16GiB                              two nodes with 4 cores of 2 threads and 16 GiB each
//! 2n@0,2 4c 16GiB                             node ids 0 and 2; one thread in each core
//! 2n 8c 32GiB + 1n 128GiB                     a third node without CPUs, such as a CXL tier
//! 1n 4c 8GiB + 1n 4c                          a second node without memory
//! 2n 4c 16GiB dist:10/32                      local 10, remote 32 (left out: 10/20)
//! 4n 4c 16GiB dist:ring                       10 more for each step round the ring
//! 2n 4c 16GiB dist:10,15;25,10                the matrix, row by row: the way from each node
//! 2n 4c 16GiB dist:none                       distances unknown
//! 2n 4c 2t 16GiB L1d:32KiB L2:1MiB L3:32MiB   caches of every core (levels 1, 2) and node (from 3)
//! 1n 8c 16GiB L3:16MiB/4c                     a cache for every 4 cores
//! 2n 4c 16GiB free:1GiB huge:2MiB*512         of which free; huge pages set aside (all are free)
//! 4n 4c 2t 16GiB snc:2 split                  two nodes in a package; all first threads are
//!                                             numbered before all second threads
//! ```
//!
//! Groups of equal nodes are joined by `+`, and the words of a group may stand in any order. Words
//! for the whole machine (`dist:`, caches, `snc:`, `split`) may follow any group. Node ids that are
//! not given continue those of the previous group.

use std::fmt;

use crate::topology::CacheKind;

pub use parse::SyntheticError;

mod build;
mod parse;

/// A machine given by a one-line description. It prints as the shortest line with the same meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Synthetic {
    groups: Vec<NodeGroup>,
    distances: DistanceRule,
    caches: Vec<CacheRule>,
    nodes_per_package: u32,
    split_threads: bool,
}

/// Equal nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NodeGroup {
    ids: Vec<u32>,
    cores: u32,
    threads: u32,
    memory_bytes: u64,
    free_bytes: Option<u64>,
    huge: Vec<HugeRule>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct HugeRule {
    page_bytes: u64,
    pages: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum DistanceRule {
    Unknown,
    Flat { local: u32, remote: u32 },
    Ring,
    Matrix(Vec<Vec<u32>>),
}

const DEFAULT_DISTANCES: DistanceRule = DistanceRule::Flat { local: 10, remote: 20 };

#[derive(Clone, Debug, PartialEq, Eq)]
struct CacheRule {
    level: u32,
    kind: CacheKind,
    size_bytes: u64,
    sharing: Sharing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sharing {
    Cores(u32),
    Node,
}

impl Sharing {
    fn default_for(level: u32) -> Self {
        if level < 3 { Self::Cores(1) } else { Self::Node }
    }
}

impl fmt::Display for Synthetic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut next_id = 0;
        for (position, group) in self.groups.iter().enumerate() {
            f.write_str(if position > 0 { " + " } else { "" })?;
            group.write(f, next_id)?;
            next_id = group.ids.last().map_or(next_id, |last| last + 1);
        }
        if self.distances != DEFAULT_DISTANCES {
            write!(f, " dist:{}", self.distances)?;
        }
        for cache in &self.caches {
            write!(f, " {cache}")?;
        }
        if self.nodes_per_package != 1 {
            write!(f, " snc:{}", self.nodes_per_package)?;
        }
        f.write_str(if self.split_threads { " split" } else { "" })
    }
}

impl NodeGroup {
    fn write(&self, f: &mut fmt::Formatter<'_>, next_id: u32) -> fmt::Result {
        write!(f, "{}n", self.ids.len())?;
        if !self.ids.iter().copied().eq(next_id..next_id + self.count()) {
            write!(f, "@{}", self.id_list())?;
        }
        if self.cores > 0 {
            write!(f, " {}c", self.cores)?;
        }
        if self.threads > 1 {
            write!(f, " {}t", self.threads)?;
        }
        if self.memory_bytes > 0 {
            write!(f, " {}", ExactSize(self.memory_bytes))?;
        }
        if let Some(free) = self.free_bytes {
            write!(f, " free:{}", ExactSize(free))?;
        }
        self.huge.iter().try_for_each(|huge| write!(f, " {huge}"))
    }

    fn count(&self) -> u32 {
        u32::try_from(self.ids.len()).unwrap_or(u32::MAX)
    }

    fn id_list(&self) -> String {
        let texts: Vec<_> = self.ids.iter().map(u32::to_string).collect();
        texts.join(",")
    }
}

impl fmt::Display for HugeRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "huge:{}*{}", ExactSize(self.page_bytes), self.pages)
    }
}

impl fmt::Display for DistanceRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("none"),
            Self::Flat { local, remote } => write!(f, "{local}/{remote}"),
            Self::Ring => f.write_str("ring"),
            Self::Matrix(rows) => {
                let row_text =
                    |row: &Vec<u32>| row.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
                f.write_str(&rows.iter().map(row_text).collect::<Vec<_>>().join(";"))
            }
        }
    }
}

impl fmt::Display for CacheRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "L{}{}:{}", self.level, self.kind.suffix(), ExactSize(self.size_bytes))?;
        match self.sharing {
            usual if usual == Sharing::default_for(self.level) => Ok(()),
            Sharing::Cores(cores) => write!(f, "/{cores}c"),
            Sharing::Node => f.write_str("/n"),
        }
    }
}

/// A number of bytes, shown in the largest unit that divides it.
struct ExactSize(u64);

impl fmt::Display for ExactSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB"), (0, "B")];
        let fits = |&&(shift, _): &&(u32, &str)| self.0 >> shift << shift == self.0;
        let (shift, unit) = units.iter().find(fits).copied().unwrap_or((0, "B"));
        write!(f, "{}{unit}", self.0 >> shift)
    }
}

#[cfg(test)]
mod tests;
