//! Memory of the requested kind, as a list of pages.

use std::fs::File;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::atomic::AtomicU64;

use anyhow::{Context, Result, ensure};
use nodeward_linux::own_process::{AreaAdvice, AreaBacking, MappedArea};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::args::{Args, MemoryKind};

/// One base page.
pub type PageWords<'a> = &'a [AtomicU64];

const HUGE_BYTES: usize = 2 << 20;
const FRAME_WORDS: usize = 8 << 10; // 64 KiB of stack a call
const STACK_BYTES_MAX: usize = 96 << 20; // the kernel leaves 128 MiB below every stack

/// Sets up the memory, hands its pages to `then`, and frees it.
pub fn with_memory<R>(args: &Args, then: impl FnOnce(&[PageWords]) -> Result<R>) -> Result<R> {
    let bytes = usize::try_from(args.size)?;
    ensure!(bytes >= page_bytes(), "--size is below one page; ask for more");
    match args.kind {
        MemoryKind::Heap => on_heap(bytes, then),
        MemoryKind::Stack => on_stack(bytes, then),
        MemoryKind::File | MemoryKind::PageCache => in_file(args, bytes, then),
        MemoryKind::Anonymous => spread_out(args, bytes, then),
        _ => in_area(args.kind, bytes, then),
    }
}

/// Returns the range of those pages that are written to all the time, out of `pages`.
pub fn hot_pages(args: &Args, pages: usize) -> Range<usize> {
    let hot = args.hot.map_or(pages, |bytes| bytes.div_ceil(page_bytes() as u64) as usize);
    let first = pages.saturating_sub(hot) / 2;
    first..pages.min(first + hot)
}

/// Returns the size of a base page in bytes.
pub fn page_bytes() -> usize {
    rustix::param::page_size()
}

fn in_area<R>(
    kind: MemoryKind,
    bytes: usize,
    then: impl FnOnce(&[PageWords]) -> Result<R>,
) -> Result<R> {
    let (backing, usage, step) = match kind {
        MemoryKind::Thp => (AreaBacking::Anonymous, Some(AreaAdvice::HugePages), HUGE_BYTES),
        MemoryKind::Hugetlb => (AreaBacking::Huge, None, HUGE_BYTES),
        MemoryKind::Shared => (AreaBacking::SharedAnonymous, None, page_bytes()),
        MemoryKind::Ksm => (AreaBacking::Anonymous, Some(AreaAdvice::Mergeable), page_bytes()),
        _ => (AreaBacking::Anonymous, Some(AreaAdvice::BasePages), page_bytes()),
    };
    let bytes = bytes.next_multiple_of(step);
    let room = if kind == MemoryKind::Thp { bytes + HUGE_BYTES } else { bytes };
    let area = MappedArea::map(room, backing).with_context(|| refusal(kind))?;
    usage.map_or(Ok(()), |usage| area.advise(usage)).context("madvise failed")?;
    if kind == MemoryKind::Mlocked {
        area.lock().context("cannot lock memory; raise `ulimit -l`")?;
    }
    let pages = pages(area.words(), step).take(bytes / page_bytes());
    then(&pages.collect::<Vec<_>>())
}

/// Anonymous memory, evenly over as many addresses and in as many mappings as are asked for.
fn spread_out<R>(
    args: &Args,
    bytes: usize,
    then: impl FnOnce(&[PageWords]) -> Result<R>,
) -> Result<R> {
    let wanted = bytes.div_ceil(page_bytes());
    let over = usize::try_from(args.over.unwrap_or(0))?.max(bytes).next_multiple_of(page_bytes());
    let area = MappedArea::map(over, AreaBacking::Unreserved)
        .context("cannot map so many addresses; lower --over")?;
    divide(&area, args.mappings as usize).context("cannot divide it; lower --mappings")?;
    let every = over / page_bytes() / wanted;
    then(&pages(area.words(), page_bytes()).step_by(every).take(wanted).collect::<Vec<_>>())
}

/// Divides an area into mappings of about the same size: the kernel keeps neighbours apart that
/// have not been given the same advice.
fn divide(area: &MappedArea, mappings: usize) -> std::io::Result<()> {
    let pages = area.bytes() / page_bytes();
    let at = |mapping: usize| (mapping * pages).div_ceil(mappings) * page_bytes();
    area.advise(AreaAdvice::BasePages)?;
    let others = (1..mappings).step_by(2);
    others.map(|it| at(it)..at(it + 1)).filter(|part| !part.is_empty()).try_for_each(|part| {
        // No huge page fits there, and the load has switched them off.
        area.advise_part(part, AreaAdvice::HugePages)
    })
}

fn refusal(kind: MemoryKind) -> &'static str {
    match kind {
        MemoryKind::Hugetlb => "the pool has too few free huge pages; raise vm.nr_hugepages",
        _ => "cannot map that much memory; lower --size",
    }
}

fn in_file<R>(
    args: &Args,
    bytes: usize,
    then: impl FnOnce(&[PageWords]) -> Result<R>,
) -> Result<R> {
    let directory = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    let file = file_of(&directory, bytes)
        .with_context(|| format!("cannot make a file in {}; choose --dir", directory.display()))?;
    let backing = match args.kind {
        MemoryKind::File => AreaBacking::PrivateFile(file.as_fd()),
        _ => AreaBacking::SharedFile(file.as_fd()),
    };
    let area = MappedArea::map(bytes.next_multiple_of(page_bytes()), backing)?;
    then(&pages(area.words(), page_bytes()).collect::<Vec<_>>())
}

fn file_of(directory: &std::path::Path, bytes: usize) -> std::io::Result<File> {
    let file = tempfile::tempfile_in(directory)?;
    file.set_len(bytes.next_multiple_of(page_bytes()) as u64)?;
    Ok(file)
}

/// Allocates memory on the heap, in chunks small enough that the allocator takes them from brk and
/// not from mmap, and long enough that little is lost where they do not begin at a page.
fn on_heap<R>(bytes: usize, then: impl FnOnce(&[PageWords]) -> Result<R>) -> Result<R> {
    let chunk = 120 << 10;
    let words = chunk / size_of::<AtomicU64>() - 2; // the allocator adds 16 bytes
    let usable = (chunk / page_bytes() - 1).max(1);
    let wanted = bytes.div_ceil(page_bytes());
    let chunks: Vec<Box<[AtomicU64]>> =
        (0..wanted.div_ceil(usable)).map(|_| zeros(words)).collect();
    let all = chunks.iter().flat_map(|chunk| pages(chunk, page_bytes()));
    then(&all.take(wanted).collect::<Vec<_>>())
}

fn zeros(words: usize) -> Box<[AtomicU64]> {
    (0..words).map(|_| AtomicU64::new(0)).collect()
}

/// One call of the recursion that makes the stack deep.
struct StackFrame<'a> {
    words: &'a [AtomicU64],
    caller: Option<&'a StackFrame<'a>>,
}

fn on_stack<R>(bytes: usize, then: impl FnOnce(&[PageWords]) -> Result<R>) -> Result<R> {
    ensure!(bytes <= STACK_BYTES_MAX, "a stack holds 96 MiB at most; lower --size");
    let limit = getrlimit(Resource::Stack);
    let current = Some((bytes + bytes / 8 + HUGE_BYTES) as u64);
    setrlimit(Resource::Stack, Rlimit { current, maximum: limit.maximum })
        .context("the stack may not be that deep; raise `ulimit -Hs`")?;
    let wanted = bytes.div_ceil(page_bytes());
    let usable = (FRAME_WORDS * size_of::<AtomicU64>() / page_bytes() - 1).max(1);
    let mut then = Some(then);
    descend(wanted.div_ceil(usable), None, &mut |frames| {
        let all = frames.iter().flat_map(|words| pages(words, page_bytes())).take(wanted);
        then.take().map(|then| then(&all.collect::<Vec<_>>()))
    })
    .context("the stack was never reached")?
}

#[inline(never)]
fn descend<R>(
    calls: usize,
    caller: Option<&StackFrame>,
    bottom: &mut dyn FnMut(&[&[AtomicU64]]) -> R,
) -> R {
    if calls == 0 {
        let chain = std::iter::successors(caller, |frame| frame.caller);
        return bottom(&chain.map(|frame| frame.words).collect::<Vec<_>>());
    }
    let words = [const { AtomicU64::new(0) }; FRAME_WORDS];
    descend(calls - 1, Some(&StackFrame { words: &words, caller }), bottom)
}

/// Divides memory into pages, from the first multiple of `align_bytes` on.
fn pages(words: &[AtomicU64], align_bytes: usize) -> impl Iterator<Item = PageWords<'_>> {
    let address = words.as_ptr() as usize;
    let skipped = (address.next_multiple_of(align_bytes) - address) / size_of::<AtomicU64>();
    words[skipped.min(words.len())..].chunks_exact(page_bytes() / size_of::<AtomicU64>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use std::collections::BTreeSet;
    use std::sync::atomic::Ordering::Relaxed;

    fn addresses(kind: &str, size: &str) -> BTreeSet<usize> {
        let line = ["load", "--kind", kind, "--size", size];
        with_memory(&Args::parse_from(line), |pages| {
            pages.iter().for_each(|page| page[0].store(1, Relaxed));
            Ok(pages.iter().map(|page| page.as_ptr() as usize).collect())
        })
        .unwrap()
    }

    /// Goal: every kind that all hosts offer yields the requested pages, each once and
    /// page-aligned. (The pool of huge pages is empty on most hosts; stacks need a thread whose
    /// stack may grow.)
    #[test]
    fn every_kind_yields_whole_pages() {
        for kind in ["heap", "anonymous", "thp", "shared", "file", "page-cache", "ksm", "mlocked"] {
            let pages = addresses(kind, "2MiB");
            assert_eq!(pages.len(), (2 << 20) / page_bytes(), "{kind}");
            assert!(pages.iter().all(|address| address % page_bytes() == 0), "{kind}");
        }
    }

    /// Goal: memory for huge pages begins at a huge page boundary.
    #[test]
    fn huge_pages_are_aligned() {
        let first = *addresses("thp", "4MiB").first().unwrap();
        assert_eq!(first % HUGE_BYTES, 0);
    }

    /// Goal: the hot range is in the middle and at most everything.
    #[test]
    fn hot_pages_lie_in_the_middle() {
        let hot =
            |size: &str| hot_pages(&Args::parse_from(["load", "--hot", size]), 100 << 20 >> 12);
        // 100 MiB less 20 MiB leave 40 MiB, or 10240 pages, on each side.
        assert_eq!(hot("20MiB"), 10_240..15_360);
        assert_eq!(hot("1TiB"), 0..25_600);
        assert_eq!(hot_pages(&Args::parse_from(["load"]), 7), 0..7);
    }

    /// Goal: pages are spread over all addresses that are asked for, and over all mappings.
    #[test]
    fn pages_are_spread_over_addresses_and_mappings() {
        let line = ["load", "--size", "1MiB", "--over", "64GiB", "--mappings", "8"];
        let (spread, mappings) = with_memory(&Args::parse_from(line), |pages| {
            let addresses: Vec<usize> = pages.iter().map(|page| page.as_ptr() as usize).collect();
            let maps = std::fs::read_to_string("/proc/self/maps")?;
            let starts = maps.lines().filter_map(|line| line.split('-').next());
            let starts = starts.filter_map(|start| usize::from_str_radix(start, 16).ok());
            let within = addresses[0]..=addresses[255];
            let distances: BTreeSet<usize> = addresses.windows(2).map(|w| w[1] - w[0]).collect();
            Ok((distances, starts.filter(|start| within.contains(start)).count()))
        })
        .unwrap();
        // 64 GiB / 256 pages = 256 MiB; the first mapping may go on from one before.
        assert_eq!(spread, BTreeSet::from([256 << 20]));
        assert!((7..=8).contains(&mappings), "{mappings}");
    }

    /// Goal: impossible sizes are refused with a message.
    #[test]
    fn impossible_sizes_are_refused() {
        for (kind, size) in [("stack", "1G"), ("anonymous", "1")] {
            let args = Args::parse_from(["load", "--kind", kind, "--size", size]);
            let error = with_memory(&args, |_| Ok(())).unwrap_err().to_string();
            assert!(error.contains("--size") || error.contains("at most"), "{error}");
        }
    }
}
