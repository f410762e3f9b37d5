//! Reads cores and caches. A core is read once for all its threads, a cache once for all its CPUs.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::thread;

use nodeward_machine::Result;
use nodeward_model::topology::{Cache, CacheKind, Core, Node};
use nodeward_model::{CpuId, Cpumask, NodeId};

use super::files::{Dir, ReadBuffer, SysfsFile};

/// The number of CPUs from which a second thread pays off.
const CPUS_FOR_TWO_READERS: usize = 64;

/// Returns all cores and caches of the online CPUs.
pub(super) fn read(
    dir: &Dir,
    online: &Cpumask,
    nodes: &BTreeMap<NodeId, Node>,
) -> Result<CoresAndCaches> {
    let shares = node_cpus(online, nodes);
    let (mut cores, mut caches) = if online.len() < CPUS_FOR_TWO_READERS {
        read_nodes(dir, &shares)?
    } else {
        read_by_two(dir, shares)?
    };
    // A cache that spans two nodes was found from each of them.
    cores.sort_by_key(|core| core.cpus.first());
    cores.dedup_by(|a, b| a.cpus == b.cpus);
    caches.sort_by_key(|c| (c.level, c.kind, c.cpus.first()));
    caches.dedup();
    Ok((cores, caches))
}

type CoresAndCaches = (Vec<Core>, Vec<Cache>);

/// The CPUs of one node, or the CPUs of no node.
type NodeCpus = (Option<NodeId>, Cpumask);

fn node_cpus(online: &Cpumask, nodes: &BTreeMap<NodeId, Node>) -> Vec<NodeCpus> {
    let mut without_node = online.clone();
    let mut shares = Vec::new();
    for (&id, node) in nodes {
        without_node = without_node.without(&node.cpus);
        shares.push((Some(id), node.cpus.and(online)));
    }
    shares.push((None, without_node));
    shares.retain(|(_, cpus)| !cpus.is_empty());
    shares
}

/// Gives every second node to each of two threads: threads of a core and sharers of most caches
/// stay together.
fn read_by_two(dir: &Dir, shares: Vec<NodeCpus>) -> Result<CoresAndCaches> {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for (position, share) in shares.into_iter().enumerate() {
        if position % 2 == 0 { ours.push(share) } else { theirs.push(share) }
    }
    let (ours, theirs) = thread::scope(|scope| {
        let other = scope.spawn(|| read_nodes(dir, &theirs));
        let ours = read_nodes(dir, &ours);
        let theirs = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (ours, theirs)
    });
    let ((mut cores, mut caches), (more_cores, more_caches)) = (ours?, theirs?);
    cores.extend(more_cores);
    caches.extend(more_caches);
    Ok((cores, caches))
}

fn read_nodes(dir: &Dir, shares: &[NodeCpus]) -> Result<CoresAndCaches> {
    let mut reader = CpuReader::new(dir);
    for (node, cpus) in shares {
        for cpu in cpus.iter() {
            reader.core(cpu, *node)?;
            reader.caches(cpu)?;
        }
    }
    Ok((reader.cores, reader.caches))
}

struct CpuReader<'a> {
    dir: &'a Dir,
    buffer: ReadBuffer,
    name: String,
    cores: Vec<Core>,
    in_cores: Cpumask,
    caches: Vec<Cache>,
    /// For each cache index the CPUs whose cache of that index was read.
    covered: Vec<Cpumask>,
    /// For each cache index the shape of the last cache.
    cache_shapes: Vec<Option<CacheShape>>,
    packages: Vec<(Cpumask, Option<u32>)>,
}

#[derive(Clone, Copy)]
struct CacheShape {
    size_bytes: Option<u64>,
    level: u32,
    kind: CacheKind,
}

impl<'a> CpuReader<'a> {
    fn new(dir: &'a Dir) -> Self {
        Self {
            dir,
            buffer: ReadBuffer::default(),
            name: String::new(),
            cores: Vec::new(),
            in_cores: Cpumask::new(),
            caches: Vec::new(),
            covered: Vec::new(),
            cache_shapes: Vec::new(),
            packages: Vec::new(),
        }
    }

    fn core(&mut self, cpu: CpuId, node: Option<NodeId>) -> Result<()> {
        if self.in_cores.contains(cpu) {
            return Ok(());
        }
        let mut cpus = self.siblings(cpu)?.unwrap_or_default();
        cpus.insert(cpu);
        self.in_cores.extend(cpus.iter());
        let package = self.package(cpu)?;
        self.cores.push(Core { cpus, package, node });
        Ok(())
    }

    fn siblings(&mut self, cpu: CpuId) -> Result<Option<Cpumask>> {
        let Some(file) = self.file(format_args!("cpu{cpu}/topology/thread_siblings_list"))? else {
            return Ok(None);
        };
        file.list().map(Some)
    }

    /// Returns the package of a CPU, read once for all its CPUs.
    fn package(&mut self, cpu: CpuId) -> Result<Option<u32>> {
        if let Some((_, package)) = self.packages.iter().find(|(cpus, _)| cpus.contains(cpu)) {
            return Ok(*package);
        }
        let file = self.file(format_args!("cpu{cpu}/topology/physical_package_id"))?;
        let number: Option<i64> = file.map(|file| file.number()).transpose()?;
        let package = number.and_then(|number| u32::try_from(number).ok()); // -1: not known
        if let Some(file) = self.file(format_args!("cpu{cpu}/topology/core_siblings_list"))? {
            let cpus = file.list()?;
            self.packages.push((cpus, package));
        }
        Ok(package)
    }

    fn caches(&mut self, cpu: CpuId) -> Result<()> {
        let is_known = |covered: &Vec<Cpumask>| covered.iter().all(|cpus| cpus.contains(cpu));
        if !self.covered.is_empty() && is_known(&self.covered) {
            return Ok(());
        }
        for index in 0.. {
            if self.covered.get(index).is_some_and(|cpus| cpus.contains(cpu)) {
                continue;
            }
            let Some(cache) = self.cache(cpu, index)? else { break };
            if self.covered.len() <= index {
                self.covered.resize_with(index + 1, Cpumask::new);
            }
            self.covered[index].extend(cache.cpus.iter());
            self.caches.push(cache);
        }
        Ok(())
    }

    /// Returns the cache with an index of a CPU; `None` after the last one.
    fn cache(&mut self, cpu: CpuId, index: usize) -> Result<Option<Cache>> {
        let size_bytes = match self.cache_file(cpu, index, "size")? {
            Some(file) => Some(cache_bytes(&file)?),
            None => None,
        };
        let Some(CacheShape { level, kind, .. }) = self.cache_shape(cpu, index, size_bytes)? else {
            return Ok(None);
        };
        let mut cpus = match self.cache_file(cpu, index, "shared_cpu_list")? {
            Some(file) => file.list()?,
            None => Cpumask::new(),
        };
        cpus.insert(cpu);
        Ok(Some(Cache { level, kind, size_bytes, cpus }))
    }

    /// Returns level and kind. Caches of one index and one size are taken to be alike, so they are
    /// read once on a machine with equal cores, and at each change of the size on one with several
    /// kinds of cores.
    fn cache_shape(
        &mut self,
        cpu: CpuId,
        index: usize,
        size_bytes: Option<u64>,
    ) -> Result<Option<CacheShape>> {
        let known = self.cache_shapes.get(index).copied().flatten();
        if known.is_some_and(|shape| size_bytes.is_some() && shape.size_bytes == size_bytes) {
            return Ok(known);
        }
        let Some(level) = self.cache_file(cpu, index, "level")? else { return Ok(None) };
        let level = level.number()?;
        let kind = match self.cache_file(cpu, index, "type")? {
            Some(file) => cache_kind(&file)?,
            None => CacheKind::Unified,
        };
        let shape = CacheShape { size_bytes, level, kind };
        if self.cache_shapes.len() <= index {
            self.cache_shapes.resize(index + 1, None);
        }
        self.cache_shapes[index] = Some(shape);
        Ok(Some(shape))
    }

    fn cache_file(
        &mut self,
        cpu: CpuId,
        index: usize,
        field: &str,
    ) -> Result<Option<SysfsFile<'_>>> {
        self.file(format_args!("cpu{cpu}/cache/index{index}/{field}"))
    }

    fn file(&mut self, name: std::fmt::Arguments<'_>) -> Result<Option<SysfsFile<'_>>> {
        self.name.clear();
        // Writing into a String cannot fail.
        let _ = self.name.write_fmt(name);
        self.dir.read(&self.name, &mut self.buffer)
    }
}

fn cache_kind(file: &SysfsFile<'_>) -> Result<CacheKind> {
    match file.text.trim() {
        "Data" => Ok(CacheKind::Data),
        "Instruction" => Ok(CacheKind::Instruction),
        "Unified" => Ok(CacheKind::Unified),
        _ => Err(file.unexpected("Data, Instruction or Unified")),
    }
}

/// Parses a size as the kernel prints it: `32768K`.
fn cache_bytes(file: &SysfsFile<'_>) -> Result<u64> {
    let kib = file.text.trim().strip_suffix('K').and_then(|kib| kib.parse::<u64>().ok());
    let bytes = kib.and_then(|kib| kib.checked_mul(1024));
    bytes.ok_or_else(|| file.unexpected("a size in KiB such as 32768K"))
}
